"""When the memory of Redis is full, the operator can still read, block, hide and remove, and the audit records all of
it.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from node.admin.console.context import NO_MEMORY
from node.artifacts.store import ArtifactStore
from node.cli import main
from node.store import ids, keys
from tests.admin.conftest import Admin
from tests.agents.calls import card_of, listed
from tests.artifacts.calls import registered
from tests.inbox.calls import opened
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer
from tests.tasks.calls import UNKNOWN_ID, offered

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse a table?"}
ADDRESS = "192.0.2.1"


@pytest_asyncio.fixture
async def node(own_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    async with running(settings_for(own_redis.url)) as node:
        yield node


async def posted(node: NodeUnderTest, path: str, body: Any) -> Any:
    response = await node.client.post(path, json=body)
    assert response.status_code in (201, 202), response.text
    return response.json()


async def test_what_frees_memory_or_only_reads_works_and_is_audited(
    node: NodeUnderTest, own_redis: RedisServer, admin: Admin
) -> None:
    thread = (await posted(node, "/api/v1/board", THREAD))["id"]
    await posted(node, f"/api/v1/board/{thread}/replies", {"body": "I can do that for you"})
    await posted(node, f"/api/v1/board/{thread}/report", {"reason": "It is spam."})
    task = await offered(node)
    agent = await listed(node, await opened(node), card_of())
    artifact = await registered(node)
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    commands = (
        ("threads", "list"),
        ("clients", "block", ADDRESS),
        ("clients", "list"),
        ("clients", "unblock", ADDRESS),
        ("threads", "hide", thread),
        ("reports", "dismiss", thread),
        ("tasks", "purge", task["id"]),
        ("agents", "remove", agent["id"]),
        ("artifacts", "purge", artifact["id"]),
        ("threads", "purge", f"{thread}:1"),
        ("threads", "purge", thread),
    )
    ran = [await admin(*words) for words in commands]
    assert [(each.status, each.err) for each in ran] == [(0, "")] * len(commands)
    assert ADDRESS in ran[2].out
    noted = [each["command"] for each in (await admin("audit", "--json")).data]
    assert noted == [" ".join(words[:2]) for words in reversed(commands)]


async def test_an_artifact_that_ends_gives_its_bytes_back(node: NodeUnderTest, own_redis: RedisServer) -> None:
    artifact = (await registered(node))["id"]
    partition = ids.partition_of_id(artifact)
    await node.store.command("ZADD", keys.artifacts(partition), 1, artifact)
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    assert await ArtifactStore(node.store, 60, 60).end(artifact)
    assert await node.store.command("HGET", keys.artifact_bytes(partition), "all") == b"0"
    assert await node.store.command("TTL", keys.artifact(artifact)) != -1


async def test_a_command_that_needs_memory_says_so(node: NodeUnderTest, own_redis: RedisServer, admin: Admin) -> None:
    thread = (await posted(node, "/api/v1/board", THREAD))["id"]
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    ran = await admin("threads", "close", thread)
    assert (ran.status, ran.err) == (1, f"relay-node: {NO_MEMORY}\n")
    assert (await admin("audit", "--json")).data[0]["outcome"] == "failed"


async def test_a_command_without_an_audit_entry_says_what_it_did_or_why_it_failed(
    node: NodeUnderTest, own_redis: RedisServer, admin: Admin
) -> None:
    thread = (await posted(node, "/api/v1/board", THREAD))["id"]
    own_redis.do("SET", keys.AUDIT, "no list of notes")
    ran = await admin("threads", "close", thread)
    assert (ran.status, ran.err) == (0, "")
    assert "closed" in ran.out
    assert "this was done, but is not in the audit log" in ran.out
    ran = await admin("threads", "close", UNKNOWN_ID)
    assert ran.status == 1
    assert "this is not in the audit log" in ran.out
    ran = await admin("threads", "show", UNKNOWN_ID)
    assert (ran.status, ran.err) == (1, "relay-node: No thread has this id.\n")


@pytest.mark.parametrize("alarm", ["0", "80"])
def test_check_reports_full_memory_with_an_alarm_or_without(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alarm: str
) -> None:
    """Without an alarm, 101 % must not be called fine either."""
    own_redis.do("CONFIG", "SET", "maxmemory", "1")
    monkeypatch.setenv("RELAY_REDIS_URL", own_redis.url)
    monkeypatch.setenv("RELAY_MEMORY_ALARM", alarm)
    assert main(["check"]) == 1
    (memory,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "memory")
    assert memory.startswith("missing")
    assert memory.endswith("Redis refuses writes; see docs/operations.md")


@pytest.mark.parametrize(("alarm", "mark"), [("0", "ok"), ("80", "missing")])
def test_check_tells_of_a_limit_of_the_settings_that_only_the_alarm_knows(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alarm: str, mark: str
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", own_redis.url)
    monkeypatch.setenv("RELAY_REDIS_MAXMEMORY", "1")
    monkeypatch.setenv("RELAY_MEMORY_ALARM", alarm)
    main(["check"])
    (memory,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "memory")
    assert memory.startswith(mark)
    assert "Redis refuses writes" not in memory
