"""Event streams from real processes: what an EventSource or a reader of lines gets (NETWORK 3)."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest

from node.events.source import cursor_of
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE
from tests.support.two_processes import process_of

THREAD = {"title": "Looking for a parser", "body": "Who can parse a large table of numbers for me today?"}
OFFER = {"publisher_id": "desk", "title": "Count the apples in this picture"}
NO_LIMITS = {f"RELAY_LIMIT_{name}": "0" for name in ("BOARD", "TASK", "REPLY", "SESSION", "LINE")}
OTHER = "127.0.0.2"
SSE, LINES = "text/event-stream", "application/x-ndjson"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        many = {"RELAY_LIMIT_STREAM": "1000/60", "RELAY_SESSION_MAX_BYTES": str(2**26)}
        yield node.start(**NO_LIMITS, **many).ready()


@asynccontextmanager
async def client_of(node: NodeProcess, address: str = "127.0.0.1") -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.AsyncHTTPTransport(local_address=address)
    async with httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE, transport=transport) as client:
        yield client


@asynccontextmanager
async def followed(
    node: NodeProcess, topic: str, *, form: str = SSE, last: str = "", address: str = "127.0.0.1", **query: str
) -> AsyncGenerator[tuple[httpx2.Response, AsyncIterator[dict[str, Any]]]]:
    """Open a stream; yield its response and its events. Heartbeats are dropped, except for the first one, since an
    event may take long.

    The timeout applies to each event, however many there are.
    """
    headers = {"Accept": form} | ({"Last-Event-ID": last} if last else {})
    async with (
        client_of(node, address) as client,
        client.stream("GET", "/api/v1/events", params={"topic": topic, **query}, headers=headers) as stream,
    ):
        yield stream, begun_by_a_heartbeat((sse if form == SSE else lines)(stream))


async def begun_by_a_heartbeat(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    yield await anext(events)
    while event := await after_heartbeats(events):
        yield event


async def after_heartbeats(events: AsyncIterator[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the next event that is no heartbeat; None at the end of the stream."""
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if event["type"] != "heartbeat":
                return event
    return None


