"""Calls whose answers go to a stream are executed after their POST is answered, and end with the stream."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from node.mcp import stream_calls
from node.mcp.json_rpc import MAX_ID_BYTES
from node.mcp.server import McpServer
from node.mcp.store import StreamStore
from node.mcp.stream_calls import CallRequest, StreamCalls
from node.overload.intake import AgeGroup
from node.store import StoreUnavailable, keys
from node.web.deadline import Deadlines
from node.web.http import ASGIMessage, Request, Scope
from node.web.throughput import Throughput
from node.web.turn import AGE_GROUP, ClientTurns, RequestTurn
from node.web.waiting_places import WAITING_BY_CLIENT, WAITING_BYTES
from tests.mcp.calls import done, post, request
from tests.mcp.streams import EventStream
from tests.support.node_under_test import NodeUnderTest, running, until
from tests.support.servers import PATIENCE, RedisServer, eventually


def tool(name: str, request_id: Any = 1, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return request("tools/call", {"name": name, "arguments": arguments}, request_id)


async def waiting(count: int) -> None:
    """Return once this many requests wait for a change, in all web processes of the test, which share one Python
    process.
    """

    await eventually(lambda: WAITING_BY_CLIENT.total() == count)


async def answer(stream: EventStream) -> dict[str, Any]:
    """Return the next reply."""
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
    """Otherwise the call would claim a contract for a client that is gone."""
    async with other_process(node) as other, EventStream(node) as stream:
        for one in (node, other):
            claim = tool("claim_next_task", assignee_id="worker", wait=30)
            assert (await one.client.post(stream.endpoint, json=claim)).status_code == 202
        await waiting(2)
        stream.leave()
        await waiting(0)
        task = await done(node, "offer_task", publisher_id="desk", title="Count the apples in this picture")
        assert (await done(node, "get_task", id=task["id"]))["status"] == "offered"


def under_way() -> set[asyncio.Task[Any]]:
    """Return the calls that this process is answering."""
    return {each for each in asyncio.all_tasks() if getattr(each.get_coro(), "__qualname__", "") == "StreamCalls._run"}


async def finished(calls: set[asyncio.Task[Any]]) -> None:
    """Return once these calls have ended."""
    assert calls
    await asyncio.wait(calls, timeout=PATIENCE)
    assert all(call.done() for call in calls)


def cancelled(request_id: Any) -> dict[str, Any]:
    """Return the notification with which a client cancels a request."""
    params = {"requestId": request_id, "reason": "It took too long."}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


async def test_a_call_that_is_cancelled_claims_nothing_and_is_not_answered(node: NodeUnderTest) -> None:
    """Otherwise a contract would be claimed whose claim_token nobody sees. Call and cancellation may reach different
    processes.
    """
    async with other_process(node) as other, EventStream(node) as stream:
        for called, cancels in ((node, node), (other, node), (node, other)):
            claim = tool("claim_next_task", "claim", assignee_id="worker", wait=30)
            assert (await called.client.post(stream.endpoint, json=claim)).status_code == 202
            await waiting(1)
            calls = under_way()
            assert (await cancels.client.post(stream.endpoint, json=cancelled("claim"))).status_code == 202
            await waiting(0)
            await finished(calls)
        task = await done(node, "offer_task", publisher_id="desk", title="Count the apples in this picture")
        assert (await done(node, "get_task", id=task["id"]))["status"] == "offered"
        assert json.loads(await stream.ask("ping", request_id="ping"))["id"] == "ping", "the first answer of all"


async def test_an_id_that_is_a_number_is_not_that_of_a_string(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream:
        for request_id in (5, "5", 51):
            await stream.post(tool("session_wait", request_id, id=session, wait=30))
        await waiting(3)
        await stream.post(cancelled("5"))
        await waiting(2)
        await done(node, "session_send", id=session, body="Step 1 is done.")
        assert {(await answer(stream))["id"] for _ in range(2)} == {5, 51}


@pytest.mark.parametrize("request_id", [6, "", "5", 5.5, None, True, [5], {"5": 5}, -5, 50, "x" * 999])
async def test_what_names_no_call_cancels_none(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, request_id: Any
) -> None:
    told: list[bytes] = []
    cancel = StreamStore.cancel

    async def note(self: StreamStore, stream_id: str, request_id: int | str) -> None:
        told.append(json.dumps(request_id).encode())
        await cancel(self, stream_id, request_id)

    monkeypatch.setattr(StreamStore, "cancel", note)
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream:
        await stream.post(tool("session_wait", 5, id=session, wait=30))
        await waiting(1)
        assert (await stream.post(cancelled(request_id))).status_code == 202
        await done(node, "session_send", id=session, body="Step 1 is done.")
        assert (await answer(stream))["id"] == 5
    assert all(len(each) <= MAX_ID_BYTES for each in told), "no longer than the id of a call can be"


async def test_a_call_that_is_cancelled_before_its_turn_comes_is_not_begun(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    its_turn = asyncio.Event()
    begin = RequestTurn.begin

    async def begin_later(self: RequestTurn) -> None:
        await its_turn.wait()
        await begin(self)

    monkeypatch.setattr(RequestTurn, "begin", begin_later)
    async with EventStream(node) as stream:
        await stream.post(tool("post_thread", "post", title="Who parses CSV?", body="I have a large file."))
        calls = under_way()
        await stream.post(cancelled("post"))
        heard = await node.store.wakeups.listen(f"{keys.mcp_stream(stream.endpoint[-32:])}:closed")
        with heard:  # a message published after the cancellation also arrives after it
            await node.store.command("SPUBLISH", f"{keys.mcp_stream(stream.endpoint[-32:])}:closed", "later")
            assert await heard.next(20) == b"later"
        its_turn.set()
        await finished(calls)
        assert json.loads(await stream.ask("ping", request_id="ping"))["id"] == "ping"
    assert (await node.client.get("/api/v1/board")).json()["threads"] == []


async def test_what_is_done_when_it_is_cancelled_is_answered(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may hold a token, and a client that cancelled may still read it."""
    answering = McpServer.answer
    is_done, may_go_on = asyncio.Event(), asyncio.Event()

    async def answer_late(*given: Any) -> bytes:
        answered = await answering(*given)
        is_done.set()
        await may_go_on.wait()
        return answered

    monkeypatch.setattr(McpServer, "answer", answer_late)
    async with EventStream(node) as stream:
        await stream.post(tool("create_session", "create"))
        await is_done.wait()
        await stream.post(cancelled("create"))
        may_go_on.set()
        assert (await answer(stream))["result"]["structuredContent"]["session_id"]


