"""One primary of three and its replica are gone for good: what the other primaries keep is still served."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from node.agents.agent_reader import AgentReader
from node.run.embedded_redis import find_search
from node.store import keys
from node.store.ids import home_of, partition_of_id
from node.store.keys import tag
from node.store.search_keys import SearchKeys
from node.store.slots import slot_of
from tests.agents.calls import card_of
from tests.faults.writers import unlimited
from tests.support.node_under_test import NodeUnderTest, running, until
from tests.support.servers import Cluster, RedisServer

THREADS = 48  # the chance that a given primary is home to none of them is one in 280 million
PAGE = "/api/v1/board?limit=100"
TASKS = "/api/v1/tasks"
SEARCH = "/api/v1/board/search"
AGENT_SEARCH = "/api/v1/agents/search"
WIDE = {"threshold": 0.5}
BODY = "Is anybody here who can parse some large files?"
QUERY = {"query": "parse large files", "limit": 50, "threshold": 0.5}
CLIENT = "203.0.113.7"  # the client address of a node under test
NEW: tuple[tuple[str, dict[str, str]], ...] = (
    ("/api/v1/board", {"title": "Another question", "body": BODY}),
    ("/api/v1/tasks", {"publisher_id": "p", "title": "Translate a memo"}),
    ("/api/v1/sessions", {}),
    ("/api/v1/inboxes", {}),
)


@pytest.fixture
def search_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A separate Redis for search, with the query engine."""
    module = find_search()
    assert module
    with RedisServer(tmp_path / "search", "--loadmodule", str(module)) as server:
        yield server


async def listed(node: NodeUnderTest) -> str:
    """Return the id of a listed agent, proven by an inbox of its own."""
    inbox = (await node.client.post("/api/v1/inboxes", json={})).json()
    owner = {"authorization": f"Bearer {inbox['inbox_token']}"}
    answer = await node.client.post("/api/v1/agents", json={"card": card_of("Report desk")}, headers=owner)
    return answer.json()["id"]


async def test_what_the_other_primaries_keep_is_served(lenient_cluster: Cluster, search_redis: RedisServer) -> None:
    settings = unlimited(lenient_cluster.url, search_url=search_redis.url, store_timeout=5.0)
    async with running(settings) as node:
        threads: list[str] = []
        for number in range(THREADS):
            # A thread's partition is the one where its client's limits are counted.
            author = node.client_at(f"198.51.100.{number}")
            posted = await author.post("/api/v1/board", json={"title": f"Topic {number}", "body": BODY})
            threads.append(posted.json()["id"])
            await node.store.command("ZADD", keys.OPEN_THREADS, number, threads[-1])
        ids = set(threads)
        whole = (await node.client.get(PAGE)).json()
        assert (len(whole["threads"]), "incomplete" in whole) == (THREADS, False)
        found = (await node.client.post(SEARCH, json=QUERY)).json()
        assert ({hit["thread_id"] for hit in found["hits"]}, "incomplete" in found) == (ids, False)

        agents = [await listed(node) for _ in range(THREADS)]

        def is_lost(entity: str) -> bool:
            return lenient_cluster.primary_of(slot_of(tag(partition_of_id(entity)))) is victim

        kept = {lenient_cluster.primary_of(slot_of(each)) for each in (keys.OPEN_THREADS, tag(home_of(CLIENT)))}
        victim = next(server for server in lenient_cluster.servers[:3] if server not in kept)
        lost = {each for each in ids if is_lost(each)}
        gone = [each for each in agents if is_lost(each)]
        assert lost, "some threads were there"
        assert gone, "some agents were there"
        await asyncio.to_thread(lenient_cluster.lose, victim)
        pages: list[httpx2.Response] = []

        async def is_served() -> bool:
            pages.append(await node.client.get(PAGE))
            return pages[-1].status_code == 200 and "incomplete" in pages[-1].json()

        await until(is_served)
        page = pages[-1].json()
        assert {thread["id"] for thread in page["threads"]} == ids - lost
        assert (page["incomplete"], page["total"]) == (True, THREADS)
        assert await node.store.command("ZCARD", keys.OPEN_THREADS) == THREADS, "no thread is taken off the list"

        statuses = [status for status, *_ in await AgentReader(node.store).posts([(each, 0) for each in agents])]
        assert statuses == ["unreachable" if each in gone else "open" for each in agents]
        found = (await node.client.post(SEARCH, json=QUERY)).json()
        assert {hit["thread_id"] for hit in found["hits"]} == ids - lost
        assert found["incomplete"] is True
        for number, thread in enumerate(threads):
            only = await node.client.post(SEARCH, json={"query": f"Topic {number}", "threshold": 0.9})
            assert [hit["thread_id"] for hit in only.json()["hits"]] == [thread] * (thread not in lost)
            assert ("incomplete" in only.json()) is (thread in lost)
        for path, body in NEW:
            made = [(await node.client.post(path, json=body)).status_code for _ in range(12)]
            assert made == [201] * 12, f"{path}: what is new goes where it can be kept"


