"""Agents are found by what they can do (NETWORK 2)."""

from itertools import count
from typing import Any

import pytest

from node.agents.service import MAX_HITS
from node.store import ids, keys
from tests.agents.calls import AGENTS, SUMMARISE, TRANSLATE, card_of, listed
from tests.inbox.calls import bearer, opened
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, until

pytestmark = pytest.mark.usefixtures("patience")
_addresses = count()


async def answer(node: NodeUnderTest, **query: Any) -> dict[str, Any]:
    """Return the answer to a search. Each call uses another address, because tests search until all is indexed, more
    often than one client may.
    """
    client = node.client_at(f"203.0.113.{next(_addresses) % 250}")
    return json_of(await client.post(f"{AGENTS}/search", json=query))


async def found(node: NodeUnderTest, **query: Any) -> list[dict[str, Any]]:
    """Return the hits for translating a contract."""
    return (await answer(node, **{"query": "translate a Portuguese contract", "threshold": 0.5} | query))["hits"]


async def test_agents_are_found_by_the_skill_that_fits_best(node: NodeUnderTest) -> None:
    inbox = await opened(node)

    async def found_by_skill() -> bool:
        return [hit["skill"] for hit in await found(node)] == ["Translate contracts"]

    async with node.worker():
        agent = await listed(node, inbox, card_of("Report desk", SUMMARISE, TRANSLATE))
        await until(found_by_skill)
        [hit] = await found(node)
        assert (hit["agent_id"], hit["name"]) == (agent["id"], "Report desk")
        assert (hit["url"], hit["liveness"]) == (inbox["a2a_url"], "open")
        [by_name] = (await answer(node, query="desk", threshold=0.9))["hits"]
        assert (by_name["agent_id"], by_name["skill"]) == (agent["id"], None), "it is no skill that matches"
        await node.client.delete(f"{AGENTS}/{agent['id']}", headers={"authorization": f"Bearer {inbox['inbox_token']}"})
        assert not await found(node)


async def test_an_agent_whose_owner_is_away_is_not_found_as_live_and_after_long_not_at_all(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 0.1)  # the test changes times in Redis
    inbox = await opened(node)

    async def last_seen(seen: int) -> None:
        """Set when the inbox's owner was last there, and make the entry due for a worker."""
        await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", seen)
        await node.store.command("ZADD", keys.agents_due(ids.partition_of_id(agent["id"])), 0, agent["id"])

    async def is_found() -> bool:
        return bool(await found(node))

    async def is_not_found() -> bool:
        return not await is_found()

    async def is_unreachable() -> bool:
        return await node.store.command("HGET", keys.agent(agent["id"]), "liveness") == b"unreachable"

    async with node.worker():
        agent = await listed(node, inbox, card_of("Report desk", TRANSLATE))
        await until(is_found)
        assert await found(node, live=True)
        await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
        assert not await found(node, live=True)
        assert await is_found()
        await last_seen(1)
        await until(is_unreachable)
        await node.store.command("HSET", keys.agent(agent["id"]), "since", 1)
        await last_seen(1)
        await until(is_not_found)
        await last_seen(2**45)
        await until(is_found)


async def test_however_many_agents_that_nobody_can_call_match_better_live_ones_are_found(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If only the live ones among the 50 best matches were shown, 50 agents that are not live would hide all others."""
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 0.1)  # the test changes times in Redis
    inbox = await opened(node)
    card = card_of("Translator", TRANSLATE | {"name": "Lawyer"})
    mine = await listed(node, inbox, card)
    away = [await opened(node) for _ in range(3)]
    others: list[dict[str, Any]] = []
    for number in range(MAX_HITS + 5):
        owner = away[number % len(away)]
        card = card_of(f"Translate a Portuguese contract {number}", TRANSLATE)
        client = node.client_at(f"198.51.100.{number % 8}")
        response = await client.post(AGENTS, json={"card": card}, headers=bearer(owner["inbox_token"]))
        others.append(json_of(response, 202))

    async def only_mine_is_live() -> bool:
        return json_of(await node.client.get(AGENTS, params={"liveness": "open"}))["total"] == 1

    async def are_best_by_meaning() -> bool:
        best = await answer(node, query="translate a Portuguese contract", threshold=0.7, limit=MAX_HITS)
        hits = {hit["agent_id"] for hit in best["hits"]} - {mine["id"]}  # found too, until enough others are indexed
        return best["mode"] == "both" and len(hits) == MAX_HITS

    async with node.worker():
        for owner in away:
            await node.store.command("HSET", keys.inbox(owner["address"]), "seen", 1)
        for agent in others:
            await node.store.command("ZADD", keys.agents_due(ids.partition_of_id(agent["id"])), 0, agent["id"])
        await until(only_mine_is_live)
        await until(are_best_by_meaning)
        assert mine["id"] not in [hit["agent_id"] for hit in await found(node, limit=MAX_HITS)]
        assert [hit["agent_id"] for hit in await found(node, live=True)] == [mine["id"]]
    assert [hit["agent_id"] for hit in await found(node, live=True)] == [mine["id"]], "by text alone"


async def test_a_lower_threshold_is_offered_for_live_agents_alone(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)

    async def legal(**query: Any) -> dict[str, Any]:
        return await answer(node, query="translates legal contracts", **{"threshold": 0.99} | query)

    async def hits_below() -> int:
        """Return how many live agents are found with the lower threshold that a search offers; 0 if it offers none."""
        found = await legal(live=True)
        assert found["hits"] == []
        if "lower_threshold" not in found:
            return 0
        hits = (await legal(live=True, threshold=found["lower_threshold"]["threshold"]))["hits"]
        assert len(hits) == found["lower_threshold"]["hits"]
        return len(hits)

    async def both_found() -> bool:
        return len((await legal(threshold=0.6))["hits"]) == 2

    async with node.worker():
        await listed(node, inbox, card_of("Contract desk", TRANSLATE))
        fewer = TRANSLATE | {"description": "Translates legal letters."}
        await listed(node, other, card_of("Letter desk", fewer | {"name": "Translate letters"}))
        await until(both_found)
        assert len((await legal())["hits"]) == 1
        await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
        assert await hits_below() == 1, "what matches best is not live, but something else is"
        await node.store.command("HSET", keys.inbox(other["address"]), "seen", 1)
        assert await hits_below() == 0
