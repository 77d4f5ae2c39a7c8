"""Redis goes away and comes back under a running node: 503 in time, no false answer, and no restart (DESIGN 1, 6)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import httpx2
import pytest
import pytest_asyncio

from node.config import Settings
from node.store import StoreUnavailable, keys
from tests.agents.calls import SUMMARISE
from tests.inbox.calls import INBOXES, Json, opened, path_of
from tests.mcp import calls as mcp
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import PATIENCE, NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer, eventually

TIMEOUT = Settings().store_timeout
HELLO = {"message": "Hello, is anybody there who can read this?"}
CARD: Json = {"name": "Desk", "description": "Helps with long documents.", "skills": [SUMMARISE]}
A2A_MESSAGE: Json = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello from agent A."}]}}


@pytest_asyncio.fixture
async def node(own_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    async with running(settings_for(own_redis.url, store_timeout=TIMEOUT, limits=NO_LIMITS)) as node:
        yield node


def calls(node: NodeUnderTest) -> list[Callable[[], Awaitable[httpx2.Response]]]:
    """Return reads and writes of every feature."""
    client = node.client
    return [
        lambda: client.post("/api/v1/relay", json=HELLO),
        lambda: client.post("/api/v1/sessions"),
        lambda: client.post("/api/v1/board", json={"title": "A question", "body": "Who can help me with this?"}),
        lambda: client.post("/api/v1/tasks", json={"publisher_id": "p", "title": "Translate a memo"}),
        lambda: client.get("/api/v1/board"),
        lambda: client.get("/api/v1/tasks?status=offered"),
        lambda: client.get("/api/v1/sessions/01a1fbd5-10f1-7326-b473-b7b7836b6ce8/messages"),
        lambda: client.get("/health"),
    ]


async def until_served(node: NodeUnderTest) -> None:
    async def serves() -> bool:
        return (await node.client.get("/health")).status_code == 200

    await until(serves)


async def test_without_redis_every_operation_answers_503_with_retry_after(
    node: NodeUnderTest, own_redis: RedisServer
) -> None:
    own_redis.kill()
    for call in calls(node):
        response = await asyncio.wait_for(call(), PATIENCE)
        assert response.status_code == 503, response.request.url
        assert int(response.headers["retry-after"]) >= 1


async def test_without_redis_mcp_lists_its_tools_and_a_call_is_told_why_it_fails(own_redis: RedisServer) -> None:
    async with running(settings_for(own_redis.url, store_timeout=TIMEOUT)) as node:
        own_redis.kill()
        assert (await mcp.result(node, "tools/list"))["tools"]
        assert (await mcp.failed(node, "search_board", query="solar panels"))["code"] == "store.unavailable"


async def test_the_node_serves_again_when_redis_is_back(node: NodeUnderTest, own_redis: RedisServer) -> None:
    ack = (await node.client.post("/api/v1/relay", json=HELLO)).json()
    own_redis.kill()
    assert (await node.client.post("/api/v1/relay", json=HELLO)).status_code == 503
    own_redis.start()
    await until_served(node)
    kept = await node.client.get(f"/api/v1/relay/{ack['reference_id']}")
    assert kept.json()["payload"] == HELLO
    assert (await node.client.post("/api/v1/relay", json=HELLO)).status_code == 200


async def test_a_node_may_start_before_its_redis(own_redis: RedisServer) -> None:
    own_redis.kill()
    async with running(settings_for(own_redis.url, store_timeout=TIMEOUT)) as node:
        assert (await node.client.get("/health")).status_code == 503
        own_redis.start()
        await until_served(node)
        assert (await node.client.post("/api/v1/relay", json=HELLO)).status_code == 200


async def test_a_frozen_redis_costs_503_and_nothing_else(node: NodeUnderTest, own_redis: RedisServer) -> None:
    own_redis.pause()
    response = await asyncio.wait_for(node.client.post("/api/v1/relay", json=HELLO), PATIENCE)
    assert response.status_code == 503
    assert response.headers["x-error-code"] in {"store.unknown", "store.unavailable"}
    own_redis.resume()
    await until_served(node)
    assert (await node.client.post("/api/v1/relay", json=HELLO)).status_code == 200


async def test_a_waiting_sender_is_not_told_that_nothing_was_sent_when_redis_dies(own_redis: RedisServer) -> None:
    """Otherwise it would send its message again."""
    async with running(settings_for(own_redis.url, store_timeout=TIMEOUT, limits=NO_LIMITS)) as node:
        inbox = await opened(node)
        sending = [
            asyncio.create_task(node.client.post(path_of(inbox, path), json=body))
            for path, body in (("/messages?wait=30", {"body": "Hello"}), ("/a2a/message:send", A2A_MESSAGE))
        ]

        async def do_both_wait() -> bool:
            receipts = keys.inbox_receipt(inbox["address"], "*")
            return len(cast("list[bytes]", await node.store.command("PUBSUB", "SHARDCHANNELS", receipts))) == 2

        await until(do_both_wait)
        own_redis.kill()
    sent, task = [await each for each in sending]  # the node has stopped, and has answered the waiting requests
    assert (sent.status_code, sent.json()["status"]) == (201, "queued")
    assert (task.status_code, task.json()["task"]["status"]["state"]) == (200, "TASK_STATE_SUBMITTED")


@pytest.mark.parametrize(
    ("broken", "path", "body"),
    [
        ("node.inbox.tasks.InboxTasks.get", "/{address}/a2a/message:send", A2A_MESSAGE),
        ("node.agents.store.AgentStore.put", "", {"card": CARD}),
    ],
)
async def test_what_fails_after_something_was_written_has_an_unknown_outcome(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, broken: str, path: str, body: Json
) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise StoreUnavailable("Redis is out of reach")

    inbox = await opened(node)
    monkeypatch.setattr(broken, gone)
    response = await node.client.post(INBOXES + path.format(**inbox), json=body)
    assert response.status_code == 503
    assert "repeat a read as it is, and a write with the same Idempotency-Key" in response.text


async def test_beyond_the_calls_that_may_be_under_way_a_request_is_told_that_the_node_is_busy(
    own_redis: RedisServer,
) -> None:
    """The answer must not say that the store is out of reach, because it is not."""
    async with running(settings_for(own_redis.url, store_timeout=TIMEOUT, limits=NO_LIMITS, max_in_flight=1)) as node:
        own_redis.pause()  # so that the first call stays under way
        *relayed, sent = await asyncio.gather(
            node.client.post("/api/v1/relay", json=HELLO),
            node.client.post("/api/v1/relay", json=HELLO),
            node.client.post("/api/v1/message:send", json=A2A_MESSAGE),
        )
        own_redis.resume()
    refused = relayed[1]
    assert (refused.status_code, refused.headers["x-error-code"]) == (503, "store.busy")
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json() == {"error": "The node is at capacity; try again."}
    assert sent.json()["error"]["message"] == "The node is at capacity; try again."


async def test_a_retry_after_an_unknown_outcome_writes_once(node: NodeUnderTest, own_redis: RedisServer) -> None:
    session = (await node.client.post("/api/v1/sessions")).json()
    path, key = f"/api/v1/sessions/{session['session_id']}/messages", {"idempotency-key": "line-1"}
    own_redis.pause()
    lost = await node.client.post(path, json={"body": "only once"}, headers=key)
    assert lost.status_code == 503
    own_redis.resume()
    await until_served(node)
    again = await node.client.post(path, json={"body": "only once"}, headers=key)
    assert again.json()["seq"] == 1
    assert len((await node.client.get(path)).json()["lines"]) == 1


async def test_without_memory_writes_are_refused_and_reads_go_on(node: NodeUnderTest, own_redis: RedisServer) -> None:
    ack = (await node.client.post("/api/v1/relay", json=HELLO)).json()
    own_redis.do("CONFIG", "SET", "maxmemory", "1mb")
    refused = await node.client.post("/api/v1/relay", json={"message": "Is there room for one more message?"})
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert (await node.client.get(f"/api/v1/relay/{ack['reference_id']}")).status_code == 200
    own_redis.do("CONFIG", "SET", "maxmemory", "0")
    assert (await node.client.post("/api/v1/relay", json=HELLO)).status_code == 200


async def test_writes_under_way_when_redis_is_killed_are_kept_or_not_acknowledged(
    node: NodeUnderTest, own_redis: RedisServer
) -> None:
    session = (await node.client.post("/api/v1/sessions", json={"ttl_seconds": 3600})).json()
    path = f"/api/v1/sessions/{session['session_id']}/messages"
    acknowledged: dict[int, str] = {}

    async def write(name: int) -> None:
        for n in range(50):
            response = await node.client.post(path, json={"body": f"{name}-{n}"})
            assert response.status_code in {200, 503}
            if response.status_code == 200:
                acknowledged[response.json()["seq"]] = f"{name}-{n}"

    writers = [asyncio.create_task(write(name)) for name in range(20)]
    await eventually(lambda: len(acknowledged) >= 100)
    own_redis.kill()
    own_redis.start()
    await asyncio.gather(*writers)
    await until_served(node)
    kept: dict[int, str] = {}
    while lines := (await node.client.get(path, params={"since_seq": len(kept), "limit": 100})).json()["lines"]:
        kept |= {line["seq"]: line["body"] for line in lines}
    assert acknowledged.items() <= kept.items()
    assert sorted(kept) == list(range(1, len(kept) + 1))
