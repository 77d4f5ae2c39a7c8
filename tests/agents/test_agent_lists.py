"""The directory's lists, which several processes derive from the entries at the same time (NETWORK 2)."""

import asyncio
from collections.abc import Iterable
from itertools import cycle
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from node.agents.checks import AgentChecks
from node.agents.entry import id_of
from node.agents.lists import AgentLists
from node.agents.store import AgentStore
from node.store import RedisReply, Store, connect, ids, keys
from node.store.store import Wanted
from tests.agents.calls import AGENTS, card_of, listed
from tests.events.test_events_api import all_events
from tests.inbox.calls import bearer, opened
from tests.support.fake_store import FakeStore
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import Cluster, RedisServer

HOST = "agent.example"
URL = f"https://{HOST}/"


async def test_a_projection_that_read_an_entry_before_it_changed_does_not_undo_the_one_after(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    posted = {"card": card_of("Report desk")}
    agent = (await node.client.post("/api/v1/agents", json=posted, headers=bearer(inbox["inbox_token"]))).json()
    lists = AgentLists(node.store)

    async def changed_after(store: Store, many: Iterable[Wanted]) -> list[RedisReply]:
        monkeypatch.undo()
        replies = await store.run_all(many)
        await node.store.command("HSET", keys.agent(agent["id"]), "liveness", "open")
        await lists.project([agent["id"]])
        return replies

    monkeypatch.setattr(Store, "run_all", changed_after)
    await lists.project([agent["id"]])
    assert await lists.newest(10, 0, "open") == ([agent["id"]], 1)
    assert await lists.newest(10, 0, "unknown") == ([], 0)


async def test_a_worker_that_starts_is_no_check(node: NodeUnderTest) -> None:
    """However often workers start, the operator is told how long ago the last check ended."""
    lists, stop = AgentLists(node.store), asyncio.Event()
    calls_nobody: Any = None
    checks = AgentChecks(node.store, AgentStore(node.store, 60), lists, calls_nobody, "http://node.example")
    stop.set()
    await checks.run(stop)
    assert await node.store.command("GET", keys.LAST_CHECK)  # without an earlier check, the age counts from now
    await node.store.command("SET", keys.LAST_CHECK, await lists.now() - 7_200_000)
    await checks.run(stop)
    assert (await lists.figures())[2] >= 7200


async def test_two_workers_that_find_the_same_entry_over_tell_of_that_once(node: NodeUnderTest) -> None:
    agent = await listed(node, await opened(node), card_of())
    one, other = AgentLists(node.store), AgentLists(node.store)
    over = await one.now() - 1000
    await node.store.command("HSET", keys.agent(agent["id"]), "ends_at", over)
    await node.store.command("ZADD", keys.AGENT_ENDS, over, agent["id"])
    assert [await each.sweep() for each in (one, other)] == [[agent["id"]]] * 2
    told: Any = await node.store.command("XRANGE", keys.events_of(agent["id"]), "-", "+")
    assert [fields[1] for _, fields in told] == [b"agent.listed", b"agent.removed"]


async def test_what_redis_has_dropped_is_told_of_and_what_was_posted_since_stays() -> None:
    store = FakeStore()
    entries, lists, agent_id = AgentStore(store, 60), AgentLists(store), id_of(HOST, URL)

    async def removals() -> int:
        told = await store.command("XRANGE", keys.events(ids.partition_of(HOST)), "-", "+")
        return sum(b"agent.removed" in flat for _, flat in cast("list[tuple[bytes, list[bytes]]]", told))

    await store.command("ZADD", keys.AGENT_ENDS, 1, agent_id)
    assert [await lists.sweep() for _ in range(2)] == [[agent_id]] * 2  # once by each of two workers
    assert await removals() == 1
    await entries.unschedule(agent_id)
    due = keys.agents_due(ids.partition_of(HOST))
    assert await store.command("ZSCORE", due, agent_id) is None
    await entries.submit(
        HOST, {"given": URL, "proof": "domain", "address": HOST}, agent_id=agent_id, client="", idempotency=None
    )
    assert await lists.sweep() == [agent_id]
    [entry] = await entries.read([agent_id])
    assert entry is not None
    assert entry.status == "checking"
    assert await removals() == 1


async def test_what_redis_has_dropped_is_told_of_though_a_reader_of_the_list_sees_it_first(node: NodeUnderTest) -> None:
    agent = await listed(node, await opened(node), card_of())
    await node.store.command("ZADD", keys.AGENT_ENDS, 1, agent["id"])
    await node.store.command("UNLINK", keys.agent(agent["id"]))
    for _ in range(2):
        assert (await node.client.get(AGENTS)).json()["total"] == 0
        assert await AgentLists(node.store).sweep() == []
    told: Any = await node.store.command("XRANGE", keys.events_of(agent["id"]), "-", "+")
    assert [fields[1] for _, fields in told] == [b"agent.listed", b"agent.removed"]


async def test_an_entry_that_cannot_be_removed_at_its_end_keeps_no_other(node: NodeUnderTest) -> None:
    broken, sound = [await listed(node, await opened(node), card_of(name)) for name in ("First desk", "Second desk")]
    lists = AgentLists(node.store)
    over = await lists.now() - 1000
    for each in (broken, sound):
        await node.store.command("HSET", keys.agent(each["id"]), "ends_at", over)
        await node.store.command("ZADD", keys.AGENT_ENDS, over, each["id"])
    await node.store.command("HSET", keys.agent(broken["id"]), "status", "checking")  # makes its end unknown
    assert await lists.sweep() == [sound["id"]]
    assert not await node.store.command("EXISTS", keys.agent(sound["id"]))


async def test_what_has_ended_is_swept_where_few_calls_may_be_under_way(empty_redis: RedisServer | Cluster) -> None:
    ended = sorted(ids.new_id() for _ in range(40))
    async with await connect(empty_redis.url, timeout=5.0, max_in_flight=32) as store:
        for each in ended:
            await store.command("ZADD", keys.AGENT_ENDS, 1, each)
        assert sorted(await AgentLists(store).sweep()) == ended
        assert (await AgentLists(store).figures())[1] == 0


@pytest.mark.parametrize(
    "spoil",
    [
        ["HDEL", "{}", "address"],
        ["HSET", "{}", "card", '{"name":'],
        ["HSET", "{}", "listed_at", "today"],
        ["SET", "{}", "no entry", "EX", 60],
    ],
)
async def test_an_entry_that_cannot_be_read_hides_no_other(node: NodeUnderTest, spoil: list[str | int]) -> None:
    broken, sound = [await listed(node, await opened(node), card_of(name)) for name in ("First desk", "Second desk")]
    await node.store.command(*(keys.agent(broken["id"]) if each == "{}" else each for each in spoil))
    with capture_logs() as logs:
        page = (await node.client.get(AGENTS)).json()
        assert ([each["id"] for each in page["agents"]], page["total"]) == ([sound["id"]], 1)
        assert "incomplete" not in page
        assert sound["id"] in (await node.client.get("/agents")).text
        hits: list[Any] = []
        hosts = cycle(range(250))

        async def found() -> bool:
            client = node.client_at(f"203.0.113.{next(hosts)}")  # each client may search only so often
            hits[:] = (await client.post(f"{AGENTS}/search", json={"query": "long report"})).json()["hits"]
            return sound["id"] in [each["agent_id"] for each in hits]

        async with node.worker():
            events = await all_events(node, "agents", 1)
            await until(found)
        assert len(hits) == 1
        assert [each["data"]["id"] for each in events] == [sound["id"]]
    assert broken["id"] in [line.get("entity") for line in logs if line["log_level"] == "error"]
    assert (await node.client.get(f"{AGENTS}/{broken['id']}")).status_code == 500
