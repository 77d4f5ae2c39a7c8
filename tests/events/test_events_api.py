"""Pages of GET /api/v1/events and their cursors (NETWORK 3)."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable
from typing import Any

import httpx2
import pytest

from node.common.refusal import Invalid, Refused
from node.events import api, stream
from node.events.broadcast import Follower
from node.events.model import EventQuery
from node.events.source import CursorTooOld, cursor_of, position_of
from node.inbox.model import InboxProof
from node.store import keys
from node.store.ids import new_id
from node.web.accept import MAX_ACCEPT_CHARACTERS
from tests.inbox.calls import ADDRESS, INBOXES, send_signed, signed
from tests.support.answers import json_of
from tests.support.node_under_test import PATIENCE, NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer, eventually

ENGLISH = {"title": "Looking for a parser", "body": "Who can parse a large table of numbers for me today?"}


async def page(node: NodeUnderTest, topic: str, **query: Any) -> dict[str, Any]:
    """Return a page of events."""
    return json_of(await node.client.get("/api/v1/events", params={"topic": topic, **query}, timeout=40))


async def post(node: NodeUnderTest, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await node.client.post(path, json=body)
    assert response.status_code in (200, 201), response.text
    return response.json()


async def all_events(node: NodeUnderTest, topic: str, count: int, **query: Any) -> list[dict[str, Any]]:
    """Return the first `count` events of a topic, as soon as the worker has copied them."""
    found: list[dict[str, Any]] = []

    async def copied() -> bool:
        found[:] = (await page(node, topic, cursor="earliest", **query))["events"]
        return len(found) >= count

    await until(copied)
    return found


async def test_the_board_tells_of_threads_replies_and_their_end_in_order(node: NodeUnderTest) -> None:
    async with node.worker():
        thread = await post(node, "/api/v1/board", ENGLISH)
        for number in range(3):
            await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": f"I can do it, says agent {number}."})
        events = await all_events(node, "board", 4)
    assert [event["type"] for event in events] == ["thread.posted", *["reply.added"] * 3]
    assert events[0]["data"]["title"] == ENGLISH["title"]
    assert [event["data"]["seq"] for event in events[1:]] == [1, 2, 3]
    assert events[1]["data"]["thread_id"] == thread["id"]


async def test_a_cursor_gives_each_event_once_whatever_the_size_of_the_pages(node: NodeUnderTest) -> None:
    async with node.worker():
        for _ in range(7):
            await post(node, "/api/v1/tasks", {"publisher_id": "desk", "title": "Count the apples in this picture"})
        events = await all_events(node, "tasks", 7)
    seen: list[str] = []
    cursor, more = "earliest", True
    while more:
        got = await page(node, "tasks", cursor=cursor, limit=2)
        seen += [event["id"] for event in got["events"]]
        cursor, more = got["cursor"], got["has_more"]
    assert seen == [event["id"] for event in events]
    after_third = await page(node, "tasks", cursor=events[2]["id"])
    assert [event["id"] for event in after_third["events"]] == seen[3:]
    query, last = {"topic": "tasks", "cursor": "earliest"}, {"last-event-id": events[2]["id"]}
    # Last-Event-ID applies to pages as well
    by_header = await node.client.get("/api/v1/events", params=query, headers=last)
    assert by_header.json() == after_third


async def test_a_page_waits_for_the_next_event_of_the_types_that_it_wants(node: NodeUnderTest) -> None:
    async with node.worker():
        thread = await post(node, "/api/v1/board", ENGLISH)
        await all_events(node, "board", 1)
        waiting = asyncio.create_task(page(node, "board", types="reply.added", wait=20))
        await node.listened_to(keys.FEED)
        await post(node, "/api/v1/board", ENGLISH)
        await all_events(node, "board", 2)
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": "I can do it, says the agent."})
        got = await waiting
    assert [event["type"] for event in got["events"]] == ["reply.added"]
    assert (await page(node, "board", cursor=got["cursor"]))["events"] == []


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"topic": "nothing"},
        {"topic": "thread:"},
        {"topic": "board", "types": "session.line"},
        {"topic": "board", "cursor": "nonsense"},
        {"topic": "board", "cursor": "ZmVlZA"},
        {"topic": "board", "limit": "0"},
        {"topic": "board", "wait": "31"},
    ],
)
async def test_what_cannot_be_followed_is_named(node: NodeUnderTest, query: dict[str, str]) -> None:
    response = await node.client.get("/api/v1/events", params=query)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][0] == "query"


@pytest.mark.parametrize("form", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("kind", ["thread", "task", "session", "inbox"])
@pytest.mark.parametrize("name", ["nonsense", "../x", "\n", "01a1fbd5-10f1-7326-b473-b7b7836b6czz"])
async def test_what_has_no_such_id_is_unknown(node: NodeUnderTest, kind: str, name: str, form: str) -> None:
    response = await node.client.get("/api/v1/events", params={"topic": f"{kind}:{name}"}, headers={"accept": form})
    assert response.status_code == 404


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/json, text/event-stream;q=0", "application/json"),
        ("text/event-stream; q=0.0, application/x-ndjson; Q=0.000", "application/json"),
        ("application/json, text/event-stream;q=0.9", "application/json"),
        ("," * MAX_ACCEPT_CHARACTERS + "text/event-stream", "application/json"),
        ("text/event-stream;q=0, application/x-ndjson;q=0.1", "application/x-ndjson"),
        ("application/json;q=0.009, Text/Event-Stream; q=0.01", "text/event-stream"),
        ("application/x-ndjson;q=0.5, text/event-stream", "text/event-stream"),
    ],
)
async def test_the_answer_has_the_form_that_is_wanted_most(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, accept: str, form: str
) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)  # a stream ends as soon as it has begun
    response = await node.client.get("/api/v1/events", params={"topic": "board"}, headers={"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, form)


async def test_who_follows_an_inbox_is_cut_off_with_its_token(node: NodeUnderTest) -> None:
    events = node.services().events
    response = await send_signed(node, signed("POST", INBOXES))
    inbox, query = response.json(), EventQuery(f"inbox:{ADDRESS}", cursor="earliest")

    async def followed(proof: InboxProof) -> Follower:
        topic = events.topic(query, proof)
        follower = topic.join((await topic.begin(query.cursor, 1)).position)
        assert follower
        return follower

    owner = await followed(InboxProof(signer=ADDRESS))
    thief = await followed(InboxProof(token=inbox["inbox_token"]))
    rotation = signed("POST", INBOXES, {"rotate": True})
    assert (await send_signed(node, rotation, content_type="application/json")).status_code == 200

    await eventually(lambda: thief.has_ended)
    await post(node, f"{INBOXES}/{ADDRESS}/messages", {"body": "for the owner alone"})
    [frame] = await owner.next(PATIENCE)
    assert b"for the owner alone" in frame.json
    assert not await thief.next(0)
    owner.leave()


async def test_a_topic_that_looks_like_an_owners_is_not_the_owners(node: NodeUnderTest) -> None:
    """Otherwise a stranger's request, for as long as its body goes on, decides what the owner follows."""
    events = node.services().events
    await send_signed(node, signed("POST", INBOXES))
    stranger = events.topic(EventQuery(f"inbox:{ADDRESS} {ADDRESS} None"), InboxProof())
    owner = events.topic(EventQuery(f"inbox:{ADDRESS}"), InboxProof(signer=ADDRESS))
    assert (await owner.begin("now", 1)).position == (0, 0)
    with pytest.raises(Refused, match=r"inbox\.unknown"):
        await stranger.begin("now", 1)