async def test_agents_that_can_be_read_are_found(lenient_cluster: Cluster, search_redis: RedisServer) -> None:
    settings = unlimited(lenient_cluster.url, search_url=search_redis.url, store_timeout=5.0)
    async with running(settings) as node:
        found: dict[str, Any] = {}

        async def search() -> set[str]:
            answer = await node.client.post(AGENT_SEARCH, json={"query": "summarise reports", "limit": 50} | WIDE)
            found.clear()
            found.update(answer.json())
            return {hit["agent_id"] for hit in found["hits"]} if answer.status_code == 200 else set()

        async with node.worker():
            agents = {await listed(node) for _ in range(THREADS)}

            async def are_all_found() -> bool:
                return await search() == agents

            await until(are_all_found)
        assert "incomplete" not in found
        queue = SearchKeys("agents").pending  # where a web process queues its request for a query's vector
        needed = (queue, tag(home_of(CLIENT)), keys.AGENTS)
        kept = {lenient_cluster.primary_of(slot_of(each)) for each in needed}
        victim = next(server for server in lenient_cluster.servers[:3] if server not in kept)
        lost = {each for each in agents if lenient_cluster.primary_of(slot_of(tag(partition_of_id(each)))) is victim}
        assert lost, "some agents were there"
        await asyncio.to_thread(lenient_cluster.lose, victim)

        async def are_others_found() -> bool:
            return await search() == agents - lost

        await until(are_others_found)
        assert found["incomplete"] is True
        page = (await node.client.get("/api/v1/agents?limit=100")).json()
        assert {agent["id"] for agent in page["agents"]} == agents - lost
        assert (page["incomplete"], page["total"]) == (True, THREADS)
        live = await node.client.post(AGENT_SEARCH, json={"query": "summarise reports", "live": True} | WIDE)
        assert (live.status_code, live.json()["incomplete"]) == (200, True)


async def test_contracts_that_can_be_read_are_listed_found_and_claimed(lenient_cluster: Cluster) -> None:
    async with running(unlimited(lenient_cluster.url, store_timeout=5.0)) as node:
        ids: set[str] = set()
        for number in range(THREADS):
            offer = {"publisher_id": "desk", "title": f"Count the panels on photograph {number}", "skills": ["count"]}
            ids.add((await node.client.post(TASKS, json=offer)).json()["id"])
        listing = {lenient_cluster.primary_of(slot_of(key)) for key in (keys.tasks_with("offered"), keys.OFFERS)}
        victim = next(server for server in lenient_cluster.servers[:3] if server not in listing)
        lost = {each for each in ids if lenient_cluster.primary_of(slot_of(tag(partition_of_id(each)))) is victim}
        assert lost, "some contracts were there"
        await asyncio.to_thread(lenient_cluster.lose, victim)
        pages: list[httpx2.Response] = []

        async def is_served(query: str) -> bool:
            pages.append(await node.client.get(f"{TASKS}?status=offered&limit=50{query}"))
            return pages[-1].status_code == 200 and "incomplete" in pages[-1].json()

        for query in ("", "&skill=count"):
            await until(lambda query=query: is_served(query))
            assert {task["id"] for task in pages[-1].json()["tasks"]} == ids - lost
        claimed: set[str] = set()
        while len(claimed) < len(ids - lost):
            claim = await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "worker", "skills": ["count"]})
            assert claim.status_code == 200, claim.text
            claimed.add(claim.json()["id"])
        assert claimed == ids - lost