async def test_a_batch_is_not_cancelled_but_ends_with_its_stream(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    thread = {"title": "Who parses CSV?", "body": "I have a large file.", "author": "a"}
    batch = [tool("session_wait", "wait", id=session, wait=30), tool("post_thread", "post", **thread)]
    async with EventStream(node) as stream:
        await stream.post(batch)
        await waiting(1)
        await stream.post(cancelled("wait"))
        await done(node, "session_send", id=session, body="Step 1 is done.")
        assert [each["id"] for each in json.loads((await stream.event())[1])] == ["wait", "post"]
        await stream.post([tool("session_wait", "wait", id=session, since_seq=1, wait=30), batch[1]])
        await waiting(1)
        calls = under_way()
        stream.leave()
        await finished(calls)
    assert len((await node.client.get("/api/v1/board")).json()["threads"]) == 1, "the rest was not begun"


async def test_a_process_that_stops_answers_the_streams_of_others(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    async with EventStream(node) as stream:
        async with other_process(node) as other:
            await other.client.post(stream.endpoint, json=tool("session_wait", id=session, wait=30))
            await waiting(1)
        assert (await answer(stream))["result"]["structuredContent"]["lines"] == []


async def test_a_process_that_stops_waits_for_what_its_calls_have_begun(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering, closing = McpServer.answer, StreamCalls.close
    is_closing = asyncio.Event()

    async def answer_late(*given: Any) -> bytes:
        await is_closing.wait()
        return await answering(*given)

    async def close(self: StreamCalls) -> None:
        is_closing.set()
        await closing(self)

    monkeypatch.setattr(McpServer, "answer", answer_late)
    monkeypatch.setattr(StreamCalls, "close", close)
    async with EventStream(node) as stream:
        async with other_process(node) as other:
            await other.client.post(stream.endpoint, json=tool("create_session"))
        assert (await answer(stream))["result"]["structuredContent"]["session_id"]


async def test_a_call_that_waits_counts_for_the_size_of_its_body(node: NodeUnderTest) -> None:
    session = (await done(node, "create_session"))["session_id"]
    large = tool("session_wait", id=session, wait=30)
    large["params"]["_meta"] = {"notes": "x" * 2 * WAITING_BYTES}
    async with EventStream(node) as stream:
        await stream.post(large)
        await waiting(3)
        by_http = asyncio.create_task(post(node, large))
        await waiting(6)
        await done(node, "session_send", id=session, body="Step 1 is done.")
        assert (await answer(stream))["result"] == (await by_http).json()["result"]


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
    monkeypatch.setattr(stream_calls, "RETRY_SECONDS", (0,))
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
    await node.store.command("PERSIST", keys.mcp_stream(name))
    endpoint = f"/mcp/messages?session_id={name}"
    assert (await node.client.post(endpoint, json=request("ping"))).status_code == 202

    async def is_gone() -> bool:
        return await node.store.command("EXISTS", keys.mcp_stream(name)) == 0

    await until(is_gone)
    assert (await node.client.post(endpoint, json=request("ping"))).status_code == 404


async def test_a_call_takes_its_turn_and_is_work_like_any_request() -> None:
    turns, group = ClientTurns(Throughput(0)), AgeGroup()
    under_way = [RequestTurn(turns, "203.0.113.7", {}) for _ in range(2)]
    assert all(turn.begin_now() for turn in under_way)

    async def receive() -> ASGIMessage:
        return {"type": "http.disconnect"}

    scope: Scope = {"method": "POST", "path": "/", "headers": [], "query_string": b"", AGE_GROUP: group}
    post = Request(scope, receive, "203.0.113.7", "id", Deadlines(), RequestTurn(turns, "203.0.113.7", scope))
    group.entered, group.inactive = 1, 1  # the POST has ended
    begun = asyncio.Event()

    async def call() -> int:
        async with CallRequest(post, receive).under_way():
            begun.set()
            return group.entered - group.inactive

    calling = asyncio.create_task(call())
    await eventually(lambda: turns.clients.waiting("203.0.113.7"))
    assert not begun.is_set()
    assert group.entered - group.inactive == 0, "it waits for its client"
    under_way[0].end()
    assert await calling == 1
    assert group.entered - group.inactive == 0
    assert turns.clients.enter_now("203.0.113.7"), "it has given its place back"
