"""Liveness: probes have no effect on the agent, three in a row change it, and an agent that is long gone is hidden
(NETWORK 2).
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from node.agents.lists import AgentLists
from node.agents.store import HIDES_MS
from node.callbacks.target import MAX_URL
from node.common.timestamps import timestamp
from node.config import Limit, Limits
from node.store import ids, keys
from node.store.clock import now_ms
from tests.agents.calls import AGENTS, card_of, listed, shown
from tests.agents.conftest import CALLING, MANY
from tests.agents.made_up import LIVENESS, WELL_KNOWN, Json, MadeUpAgents
from tests.events.test_events_api import all_events
from tests.inbox.calls import bearer, opened, path_of, send_signed, signed
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import free_port

pytestmark = [CALLING, pytest.mark.usefixtures("look")]


async def listed_at(node: NodeUnderTest, url: str) -> Json:
    """Return the entry of a URL, once it is listed and has been probed."""
    agent = json_of(await node.client.post(AGENTS, json={"url": url}), 202)

    async def probed() -> bool:
        return await node.store.command("HEXISTS", keys.agent(agent["id"]), "same") == 1

    await until(probed)
    return await shown(node, agent)


async def due_in(node: NodeUnderTest, agent: Json) -> float:
    """Return the hours until the next probe of an entry."""
    due = keys.agents_due(ids.partition_of_id(agent["id"]))
    score: Any = await node.store.command("ZSCORE", due, agent["id"])
    return (float(score) - await now_ms(node.store, due)) / 3_600_000


async def probe(node: NodeUnderTest, agent: Json, times: int = 1) -> Json:
    """Return the entry after further probes."""
    key, due = keys.agent(agent["id"]), keys.agents_due(ids.partition_of_id(agent["id"]))
    for _ in range(times):
        await node.store.command("HDEL", key, "same")
        await node.store.command("ZADD", due, 0, agent["id"])

        async def done() -> bool:
            return await node.store.command("HEXISTS", key, "same") == 1

        await until(done)
    return await shown(node, agent)


async def has(node: NodeUnderTest, read: Callable[[], Awaitable[set[str]]], *wanted: str) -> None:
    """Return once a list has exactly these ids."""

    async def same() -> bool:
        return await read() == set(wanted)

    await until(same)


async def ids_listed(node: NodeUnderTest, **query: str) -> set[str]:
    return {each["id"] for each in (await node.client.get(AGENTS, params={"limit": 100, **query})).json()["agents"]}


async def test_a_url_that_leaves_no_room_is_no_reason_to_look_again_and_again(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    url = made_up.url("good")
    longest = url.ljust(MAX_URL, "x")
    made_up.cards["/good"] = {"supportedInterfaces": [{"url": longest, "protocolBinding": "HTTP+JSON"}]}
    async with node.worker():
        assert (await listed_at(node, url))["liveness"] == "unreachable"


async def test_each_kind_of_agent_is_found_to_be_what_it_is(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    await node.store.command("SET", keys.LAST_CHECK, 1)
    async with node.worker():
        agents = {kind: await listed_at(node, made_up.url(kind)) for kind in LIVENESS}
        assert {kind: agent["liveness"] for kind, agent in agents.items()} == LIVENESS
        assert all(agent["checked_at"] >= agent["listed_at"] for agent in agents.values())
        assert 21 < await due_in(node, agents["good"]) < 27
        for liveness in set(LIVENESS.values()):
            wanted = [agent["id"] for agent in agents.values() if agent["liveness"] == liveness]
            await has(node, lambda: ids_listed(node, liveness=liveness), *wanted)  # noqa: B023 - awaited at once
    counts, due, age = await AgentLists(node.store).figures()
    assert counts == Counter(dict.fromkeys(counts, 0) | Counter(LIVENESS.values()))
    assert due == 0
    assert age < 3600
    assert made_up.requests["POST /good/message:send"] == 1
    # The probe leaves no session open.
    assert (made_up.requests["POST /mcp"], made_up.requests["DELETE /mcp"]) == (1, 1)


@pytest.mark.parametrize(("below", "version"), [("", " 1.0 "), ("/", "1.0"), ("/?tenant=1", "1.0")])
async def test_an_agent_is_called_where_and_as_its_card_says_however_that_is_written(
    node: NodeUnderTest, made_up: MadeUpAgents, below: str, version: str
) -> None:
    url = made_up.url("good")
    interface = {"url": url + below, "protocolBinding": "http+json ", "protocolVersion": version}
    made_up.cards["/good"] = {"supportedInterfaces": [interface]}
    async with node.worker():
        assert (await listed_at(node, url))["liveness"] == "open"
    assert made_up.requests["POST /good/message:send"] == 1


async def test_nobody_knows_before_the_first_probe(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    response = await node.client.post(AGENTS, json={"url": made_up.url("good")})
    agent = await shown(node, response.json())
    assert (agent["liveness"], agent["checked_at"]) == ("unknown", None)


async def test_three_probes_in_a_row_change_what_is_said(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        made_up.kinds["/good"] = "lying"
        assert (await probe(node, agent, 2))["liveness"] == "open"
        made_up.kinds["/good"] = "good"
        assert (await probe(node, agent))["liveness"] == "open"
        made_up.kinds["/good"] = "lying"
        assert (await probe(node, agent, 2))["liveness"] == "open"
        assert (await probe(node, agent))["liveness"] == "wrong_protocol"
        await has(node, lambda: ids_listed(node, liveness="wrong_protocol"), agent["id"])
        await has(node, lambda: ids_listed(node, liveness="open"))
        made_up.kinds["/good"] = "gated"
        assert (await probe(node, agent))["liveness"] == "wrong_protocol"
        made_up.kinds["/good"] = "away"
        assert (await probe(node, agent, 2))["liveness"] == "wrong_protocol"
        assert (await probe(node, agent))["liveness"] == "unreachable"


async def test_who_does_not_answer_for_its_card_is_unreachable(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        nobody = f"http://127.0.0.1:{free_port()}/card.json"
        await node.store.command("HSET", keys.agent(agent["id"]), "card_url", nobody)
        assert (await probe(node, agent, 3))["liveness"] == "unreachable"


async def test_who_is_unreachable_for_a_week_is_hidden_until_it_is_back(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("away"))
        assert (agent["liveness"], agent["reason"]) == ("unreachable", None)
        await has(node, lambda: ids_listed(node), agent["id"])
        since = int(await node.store.command("HGET", keys.agent(agent["id"]), "since"))  # type: ignore[arg-type]
        await node.store.command("HSET", keys.agent(agent["id"]), "since", since - HIDES_MS)
        hidden = await probe(node, agent)
        assert (hidden["status"], hidden["liveness"]) == ("listed", "unreachable")
        assert "unreachable for 7 days" in hidden["reason"]
        await has(node, lambda: ids_listed(node))
        await has(node, lambda: ids_listed(node, liveness="unreachable"))
        made_up.kinds["/away"] = "good"
        assert "unreachable" in (await probe(node, agent, 2))["reason"]
        back = await probe(node, agent)
        assert (back["liveness"], back["reason"]) == ("open", None)
        await has(node, lambda: ids_listed(node), agent["id"])
        events = await all_events(node, "agents", 3)
    assert [event["type"] for event in events] == ["agent.listed", "agent.removed", "agent.listed"]


async def test_a_hidden_agent_is_shown_again_when_it_is_posted(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("away"))
        await node.store.command("HSET", keys.agent(agent["id"]), "since", 1)
        await probe(node, agent)
        await has(node, lambda: ids_listed(node))
        made_up.kinds["/away"] = "good"
        await node.store.command("HDEL", keys.agent(agent["id"]), "same")
        assert (await listed_at(node, made_up.url("away")))["liveness"] == "open"
        await has(node, lambda: ids_listed(node), agent["id"])


async def test_an_entry_goes_when_a_probe_finds_its_card_gone(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        made_up.kinds["/good"] = "gone"
        await node.store.command("ZADD", keys.agents_due(ids.partition_of_id(agent["id"])), 0, agent["id"])

        async def is_gone() -> bool:
            return (await node.client.get(f"{AGENTS}/{agent['id']}")).status_code == 404

        await until(is_gone)
        await has(node, lambda: ids_listed(node))
    assert made_up.requests["POST /good/message:send"] == 1


async def test_an_agent_with_an_inbox_is_as_alive_as_its_owner(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of())
    async with node.worker():
        await has(node, lambda: ids_listed(node, liveness="open"), agent["id"])
        assert await due_in(node, agent) < 1.2
        await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
        assert (await probe(node, agent))["liveness"] == "unreachable"
        await has(node, lambda: ids_listed(node, liveness="unreachable"), agent["id"])
        await node.store.command("HSET", keys.agent(agent["id"]), "since", 1)
        await probe(node, agent)
        await has(node, lambda: ids_listed(node))
        await node.client.get(f"{path_of(inbox)}/messages", headers=bearer(inbox["inbox_token"]))
        await node.client.post("/api/v1/inboxes", json={}, headers=bearer(inbox["inbox_token"]))
        assert (await probe(node, agent))["liveness"] == "open"
        await has(node, lambda: ids_listed(node, liveness="open"), agent["id"])


async def test_a_key_without_an_inbox_is_not_probed(node: NodeUnderTest) -> None:
    response = await send_signed(node, signed("POST", AGENTS, {"card": card_of()}))
    agent = response.json()
    async with node.worker():
        await has(node, lambda: ids_listed(node, liveness="unknown"), agent["id"])
        assert (await probe(node, agent))["liveness"] == "unknown"


class TestRates:
    """A node that limits its calls to one host."""

    @pytest.fixture(params=[2, 3])
    def overrides(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        # Two requests find the card. The probe asks for the card again, and then sends the request that must be
        # refused.
        return {"callback_allow_private": True, "limits": Limits(callback=Limit(request.param, 60), agent=MANY)}

    async def test_a_host_that_was_called_enough_is_probed_later(
        self, node: NodeUnderTest, made_up: MadeUpAgents
    ) -> None:
        async with node.worker():
            response = await node.client.post(AGENTS, json={"url": made_up.url("good")})
            agent = response.json()
            due = keys.agents_due(ids.partition_of_id(agent["id"]))

            async def is_put_off() -> bool:
                now = int((await node.store.command("TIME", key=due))[0])  # type: ignore[index]
                score = await node.store.command("ZSCORE", due, agent["id"])
                return float(score or 0) / 1000 > now + 600  # type: ignore[arg-type]

            await until(is_put_off)
            entry = await shown(node, agent)
            assert (entry["status"], entry["liveness"]) == ("listed", "unknown")
        assert sum(made_up.requests.values()) <= 3
        assert made_up.requests[f"GET /good{WELL_KNOWN}"] >= 1


async def test_times_are_told_as_everywhere(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
    stored = int(await node.store.command("HGET", keys.agent(agent["id"]), "checked_at"))  # type: ignore[arg-type]
    assert agent["checked_at"] == timestamp(stored)
