"""/mcp/sse and /mcp/messages: replies arrive on a stream that was opened before."""

import asyncio
import json
import re
from contextlib import AsyncExitStack

import pytest

from node.config import Limit, Limits
from node.mcp import sse
from node.mcp.answer_budget import STREAM_BYTES
from node.mcp.tools import TOOLS
from node.mcp.transport import event
from node.store import Listener
from node.store.wakeups import MAX_QUEUED_BYTES
from node.web import waiting_places
from tests.mcp.calls import request, result
from tests.mcp.streams import EventStream
from tests.support.living import living
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import PATIENCE, RedisServer


async def test_a_stream_names_its_endpoint_first(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache, no-store, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-length" not in stream.headers
        assert stream.endpoint.startswith("/mcp/messages?session_id=")
        assert len(stream.endpoint.partition("=")[2]) == 32


async def test_replies_come_on_the_stream(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        assert json.loads(await stream.ask("ping", request_id=0)) == {"jsonrpc": "2.0", "id": 0, "result": {}}
        called = json.loads(await stream.ask("tools/call", {"name": "get_node_health"}, "x"))
        assert called["result"]["structuredContent"]["status"] == "ok"
        assert len(json.loads(await stream.ask("tools/list"))["result"]["tools"]) == len(TOOLS)
        refused = json.loads(await stream.ask("server/discover"))
        assert refused["error"]["code"] == -32601, "a client that asks for the newest revision falls back at once"


async def test_each_stream_gets_its_own_replies(node: NodeUnderTest) -> None:
    async with EventStream(node) as first, EventStream(node) as second:
        assert first.endpoint != second.endpoint
        await second.post(request("ping", request_id="second"))
        assert json.loads(await first.ask("ping", request_id="first"))["id"] == "first"
        assert json.loads((await second.event())[1])["id"] == "second"


async def test_a_batch_is_answered_by_one_event(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        await stream.post([request("ping", request_id=1), request("ping", request_id=2)])
        assert [reply["id"] for reply in json.loads((await stream.event())[1])] == [1, 2]


async def test_what_needs_no_reply_gets_none(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        response = await stream.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (response.status_code, response.text) == (202, "Accepted")
        assert json.loads(await stream.ask("ping", request_id="next"))["id"] == "next"


async def test_a_bad_message_is_refused_at_once(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        said = {"content-type": "application/json"}
        bad = await node.client.post(stream.endpoint, content=b"{", headers=said)
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, -32700)
        wrong = await stream.post({"id": 1})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32600)
        large = await node.client.post(stream.endpoint, content=b"x" * (2**20 + 1), headers=said)
        assert large.status_code == 413
        text = await node.client.post(stream.endpoint, content=b"{}", headers={"content-type": "text/plain"})
        assert (text.status_code, text.json()["error"]["code"]) == (415, -32600)


async def test_pages_of_this_machine_may_open_a_stream_and_post(node: NodeUnderTest) -> None:
    origin = "http://localhost:6274"
    async with EventStream(node, origin=origin) as stream:
        taken = await stream.post(request("ping"), origin=origin)
        refused = await stream.post({"id": 1}, origin=origin)
        assert [taken.status_code, refused.status_code] == [202, 400]
        for headers in (stream.headers, taken.headers, refused.headers):
            assert headers["access-control-allow-origin"] == origin


async def test_a_message_needs_an_open_stream(node: NodeUnderTest) -> None:
    ping = request("ping")
    assert (await node.client.post("/mcp/messages", json=ping)).status_code == 400
    for wanted in ("0" * 32, "nonsense", "%00", "a" * 5000):
        assert (await node.client.post(f"/mcp/messages?session_id={wanted}", json=ping)).status_code == 404
    async with EventStream(node) as stream:
        pass
    assert (await stream.post(ping)).status_code == 404, "the client has left"


async def test_a_message_is_posted_as_the_documents_say(node: NodeUnderTest) -> None:
    described = (await node.client.get("/openapi.json")).json()["paths"]["/mcp/messages"]["post"]["parameters"]
    assert [(one["name"], one["required"]) for one in described] == [("session_id", True)]
    text = (await node.client.get("/llms-full.txt")).text
    (url,) = re.findall(r'^curl -sS "http://node.example(/mcp/messages.*?)" ', text, re.MULTILINE)
    async with EventStream(node) as stream:
        named = url.replace("$SESSION_ID", stream.endpoint.partition("=")[2])
        assert (await node.client.post(named, json=request("ping"))).status_code == 202


async def test_only_get_opens_a_stream(node: NodeUnderTest) -> None:
    response = await node.client.post("/mcp/sse", json=request("ping"))
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
    assert (await node.client.get("/mcp/messages")).status_code == 405
    async with EventStream(node, method="HEAD") as stream:
        await stream.ended()
        assert (stream.status, stream.body) == (200, b"")


async def test_a_silent_stream_is_kept_alive(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    async with EventStream(node) as stream:
        key = await _key(node)
        await node.store.command("EXPIRE", key, 20)
        assert [await stream.piece() for _ in range(3)] == [b": ping\n\n"] * 3

        async def is_kept() -> bool:  # several heartbeats may have been sent before the TTL was shortened
            return await node.store.command("TTL", key) in range(21, 46)

        await until(is_kept)
        await stream.post(request("ping"))
        while (piece := await stream.piece()).startswith(b": "):
            pass
        assert piece.startswith(b"event: message\n")


async def test_a_stream_ends_when_a_reply_may_have_been_lost(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    async with EventStream(node) as stream:
        empty_redis.do("CLIENT", "KILL", "TYPE", "pubsub")
        await stream.ended()
        assert (await stream.post(request("ping"))).status_code == 404


async def test_a_stream_ends_when_nobody_reads_it(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    async with EventStream(node) as stream:
        monkeypatch.setattr("node.mcp.sse.SEND_SECONDS", 0.05)
        stream.reading.clear()
        await stream.post(request("ping"))
        await stream.ended()
        assert (await stream.post(request("ping"))).status_code == 404


async def test_an_answer_that_is_too_large_for_a_stream_is_told_there(node: NodeUnderTest) -> None:
    await _long_threads(node)
    read = {"uri": "node://board/open-threads.json"}
    async with EventStream(node) as stream:
        said = json.loads(await stream.ask("resources/read", read, "x"))
        assert (said["id"], said["error"]["code"]) == ("x", -32006)
        await stream.post([request("resources/read", read, number) for number in range(50)])
        _, data = await stream.event()
        assert [reply["id"] for reply in json.loads(data)] == list(range(50))
        assert len(data) < STREAM_BYTES
        assert json.loads(await stream.ask("ping", request_id="next"))["id"] == "next"
    assert len((await result(node, "resources/read", read))["contents"][0]["text"]) > STREAM_BYTES


@pytest.mark.usefixtures("no_refill")
@pytest.mark.settings(client_throughput=32 * 1024)
async def test_answers_that_are_too_large_for_a_stream_count_as_bytes_that_were_moved(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.mcp.stream_calls.STREAM_BYTES", 40_000)
    async with EventStream(node) as stream:
        posts = 0
        while (posted := await stream.post(request("tools/list"))).status_code == 202:
            assert json.loads((await stream.event())[1])["error"]["code"] == -32006
            posts += 1
        assert posted.headers["x-error-code"] == "limit.throughput"
        assert posts > 5


async def test_a_client_that_does_not_read_costs_little_memory(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "SEND_SECONDS", PATIENCE)  # the posts may take long
    heard: list[int] = []

    async def has_heard_much() -> bool:
        heard.append(_held(node))
        return heard[-1] > MAX_QUEUED_BYTES / 2

    async with EventStream(node) as stream:
        stream.reading.clear()
        for _ in range(20):
            await stream.post([request("tools/list", request_id=number) for number in range(5)])
            heard.append(_held(node))
        await until(has_heard_much)
        stream.reading.set()
        await stream.ended()
    assert max(heard) <= MAX_QUEUED_BYTES


async def test_of_a_client_only_so_many_streams_stay_that_it_does_not_read(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unread stream counts with everything that may wait for it, against what may wait for the client in this
    process.
    """
    of_one = MAX_QUEUED_BYTES // waiting_places.WAITING_BYTES
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_CLIENT", 2 * of_one)

    async def leave_unread(stream: EventStream, client: str, counted: int) -> None:
        async def is_counted() -> bool:
            return waiting_places.WAITING_BY_CLIENT[client] == counted

        stream.reading.clear()
        await stream.post(request("tools/list"))
        await until(is_counted)

    own, another = "203.0.113.7", "203.0.113.8"
    async with EventStream(node) as first, EventStream(node) as second, EventStream(node) as third:
        await leave_unread(first, own, of_one)
        await leave_unread(second, own, 2 * of_one)
        async with EventStream(node, another) as other:
            await leave_unread(other, another, of_one)
        await leave_unread(third, own, 2 * of_one)
        await third.ended()
        for stream in (first, second):
            stream.reading.set()
            assert json.loads((await stream.event())[1])["result"]["tools"]
    assert not waiting_places.WAITING_BY_CLIENT


@pytest.mark.settings(limits=Limits(mcp=Limit(3, 60)))
async def test_what_goes_to_a_stream_counts_in_the_limit(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        await stream.post([request("prompts/list", request_id=number) for number in range(4)])
        *listed, refused = json.loads((await stream.event())[1])
        assert all("result" in reply for reply in listed)
        assert (refused["error"]["code"], refused["error"]["data"]["status"]) == (-32005, 429)
        assert json.loads(await stream.ask("ping"))["result"] == {}


async def test_a_client_may_hold_only_so_many_streams(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_CLIENT_STREAMS", 2)
    async with EventStream(node), EventStream(node):
        async with EventStream(node) as third:
            assert third.status == 503
            assert third.headers["retry-after"]
        async with EventStream(node, "203.0.113.8") as other:
            assert other.status == 200
    async with EventStream(node) as again:
        assert again.status == 200


async def test_a_site_may_hold_only_so_many_streams(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_SITE_STREAMS", 2)
    async with EventStream(node, "2001:db8:1:1::1"), EventStream(node, "2001:db8:1:2::1"):
        async with EventStream(node, "2001:db8:1:3::1") as third:
            assert third.status == 503
        async with EventStream(node, "2001:db8:2::1") as other:
            assert other.status == 200
    async with EventStream(node, "2001:db8:1:3::1") as again:
        assert again.status == 200


async def test_the_more_streams_are_open_the_fewer_a_client_may_hold(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise eight addresses could take all streams of a process."""
    monkeypatch.setattr(sse, "MAX_STREAMS", 8)
    monkeypatch.setattr(sse, "MAX_CLIENT_STREAMS", 4)
    async with AsyncExitStack() as stack:

        async def opened(address: str) -> int:
            """Return how many of eight streams a client gets."""
            streams = [await stack.enter_async_context(EventStream(node, address)) for _ in range(8)]
            return [stream.status for stream in streams].count(200)

        assert [await opened(f"203.0.113.{number}") for number in range(1, 5)] == [4, 2, 1, 1]


async def test_nothing_is_kept_of_a_stream_that_has_ended(node: NodeUnderTest) -> None:
    before = len(living(Listener))
    async with EventStream(node) as stream:
        assert json.loads(await stream.ask("ping"))["result"] == {}
        assert len(living(Listener)) > before
    del stream
    assert len(living(Listener)) == before


def test_the_streams_of_a_site_are_far_from_all() -> None:
    assert sse.MAX_CLIENT_STREAMS < sse.MAX_SITE_STREAMS <= sse.MAX_STREAMS / 4


async def test_streams_that_are_opened_at_once_are_no_more_than_a_client_may_hold(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_CLIENT_STREAMS", 2)
    async with AsyncExitStack() as stack:
        streams = await asyncio.gather(*(stack.enter_async_context(EventStream(node)) for _ in range(6)))
        assert sum(stream.endpoint != "" for stream in streams) == 2


@pytest.mark.settings(limits=Limits(stream=Limit(2, 60)))
async def test_a_client_may_open_only_so_many_streams_a_minute(node: NodeUnderTest) -> None:
    for _ in range(2):
        async with EventStream(node) as stream:
            assert stream.status == 200
    async with EventStream(node) as third:
        assert third.status == 429
        assert int(third.headers["retry-after"]) > 0
    assert await node.names("mcp:*") == []
    async with EventStream(node, "203.0.113.8") as other:
        assert other.status == 200


async def test_a_process_holds_only_so_many_streams(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_STREAMS", 1)
    async with EventStream(node):
        refused = await node.client.get("/mcp/sse")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, -32603)


async def test_many_clients_do_not_disturb_each_other(node: NodeUnderTest) -> None:
    async def converse(number: int) -> None:
        async with EventStream(node) as stream:
            for step in range(5):
                wanted = f"{number}-{step}"
                assert json.loads(await stream.ask("ping", request_id=wanted))["id"] == wanted

    await asyncio.gather(*(converse(number) for number in range(20)))


def test_an_event_has_one_line_of_data() -> None:
    assert event(b"message", b'{"a":\r\n1,\n"b":2}') == b'event: message\ndata: {"a":  1, "b":2}\n\n'


async def _long_threads(node: NodeUnderTest) -> None:
    """Make the list of threads longer than a stream can carry."""
    for number in range(10):
        body = f"This is number {number} of the long posts that this test writes. " * 338
        response = await node.client.post("/api/v1/board", json={"title": f"Long post {number}", "body": body})
        assert response.status_code == 201, response.text


def _held(node: NodeUnderTest) -> int:
    """Return the bytes that wait for the only stream."""
    return max(each.queued_bytes for each in living(Listener))


async def _key(node: NodeUnderTest) -> str:
    (key,) = await node.names("mcp:*")
    return key