async def sse(stream: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the events of a stream, parsed as the standard requires."""
    fields: dict[str, str] = {}
    async for line in stream.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            event = json.loads(fields["data"])
            assert (event["id"], event["type"]) == (fields["id"], fields["event"])
            yield event
            fields = {}
        elif "retry" in fields:
            yield {"type": "retry", "ms": int(fields["retry"])}
            fields = {}


async def lines(stream: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in stream.aiter_lines():
        yield json.loads(line)


async def post(node: NodeProcess, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with client_of(node) as client:
        response = await client.post(path, json=body)
        assert response.is_success, response.text
        return response.json()


@pytest.mark.parametrize("form", [SSE, LINES])
async def test_a_stream_says_where_it_is_and_then_what_happens(served: NodeProcess, form: str) -> None:
    async with followed(served, "tasks", form=form) as (response, events):
        assert response.headers["content-type"] == form
        assert (await anext(events))["type"] == "heartbeat"
        offered = await post(served, "/api/v1/tasks", OFFER)
        while (event := await anext(events))["data"]["id"] != offered["id"]:
            pass  # events of earlier tests may reach the feed late
    assert event["type"] == "task.offered"
    assert "publisher_token" not in event["data"]


@pytest.mark.parametrize("form", [SSE, LINES])
async def test_line_breaks_in_a_result_do_not_end_its_event(served: NodeProcess, form: str) -> None:
    """Neither those of indented JSON nor those of Unicode, at which httpx splits lines."""
    offered = await post(served, "/api/v1/tasks", OFFER)
    task = f"/api/v1/tasks/{offered['id']}"
    claimed = await post(served, f"{task}/claim", {"assignee_id": "worker-1"})
    result = {"pages": [1, 2], "said": "one\n\ntwo\x85three\u2028four\u2029"}
    async with followed(served, f"task:{offered['id']}", form=form) as (_, events), client_of(served) as client:
        assert (await anext(events))["type"] == "heartbeat"
        done = {"claim_token": claimed["claim_token"], "result_payload": result}
        indented = json.dumps(done, indent=1, ensure_ascii=False)
        content = indented.replace("\n", "\r\n\n")
        await client.post(f"{task}/complete", content=content, headers={"content-type": "application/json"})
        event = await anext(events)
    assert (event["type"], event["data"]["result_payload"]) == ("task.completed", result)


async def test_followers_of_all_processes_get_every_event_once_and_go_on_where_they_were(served: NodeProcess) -> None:
    processes: set[str] = set()
    seen: dict[int, list[str]] = {number: [] for number in range(6)}
    offered: list[str] = []
    offer_of_this_test = {**OFFER, "publisher_id": "herald"}  # events of earlier tests may reach the feed late
    begun = asyncio.Barrier(len(seen) + 1)

    async def follow(number: int) -> None:
        last = ""
        while len(seen[number]) < 30:  # after seven events, open a new connection, perhaps to the other process
            # Each follower has its own address: its previous stream may still be counted when it opens the next.
            async with followed(served, "tasks", last=last, address=f"127.0.1.{number + 1}") as (response, events):
                processes.add(process_of(response.headers["x-request-id"]))
                if not last:
                    last = (await anext(events))["id"]
                    await begun.wait()
                for _ in range(7):
                    event = await anext(events)
                    last = event["id"]
                    if event["type"] == "task.offered" and event["data"]["publisher_id"] == "herald":
                        seen[number].append(event["data"]["id"])
                    if len(seen[number]) == 30:
                        return

    async def offer() -> None:
        await begun.wait()
        for _ in range(30):
            offered.append((await post(served, "/api/v1/tasks", offer_of_this_test))["id"])

    async with asyncio.TaskGroup() as work:
        for number in seen:
            work.create_task(follow(number))
        work.create_task(offer())
    assert len(processes) == 2
    for ids in seen.values():
        assert sorted(ids) == sorted(offered)


async def test_a_page_a_stream_and_last_event_id_have_the_same_cursors(served: NodeProcess) -> None:
    thread = await post(served, "/api/v1/board", THREAD)
    topic = f"thread:{thread['id']}"
    for number in range(4):
        await post(served, f"/api/v1/board/{thread['id']}/replies", {"body": f"I can do it, says agent {number}."})
    async with client_of(served) as client:
        page = (await client.get("/api/v1/events", params={"topic": topic, "cursor": "earliest"})).json()
    cursor = page["events"][1]["id"]
    for given in ({"cursor": cursor}, {"last": cursor, "cursor": "earliest"}):
        async with followed(served, topic, **given) as (_, events):
            assert (await anext(events)) | {"at": ""} == {"id": cursor, "type": "heartbeat", "at": ""}
            assert [await anext(events) for _ in range(3)] == page["events"][2:]


async def test_a_destroyed_session_ends_its_streams(served: NodeProcess) -> None:
    session = await post(served, "/api/v1/sessions", {})
    path = f"/api/v1/sessions/{session['session_id']}"
    async with followed(served, f"session:{session['session_id']}") as (_, events):
        await anext(events)
        await post(served, f"{path}/messages", {"body": "one line"})
        assert (await anext(events))["data"]["body"] == "one line"
        await post(served, f"{path}/destroy", {"destroy_token": session["destroy_token"]})
        assert [event["type"] async for event in events] == ["retry"]
    async with client_of(served) as client:
        gone = await client.get("/api/v1/events", params={"topic": f"session:{session['session_id']}"})
    assert gone.status_code == 404


async def test_who_was_away_for_too_long_is_told_and_goes_on_with_the_oldest(served: NodeProcess) -> None:
    session = await post(served, "/api/v1/sessions", {})
    topic = f"session:{session['session_id']}"
    await post(served, f"/api/v1/sessions/{session['session_id']}/messages", {"body": "one line"})
    lost = cursor_of(topic, (1, 7))  # of lines that a failover lost, according to the session's epoch
    async with client_of(served) as client:
        page = await client.get("/api/v1/events", params={"topic": topic, "cursor": lost})
        assert (page.status_code, page.headers["x-error-code"]) == (410, "cursor.too_old")
        oldest = page.headers["oldest-cursor"]
        stream = await client.get("/api/v1/events", params={"topic": topic, "cursor": lost}, headers={"Accept": SSE})
        assert (stream.status_code, stream.headers["oldest-cursor"]) == (410, oldest)
    async with followed(served, topic, last=lost) as (_, events):
        reset, line = await anext(events), await anext(events)
    assert (reset["type"], reset["id"]) == ("reset", oldest)
    assert line["data"]["body"] == "one line"


async def test_a_reader_that_stops_reading_is_cut_and_others_are_not(served: NodeProcess) -> None:
    session = await post(served, "/api/v1/sessions", {"ttl_seconds": 600})
    topic, line = f"session:{session['session_id']}", "x" * 65_000
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(f"GET /api/v1/events?topic={topic} HTTP/1.1\r\nHost: node\r\nAccept: {SSE}\r\n\r\n".encode())
        head = slow.recv(4096, socket.MSG_PEEK).decode()
        assert head.startswith("HTTP/1.1 200")
        process = process_of(head.lower().partition("x-request-id: ")[2])
        async with AsyncExitStack() as stack:
            while True:  # until the same process serves both: once one of them has been sent an event, so has the other
                response, events = await stack.enter_async_context(followed(served, topic, form=LINES))
                if response.headers["x-request-id"].startswith(process):
                    break
                await stack.pop_all().aclose()
            await anext(events)
            for seq in range(1, 110):
                await post(served, f"/api/v1/sessions/{session['session_id']}/messages", {"body": line})
                assert (await anext(events))["data"]["seq"] == seq
        slow.settimeout(PATIENCE)
        received = await asyncio.to_thread(_until_closed, slow)
    assert received < 109 * len(line)


def _until_closed(reader: socket.socket) -> int:
    """Return how many bytes arrive before the other side closes the connection."""
    received = 0
    with suppress(ConnectionResetError):
        while piece := reader.recv(2**16):
            received += len(piece)
    return received


async def test_one_client_may_have_ten_streams_and_another_one_when_it_has_left_one(served: NodeProcess) -> None:
    async with asyncio.timeout(PATIENCE), client_of(served) as client:
        open_streams: list[httpx2.Response] = []
        request = client.build_request(
            "GET", "/api/v1/events", params={"topic": "board"}, headers={"Accept": SSE, "X-Forwarded-For": "1"}
        )
        while len(open_streams) < 10:
            response = await client.send(request, stream=True)
            if response.status_code == 200:
                open_streams.append(response)
            else:  # the node has not yet noticed that a stream of another test is over
                await response.aclose()
                await asyncio.sleep(0.05)
        response = await client.send(request, stream=True)
        await response.aread()
        assert (response.status_code, response.headers["x-error-code"]) == (429, "quota.stream")
        await open_streams.pop().aclose()
        while (response := await client.send(request, stream=True)).status_code == 429:
            await response.aclose()
        open_streams.append(response)
        for stream in open_streams:
            await stream.aclose()


async def test_asking_for_no_more_than_the_head_of_a_stream_takes_no_place(served: NodeProcess) -> None:
    async with client_of(served) as client:
        for _ in range(11):
            head = await client.head("/api/v1/events", params={"topic": "board"}, headers={"Accept": SSE})
            assert (head.status_code, head.headers["content-type"]) == (200, SSE)
    async with followed(served, "board") as (stream, _):
        assert stream.status_code == 200


async def test_events_that_a_stream_looked_at_for_nothing_count_when_it_ends(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Otherwise a client that keeps starting streams at the feed's first event could use a third of a process."""
    with NodeProcess(tmp_path_factory.mktemp("counting")) as node:
        node.start(**NO_LIMITS, RELAY_WORKERS="1", RELAY_CLIENT_THROUGHPUT="1024").ready()
        async with asyncio.timeout(PATIENCE), client_of(node, OTHER) as other, client_of(node) as client:
            thread = [await post(node, "/api/v1/board", THREAD) for _ in range(100)][-1]
            copied = 0
            query: dict[str, str | int] = {"topic": "board", "cursor": "earliest", "limit": 10, "wait": 5}
            while copied < 100:  # small answers, which are not charged
                page = (await other.get("/api/v1/events", params=query)).json()
                copied, query["cursor"] = copied + len(page["events"]), page["cursor"]
            async with followed(node, "board", types="reply.added", cursor="earliest") as (_, events):
                await anext(events)
                reply = {"body": "I can, says the agent."}
                await other.post(f"/api/v1/board/{thread['id']}/replies", json=reply)  # replies are charged, too
                assert (await anext(events))["type"] == "reply.added"
                assert (await client.get("/api/v1/board?limit=1")).status_code == 200
            while (answer := await client.get("/api/v1/board?limit=1")).status_code == 200:
                pass
            assert answer.headers["x-error-code"] == "limit.throughput"


async def test_streams_end_when_their_process_stops_and_say_when_to_come_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with NodeProcess(tmp_path_factory.mktemp("stopping")) as node:
        node.start(**NO_LIMITS).ready()
        async with followed(node, "board") as (_, first), followed(node, "tasks") as (_, second):
            await anext(first)
            await anext(second)
            node.signal(signal.SIGTERM)
            for events in (first, second):
                assert [event["type"] async for event in events] == ["retry"]
        assert await asyncio.to_thread(node.wait) == 0