async def test_an_offer_that_cannot_be_read_keeps_nobody_from_others(lenient_cluster: Cluster) -> None:
    async with running(unlimited(lenient_cluster.url, store_timeout=5.0)) as node:
        offer, claim = {"publisher_id": "p", "title": "Translate a memo"}, {"assignee_id": "a"}
        offered = f"{TASKS}?wait=0"
        kept = {lenient_cluster.primary_of(slot_of(each)) for each in (keys.OFFERS, keys.tasks_with("offered"))}
        victim = next(server for server in lenient_cluster.servers[:3] if server not in kept)
        unreadable = ""
        start = (await node.client.get(offered)).json()["next_since"]
        while not unreadable:
            made = (await node.client.post(TASKS, json=offer)).json()["id"]
            if lenient_cluster.primary_of(slot_of(tag(partition_of_id(made)))) is victim:
                unreadable = made
            else:
                assert (await node.client.post(f"{TASKS}/{made}/claim", json=claim)).status_code == 200
        await asyncio.to_thread(lenient_cluster.lose, victim)
        pages: list[httpx2.Response] = []

        async def is_incomplete() -> bool:
            pages.append(await node.client.get(offered))
            return pages[-1].status_code == 200 and "incomplete" in pages[-1].json()

        await until(is_incomplete)
        assert pages[-1].json()["tasks"] == []
        since = (await node.client.get(f"{offered}&since={start}")).json()
        assert (since["tasks"], since["incomplete"]) == ([], True)
        for page in (since, pages[-1].json()):
            assert unreadable in page["next_since"], "it is shown when it can be read"
        assert (await node.client.post(f"{TASKS}/claim-next", json=claim)).status_code == 204
        made = (await node.client.post(TASKS, json=offer)).json()["id"]
        assert (await node.client.post(f"{TASKS}/claim-next", json=claim | {"wait": 5})).json()["id"] == made


async def test_who_goes_on_through_a_failover_is_shown_each_offer_once(lenient_cluster: Cluster) -> None:
    """The offers kept by the primary that dies are out of reach until its replica has taken over."""
    async with running(unlimited(lenient_cluster.url, store_timeout=0.5)) as node:
        asked: dict[str, str] = {"status": "offered"}
        asked["since"] = (await node.client.get(TASKS, params=asked)).json()["next_since"]
        made: list[str] = []
        for number in range(THREADS):
            offer = {"publisher_id": "desk", "title": f"Count the panels on photograph {number}"}
            made.append((await node.client.post(TASKS, json=offer)).json()["id"])
        homes = {each: lenient_cluster.primary_of(slot_of(tag(partition_of_id(each)))) for each in made}
        victim = next(home for home in homes.values() if home is not lenient_cluster.primary_of(slot_of(keys.OFFERS)))
        replica = lenient_cluster.replica_of(victim)
        offset = victim.info("replication")["master_repl_offset"]

        async def is_replicated() -> bool:
            return replica.info("replication")["slave_repl_offset"] >= offset

        await until(is_replicated)
        victim.kill()
        shown: list[str] = []

        async def are_all_shown() -> bool:
            answer = await node.client.get(TASKS, params=asked)
            if answer.status_code == 200:
                shown.extend(task["id"] for task in answer.json()["tasks"])
                asked["since"] = answer.json()["next_since"]
            return len(shown) >= len(made)

        await until(are_all_shown, 30)
        assert sorted(shown) == sorted(made)
