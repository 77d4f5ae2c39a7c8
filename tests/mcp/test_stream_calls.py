"""Calls whose answers go to a stream are done after their POST is answered, and end with the stream."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from node.mcp import stream_calls
from node.mcp.server import McpServer
from node.mcp.store import StreamStore
from node.mcp.stream_calls import CallRequest
from node.overload.intake import AgeGroup
from node.store import StoreUnavailable, keys
from node.web.deadline import Deadlines
from node.web.http import AGE_GROUP, WAITING_BY_CLIENT, ASGIMessage, Request, Scope
from node.web.turn import ClientTurns, RequestTurn
from tests.mcp.calls import done, request
from tests.mcp.streams import EventStream
from tests.support.node_under_test import NodeUnderTest, running, until
from tests.support.servers import RedisServer


def tool(name: str, request_id: Any = 1, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    return request("tools/call", {"name": name, "arguments": arguments}, request_id)


async def waiting(count: int) -> None:
    """Return once so many requests wait for a change, in all processes of the test, which are one."""

    async def are_waiting() -> bool:
        return WAITING_BY_CLIENT.total() == count

    await until(are_waiting)


async def answer(stream: EventStream) -> dict[str, Any]:
    """The next reply."""
    return json.loads((await stream.event())[1])


@asynccontextmanager
async def other_process(node: NodeUnderTest) -> AsyncGenerator[NodeUnderTest]:
    """A second web process on the same Redis."""
    async with running(node.settings) as other:
        yield other


async def test_a_call_that_waits_holds_up_no_other_message(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream:
        assert (await stream.post(tool("session_wait", "wait", id=session, wait=30))).status_code == 202
        await waiting(1)
        assert (await stream.post({"jsonrpc": "2.0", "method": "notifications/cancelled"})).status_code == 202
        assert json.loads(await stream.ask("ping", request_id="ping"))["id"] == "ping"
        await stream.post(tool("session_send", "send", id=session, body="Step 1 is done."))
        told = {reply["id"]: reply["result"] for reply in (await answer(stream), await answer(stream))}
        assert [line["body"] for line in told["wait"]["structuredContent"]["lines"]] == ["Step 1 is done."]
        assert told["send"]["structuredContent"]["seq"] == 1


async def test_a_call_that_waits_ends_with_its_stream_whichever_process_has_it(node: NodeUnderTest) -> None:
    """Otherwise it would claim a contract for a client that is gone."""
    async with other_process(node) as other, EventStream(node) as stream:
        for one in (node, other):
            claim = tool("claim_next_task", assignee_id="worker", wait=30)
            assert (await one.client.post(stream.endpoint, json=claim)).status_code == 202
        await waiting(2)
        stream.leave()
        await waiting(0)
        task = await done(node, "offer_task", publisher_id="desk", title="Count the apples in this picture")
        assert (await done(node, "get_task", id=task["id"]))["status"] == "offered"


async def test_a_process_that_stops_answers_the_streams_of_others(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream:
        async with other_process(node) as other:
            await other.client.post(stream.endpoint, json=tool("session_wait", id=session, wait=30))
            await waiting(1)
        assert (await answer(stream))["result"]["structuredContent"]["lines"] == []


async def test_a_stream_has_only_so_many_calls_under_way(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_calls, "MAX_STREAM_CALLS", 1)
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream, EventStream(node) as other:
        await stream.post(tool("session_wait", id=session, wait=30))
        await waiting(1)
        refused = await stream.post(request("ping"))
        assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
        assert (await stream.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status_code == 202
        assert json.loads(await other.ask("ping"))["result"] == {}
        await done(node, "session_send", id=session, body="Step 1 is done.")
        assert (await answer(stream))["result"]["structuredContent"]["next_since_seq"] == 1
        assert json.loads(await stream.ask("ping"))["result"] == {}


async def test_a_call_that_fails_unexpectedly_is_told_on_the_stream(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(McpServer, "answer", fail)
    async with EventStream(node) as stream:
        for content, request_id in ((request("ping", request_id="x"), "x"), ([request("ping")], None)):
            assert (await stream.post(content)).status_code == 202
            told = await answer(stream)
            assert (told["id"], told["error"]["code"]) == (request_id, -32603)


async def test_an_answer_is_sent_again_while_redis_is_out_of_reach(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_calls, "RETRY_SECONDS", (0, 0))
    deliver = StreamStore.deliver
    attempts: list[str] = []

    async def fail_once(self: StreamStore, stream_id: str, message: bytes) -> bool:
        attempts.append(stream_id)
        if len(attempts) == 1:
            raise StoreUnavailable("Redis could not be reached")
        return await deliver(self, stream_id, message)

    monkeypatch.setattr(StreamStore, "deliver", fail_once)
    async with EventStream(node) as stream:
        assert json.loads(await stream.ask("ping"))["result"] == {}
    assert len(attempts) == 2


async def test_a_stream_whose_process_died_is_gone_once_an_answer_reaches_nobody(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    name = "f" * 32
    await StreamStore(node.store).keep(name)
    endpoint = f"/mcp/messages?session_id={name}"
    assert (await node.client.post(endpoint, json=request("ping"))).status_code == 202

    async def is_gone() -> bool:
        return await node.store.command("EXISTS", keys.mcp_stream(name)) == 0

    await until(is_gone)
    assert (await node.client.post(endpoint, json=request("ping"))).status_code == 404


async def test_a_call_takes_its_turn_and_is_work_like_any_request() -> None:
    turns, group = ClientTurns(), AgeGroup()
    under_way = [RequestTurn(turns, "203.0.113.7") for _ in range(2)]
    assert all(turn.begin_now() for turn in under_way)

    async def receive() -> ASGIMessage:
        return {"type": "http.disconnect"}

    scope: Scope = {"method": "POST", "path": "/", "headers": [], "query_string": b"", AGE_GROUP: group}
    post = Request(scope, receive, "203.0.113.7", "id", Deadlines(), RequestTurn(turns, "203.0.113.7"))
    group.entered, group.inactive = 1, 1  # the POST has ended
    begun = asyncio.Event()

    async def call() -> int:
        async with CallRequest(post, receive).under_way():
            begun.set()
            return group.entered - group.inactive

    calling = asyncio.create_task(call())
    await asyncio.wait({calling}, timeout=0.01)
    assert not begun.is_set()
    assert group.entered - group.inactive == 0, "it waits for its client"
    under_way[0].end()
    assert await calling == 1
    assert group.entered - group.inactive == 0
    assert turns.clients.enter_now("203.0.113.7"), "it has given its place back"