async def test_all_who_follow_one_thing_share_a_reader_however_many_other_things_are_asked_for(
    node: NodeUnderTest,
) -> None:
    events = node.services().events
    thread = (await post(node, "/api/v1/board", ENGLISH))["id"]
    query = EventQuery(f"thread:{thread}")
    first = events.topic(query, InboxProof())
    assert events.topic(EventQuery("board"), InboxProof()).broadcast is not first.broadcast
    follower = first.join((await first.begin(None, 1)).position)
    assert follower and events.topic(query, InboxProof()).broadcast is first.broadcast
    assert events.followers()["thread"] == 1
    events.end()
    assert follower.has_ended


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_cursor_that_is_refused_is_named_where_it_was_sent(node: NodeUnderTest, accept: str) -> None:
    query = {"topic": "board", "cursor": "nonsense"}
    for last, place in ((None, ["query", "cursor"]), ("bad", ["header", "Last-Event-ID"]), ("", ["query", "cursor"])):
        headers = {"accept": accept} if last is None else {"accept": accept, "last-event-id": last}
        refused = await node.client.get("/api/v1/events", params=query, headers=headers)
        assert refused.status_code == 422
        assert [issue["loc"] for issue in refused.json()["detail"]] == [place]
        assert "earliest or now" in refused.json()["detail"][0]["msg"], "who has none yet is told where to begin"


