"""A card that has changed where it was fetched is the one that the directory shows and finds, if it can be listed
(NETWORK 2).
"""

from itertools import count
from typing import Any

import pytest

from node.store import ids, keys
from tests.agents.calls import AGENTS, TRANSLATE, shown
from tests.agents.conftest import CALLING
from tests.agents.made_up import Json, MadeUpAgents
from tests.agents.test_agent_probes import listed_at, probe
from tests.events.test_events_api import all_events
from tests.support.node_under_test import NodeUnderTest, until

LINGUIST = {"name": "Language desk", "description": "Helps people who travel for their work.", "skills": [TRANSLATE]}

pytestmark = [CALLING, pytest.mark.usefixtures("look")]


class Finder:
    """Searches as a new client each time, to stay below the limit."""

    def __init__(self, node: NodeUnderTest) -> None:
        self._node = node
        self._clients = count()

    async def finds(self, query: str, skill: str) -> bool:
        client = self._node.client_at(f"203.0.113.{next(self._clients) % 250}")
        response = await client.post(f"{AGENTS}/search", json={"query": query, "threshold": 0.5})
        return [hit["skill"] for hit in response.json()["hits"]] == [skill]


async def test_a_card_that_has_changed_is_shown_and_found_from_the_next_probe_on(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    finder = Finder(node)
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        await until(lambda: finder.finds("sum up a long report", "Summarise reports"))
        made_up.cards["/good"] = LINGUIST
        changed = await probe(node, agent)
        assert (changed["name"], changed["description"]) == (LINGUIST["name"], LINGUIST["description"])
        assert [each["name"] for each in changed["skills"]] == ["Translate contracts"]
        same = ("id", "proof", "address", "card_url", "url", "liveness", "listed_at", "expires_at", "reason")
        assert {name: changed[name] for name in same} == {name: agent[name] for name in same}
        await until(lambda: finder.finds("translate a Portuguese contract", "Translate contracts"))
        assert not await finder.finds("sum up a long report", "Summarise reports")
        events = await all_events(node, "agents", 2)
        await probe(node, agent)
    assert [(event["type"], event["data"]["name"]) for event in events] == [("agent.listed", "Language desk")] * 2
    assert await told(node, agent) == 2


async def told(node: NodeUnderTest, agent: Json) -> int:
    """Return how many events say that the agent is listed."""
    outbox = keys.events(ids.partition_of_id(agent["id"]))
    entries: Any = await node.store.command("XRANGE", outbox, "-", "+")
    return sum(b"agent.listed" in fields for _, fields in entries)


NOT_TAKEN: tuple[tuple[Json, str], ...] = (
    ({"description": "Este agente resume relatórios longos e explica o que importa neles."}, "English"),
    ({"supportedInterfaces": [{"url": "http://victim.example/a2a"}]}, "names no endpoint"),
    ({"skills": []}, "skills"),
)


@pytest.mark.parametrize(("card", "reason"), NOT_TAKEN)
async def test_a_changed_card_that_could_not_be_listed_changes_nothing_and_the_entry_says_why(
    node: NodeUnderTest, made_up: MadeUpAgents, card: Json, reason: str
) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        made_up.cards["/good"] = card
        kept = await probe(node, agent)
        assert reason in kept["reason"]
        assert kept | {"reason": None, "checked_at": ""} == agent | {"checked_at": ""}
        made_up.cards["/good"] = {}
        assert (await probe(node, agent))["reason"] is None
    assert await told(node, agent) == 1


async def test_an_agent_that_is_called_elsewhere_is_as_alive_as_what_is_there(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        assert agent["liveness"] == "open"
        elsewhere = {"url": made_up.url("lying"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        made_up.cards["/good"] = {"supportedInterfaces": [elsewhere]}
        moved = await probe(node, agent)
    assert (moved["url"], moved["liveness"]) == (made_up.url("lying"), "wrong_protocol")


async def test_trouble_with_the_card_is_no_change(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
        made_up.kinds["/good"] = "failing"
        await probe(node, agent)
    assert await shown(node, agent) | {"checked_at": ""} == agent | {"checked_at": ""}