async def test_a_cursor_of_one_thing_is_no_cursor_of_another(node: NodeUnderTest) -> None:
    threads = [await post(node, "/api/v1/board", ENGLISH) for _ in range(2)]
    first, second = (f"thread:{thread['id']}" for thread in threads)
    cursor = (await page(node, first, cursor="earliest"))["cursor"]
    assert (await node.client.get("/api/v1/events", params={"topic": second, "cursor": cursor})).status_code == 422


def made_up(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def test_a_cursor_that_no_node_gave_is_refused() -> None:
    given = cursor_of("feed", (10, 2))
    mark, *_ = urlsafe_b64decode(given + "=" * (-len(given) % 4)).decode().split(".")
    assert position_of("feed", given) == (10, 2)
    assert given == made_up(f"{mark}.10.2")
    numbers = [("+10", "2"), ("1_0", "2"), ("010", "2"), (" 10", "2"), ("10", "2\n"), ("-1", "2"), ("10", str(2**63))]
    wrong = [made_up(f"{mark}.{first}.{second}") for first, second in numbers]
    for cursor in (*wrong, f"{given}=", f"!{given}", f"{given[:3]}\u00e9*{given[3:]}", "", "earliest", "/" + given):
        with pytest.raises(Invalid):
            position_of("feed", cursor)


@pytest.mark.usefixtures("no_refill")
async def test_events_that_are_looked_at_for_nothing_count_as_an_answer_does(empty_redis: RedisServer) -> None:
    """A page without events may still cost 2 ms."""
    entry = ("XADD", keys.FEED, "*", "type", "reply.added", "id", new_id(), "seq", 1, "at", 1)
    async with running(settings_for(empty_redis.url, client_throughput=16 * 1024)) as node:
        for _ in range(20):
            await node.store.run_all([entry] * 50)
        query = {"topic": "board", "types": "thread.closed", "cursor": "earliest"}
        answers = [await node.client.get("/api/v1/events", params=query) for _ in range(3)]
    # The limit allows a client to look at 1,000 events.
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].json()["events"] == []
    assert answers[2].headers["x-error-code"] == "limit.throughput"


async def test_a_page_of_one_event_does_not_read_hundreds(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    entry = ("XADD", keys.FEED, "*", "type", "reply.added", "id", new_id(), "seq", 1, "at", 1)
    for _ in range(4):
        await node.store.run_all([entry] * 50)
    before = empty_redis.info("stats")["total_net_output_bytes"]
    await page(node, "board", cursor="earliest", limit=1)
    # A hundred events take 14 kB. In a cluster, a server also sends 7 kB about its slots.
    assert empty_redis.info("stats")["total_net_output_bytes"] - before < 14_000


async def ahead_of(node: NodeUnderTest, topic: str) -> list[str]:
    """Return cursors beyond a topic's last event."""
    name = topic if ":" in topic else "feed"
    if name == "feed":
        return [cursor_of(name, (2**62, 0))]
    newest = position_of(name, (await page(node, topic))["cursor"])
    return [cursor_of(name, (newest[0], newest[1] + 1)), cursor_of(name, (newest[0] + 5, newest[1]))]


@pytest.mark.parametrize("kind", ["board", "thread"])
async def test_who_follows_from_where_nothing_is_yet_keeps_no_event_from_others(node: NodeUnderTest, kind: str) -> None:
    services = node.services()
    async with node.worker():
        thread = await post(node, "/api/v1/board", ENGLISH)
        await all_events(node, "board", 1)
        topic = f"thread:{thread['id']}" if kind == "thread" else "board"
        for made_up in await ahead_of(node, topic):
            query = EventQuery(topic, cursor=made_up, wait=20)
            with pytest.raises(CursorTooOld):
                await services.events.page(services.events.topic(query, InboxProof()), query)
            refused = await node.client.get("/api/v1/events", params={"topic": topic, "cursor": made_up})
            assert refused.status_code == 410
            newest = (await page(node, topic))["cursor"]
            assert refused.headers["oldest-cursor"] == newest
        query = EventQuery(topic, wait=20)
        waiting = asyncio.create_task(services.events.page(services.events.topic(query, InboxProof()), query))
        await eventually(lambda: services.events.followers()[kind] == 1)
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": "I can do it, says the agent."})
        assert [event.type for event in (await waiting).events] == ["reply.added"]


async def test_replies_that_nobody_asked_for_are_not_read(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    thread = await post(node, "/api/v1/board", ENGLISH)
    topic, said = f"thread:{thread['id']}", "I can do it, says the agent. " * 600
    for _ in range(10):
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": said})
    before = empty_redis.info("stats")["total_net_output_bytes"]
    got = await page(node, topic, cursor="earliest", types="thread.posted,thread.closed")
    assert empty_redis.info("stats")["total_net_output_bytes"] - before < 4 * len(said)
    assert ([event["type"] for event in got["events"]], got["has_more"]) == (["thread.posted"], False)
    one = await page(node, topic, cursor="earliest", types="thread.posted", limit=1)
    rest = await page(node, topic, cursor=one["cursor"], types="thread.closed", limit=1)
    assert (len(one["events"]), rest["events"], rest["cursor"]) == (1, [], got["cursor"])
    assert len((await page(node, topic, cursor="earliest", types="reply.added"))["events"]) == 10


async def test_a_thread_is_followed_without_a_worker(node: NodeUnderTest) -> None:
    thread = await post(node, "/api/v1/board", ENGLISH)
    topic = f"thread:{thread['id']}"
    began = await page(node, topic, cursor="earliest")
    assert [event["type"] for event in began["events"]] == ["thread.posted"]
    waiting = asyncio.create_task(page(node, topic, cursor=began["cursor"], wait=20))
    await node.listened_to(keys.thread(thread["id"]))
    reply = await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": "I can do it, says the agent."})
    got = await waiting
    assert [(event["type"], event["data"]["id"]) for event in got["events"]] == [("reply.added", reply["id"])]


async def test_the_lines_of_a_session_come_once_and_nothing_after_its_end(node: NodeUnderTest) -> None:
    session = await post(node, "/api/v1/sessions", {})
    topic = f"session:{session['session_id']}"
    for number in range(3):
        await post(node, f"/api/v1/sessions/{session['session_id']}/messages", {"body": f"line {number}"})
    got = await page(node, topic, cursor="earliest", limit=2)
    rest = await page(node, topic, cursor=got["cursor"])
    assert [event["data"]["body"] for event in got["events"] + rest["events"]] == ["line 0", "line 1", "line 2"]
    assert (got["has_more"], rest["has_more"]) == (True, False)
    assert (await page(node, topic))["events"] == []
    await post(node, f"/api/v1/sessions/{session['session_id']}/destroy", {"destroy_token": session["destroy_token"]})
    gone = await node.client.get("/api/v1/events", params={"topic": topic, "cursor": got["cursor"]})
    assert gone.status_code == 404


async def test_a_contract_tells_of_its_changes_and_of_those_that_it_has_forgotten(node: NodeUnderTest) -> None:
    task = await post(node, "/api/v1/tasks", {"publisher_id": "desk", "title": "Count the apples in this picture"})
    topic, path = f"task:{task['id']}", f"/api/v1/tasks/{task['id']}"
    first = await page(node, topic, cursor="earliest")
    assert [event["type"] for event in first["events"]] == ["task.offered"]
    assert "publisher_token" not in first["events"][0]["data"]
    waiting = asyncio.create_task(page(node, topic, cursor=first["cursor"], wait=20))
    await node.listened_to(keys.task(task["id"]))
    token = (await post(node, f"{path}/claim", {"assignee_id": "agent"}))["claim_token"]
    assert [event["type"] for event in (await waiting)["events"]] == ["task.claimed"]
    for _ in range(10):
        await post(node, f"{path}/release", {"claim_token": token})
        token = (await post(node, f"{path}/claim", {"assignee_id": "agent"}))["claim_token"]
    await post(node, f"{path}/fail", {"claim_token": token, "code": "no.picture"})
    await post(node, f"{path}/retry", {"publisher_token": task["publisher_token"]})
    token = (await post(node, f"{path}/claim", {"assignee_id": "agent"}))["claim_token"]
    await post(node, f"{path}/complete", {"claim_token": token, "result_payload": {"apples": 7}})
    asked, page_of = {"topic": topic, "cursor": first["cursor"]}, {"origin": "https://page.example"}
    gone = await node.client.get("/api/v1/events", params=asked, headers=page_of)
    assert gone.status_code == 410
    assert "Oldest-Cursor" in gone.headers["access-control-expose-headers"]
    kept = (await page(node, topic, cursor=gone.headers["oldest-cursor"]))["events"]
    last = ["task.released", "task.claimed", "task.failed", "task.offered", "task.claimed", "task.completed"]
    assert [event["type"] for event in kept[-6:]] == last
    assert (len(kept), kept[-1]["data"]["result_payload"]) == (16, {"apples": 7})
    assert (await page(node, topic, cursor=kept[-1]["id"]))["events"] == []


async def test_the_messages_of_an_inbox_are_for_its_owner(node: NodeUnderTest) -> None:
    inbox = await post(node, "/api/v1/inboxes", {})
    messages = f"/api/v1/inboxes/{inbox['address']}/messages"
    for number in range(3):
        await post(node, messages, {"body": f"message {number}"})

    def asked(token: str, **query: str) -> Awaitable[httpx2.Response]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        params = {"topic": f"inbox:{inbox['address']}", "cursor": "earliest"} | query
        return node.client.get("/api/v1/events", params=params, headers=headers, timeout=40)

    assert (await asked("")).status_code == 401
    assert (await asked(f"{inbox['inbox_token']}x")).status_code == 403
    got = (await asked(inbox["inbox_token"])).json()
    assert [(event["type"], event["data"]["body"]) for event in got["events"]] == [
        ("inbox.message", f"message {number}") for number in range(3)
    ]
    assert "receipt_token" not in str(got)
    waiting = asyncio.ensure_future(asked(inbox["inbox_token"], cursor=got["cursor"], wait="20"))
    await node.listened_to(keys.inbox(inbox["address"]))
    await post(node, messages, {"body": "one more"})
    assert [event["data"]["body"] for event in (await waiting).json()["events"]] == ["one more"]
    topic = f"inbox:{inbox['address']}"
    lost = await asked(inbox["inbox_token"], cursor=cursor_of(topic, (0, 5)))  # of messages that a failover lost
    assert (lost.status_code, lost.headers["x-error-code"]) == (410, "cursor.too_old")
    assert lost.headers["oldest-cursor"] == cursor_of(topic, (0, 4))


async def test_a_crowd_that_comes_at_once_gets_no_more_streams_than_there_are(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_STREAMS", 2)
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)  # each ends as soon as it has begun

    async def follow(topic: str = "board", method: str = "GET") -> int:
        accept = {"accept": "application/x-ndjson"}
        return (
            await node.client.request(method, "/api/v1/events", params={"topic": topic}, headers=accept)
        ).status_code

    assert sorted(await asyncio.gather(*(follow() for _ in range(6)))) == [200] * 2 + [503] * 4
    for _ in range(3):  # streams give back their places however they end
        assert await follow(f"thread:{new_id(0)}") == 404
        assert await follow(method="HEAD") == 200
    assert await follow() == 200
