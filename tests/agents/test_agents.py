"""The directory over HTTP: listed, renewed, shown, removed (NETWORK 2)."""

import asyncio
from typing import Any

import pytest

from node.agents.lists import AgentLists
from node.agents.store import AGENT_LIFE_MS
from node.store import Store, keys
from node.store.lists import Listing
from tests.agents.calls import AGENTS, SUMMARISE, TRANSLATE, card_of, listed, post, shown
from tests.board.signed_posts import OTHER_KEY
from tests.events.test_events_api import all_events
from tests.inbox.calls import ADDRESS, bearer, opened, path_of, send_signed, signed
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest, until

PORTUGUESE = "Este agente resume relatórios longos e explica o que importa neles para todos."


async def test_an_inbox_lists_an_agent_that_is_reached_through_it(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    agent = await shown(node, await listed(node, inbox, card_of()))
    assert (agent["proof"], agent["inbox"], agent["liveness"]) == ("inbox", inbox["address"], "open")
    assert agent["url"] == inbox["a2a_url"]
    card = (await node.client.get(agent["card_url"])).json()
    assert agent["url"] in [each["url"] for each in card["supportedInterfaces"]]
    assert [skill["name"] for skill in agent["skills"]] == ["Summarise reports"]
    await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
    assert (await shown(node, agent))["liveness"] == "unreachable"
    await node.client.delete(path_of(inbox), headers=bearer(inbox["inbox_token"]))
    closed = await shown(node, agent)
    assert (closed["url"], closed["inbox"], closed["liveness"]) == (None, None, "unreachable")


async def test_a_key_lists_an_agent_with_or_without_an_inbox(node: NodeUnderTest) -> None:
    response = await send_signed(node, signed("POST", AGENTS, {"card": card_of()}))
    assert response.status_code == 202, response.text
    agent = await shown(node, response.json())
    assert (agent["proof"], agent["address"], agent["inbox"], agent["url"]) == ("key", ADDRESS, None, None)
    await send_signed(node, signed("POST", "/api/v1/inboxes"))
    assert (await shown(node, agent))["inbox"] == ADDRESS


async def test_urls_of_a_card_are_not_shown(node: NodeUnderTest) -> None:
    agent = await listed(node, await opened(node), card_of())
    assert "victim" not in (await node.client.get(f"{AGENTS}/{agent['id']}")).text


async def test_who_proves_nothing_lists_nothing(node: NodeUnderTest) -> None:
    assert refused(await node.client.post(AGENTS, json={"card": card_of()})) == (401, "inbox.proof")
    wrong = await node.client.post(AGENTS, json={"card": card_of()}, headers=bearer("wrong"))
    assert refused(wrong) == (403, "inbox.token")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "two\nlines"},
        {"name": " "},
        {"description": " "},
        {"skills": []},
        {"skills": [SUMMARISE] * 21},
        {"skills": [SUMMARISE | {"name": "two\nlines"}]},
        {"skills": [SUMMARISE | {"name": " "}]},
        {"skills": [SUMMARISE | {"description": "\u200b"}]},
        {"skills": [SUMMARISE | {"tags": ["two\nlines"]}]},
        {"skills": [SUMMARISE | {"examples": ["Please read this page. " * 20] * 10}] * 20},
    ],
)
async def test_a_bad_card_is_refused(node: NodeUnderTest, change: dict[str, Any]) -> None:
    response = await post(node, await opened(node), card_of() | change)
    assert response.status_code == 422, response.text


async def test_a_card_that_is_too_long_is_not_judged(node: NodeUnderTest) -> None:
    too_long = [SUMMARISE | {"examples": ["Please read this page. " * 20] * 10}] * 20
    response = await post(node, await opened(node), card_of() | {"description": PORTUGUESE, "skills": too_long})
    assert (response.status_code, "20000 characters" in response.text) == (422, True)


async def test_null_in_a_card_or_beside_it_stands_for_the_default(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    card = card_of("Report desk", SUMMARISE | {"tags": None, "examples": None}) | {"iconUrl": None}
    response = await node.client.post(AGENTS, json={"card": card, "url": None}, headers=bearer(inbox["inbox_token"]))
    assert response.status_code == 202, response.text
    agent = await shown(node, response.json())
    assert [skill["name"] for skill in agent["skills"]] == [SUMMARISE["name"]]


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("card.name or card.description", {"description": PORTUGUESE}),
        ("card.skills[1]", {"skills": [SUMMARISE, TRANSLATE | {"description": PORTUGUESE}]}),
        ("card.skills[1].examples[2]", {"skills": [SUMMARISE, TRANSLATE | {"examples": ["Hello", "", PORTUGUESE]}]}),
    ],
)
async def test_a_card_is_in_english(node: NodeUnderTest, place: str, change: dict[str, Any]) -> None:
    response = await post(node, await opened(node), card_of() | change)
    assert refused(response) == (400, "language.not_english")
    assert f" Not in plain English: {place}." in response.json()["error"]


async def test_posting_again_renews_the_entry_and_replaces_the_card(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    first = await listed(node, inbox, card_of())
    await node.store.command("HSET", keys.agent(first["id"]), "ends_at", 1)
    second = await listed(node, inbox, card_of("Report desk", TRANSLATE))
    assert second["id"] == first["id"]
    agent = await shown(node, second)
    assert [skill["name"] for skill in agent["skills"]] == ["Translate contracts"]
    assert agent["expires_at"] == second["expires_at"] >= first["expires_at"]


async def test_a_repeated_request_gets_the_same_answer(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    once = await post(node, inbox, card_of(), **{"idempotency-key": "k1"})
    again = await post(node, inbox, card_of(), **{"idempotency-key": "k1"})
    assert again.json() == once.json()
    assert again.headers["idempotency-replayed"] == "true"
    other = await post(node, inbox, card_of("Night desk"), **{"idempotency-key": "k1"})
    assert refused(other) == (422, "idempotency.conflict")


async def test_a_signature_and_an_old_token_do_not_list_again(node: NodeUnderTest) -> None:
    request = signed("POST", AGENTS, {"card": card_of()})
    assert (await send_signed(node, request)).status_code == 202
    assert refused(await send_signed(node, request)) == (409, "signature.replayed")
    inbox = await opened(node)
    await node.client.post("/api/v1/inboxes", json={"rotate": True}, headers=bearer(inbox["inbox_token"]))
    assert refused(await post(node, inbox, card_of())) == (403, "inbox.token")


async def test_only_its_owner_removes_an_entry(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)
    agent = await listed(node, inbox, card_of())
    path = f"{AGENTS}/{agent['id']}"
    assert refused(await node.client.delete(path)) == (401, "inbox.proof")
    assert refused(await node.client.delete(path, headers=bearer(other["inbox_token"]))) == (403, "inbox.token")
    assert refused(await send_signed(node, signed("DELETE", path, key=OTHER_KEY))) == (403, "inbox.token")
    removed = await node.client.delete(path, headers=bearer(inbox["inbox_token"]))
    assert removed.json() == {"id": agent["id"], "status": "removed"}
    assert refused(await node.client.get(path)) == (404, "agent.unknown")


async def test_whoever_closes_an_inbox_has_its_agents_checked_at_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of())
    await node.client.delete(path_of(inbox), headers=bearer(inbox["inbox_token"]))
    told: Any = await node.store.command("XRANGE", keys.events_of(agent["id"]), "-", "+")
    assert [b"check.asked", b"id", agent["id"].encode()] in [fields[1:] for _, fields in told]


async def test_a_signature_removes_an_entry_once(node: NodeUnderTest) -> None:
    card = {"card": card_of()}
    agent = (await send_signed(node, signed("POST", AGENTS, card))).json()
    removal = signed("DELETE", f"{AGENTS}/{agent['id']}")
    assert (await send_signed(node, removal)).status_code == 200
    assert (await send_signed(node, signed("POST", AGENTS, card))).json()["id"] == agent["id"]
    assert refused(await send_signed(node, removal)) == (409, "signature.replayed")
    assert (await shown(node, agent))["address"] == ADDRESS


async def test_of_two_who_remove_an_entry_at_once_one_is_told_that_there_is_none(node: NodeUnderTest) -> None:
    agent = (await send_signed(node, signed("POST", AGENTS, {"card": card_of()}))).json()
    removals = [signed("DELETE", f"{AGENTS}/{agent['id']}") for _ in range(2)]
    answers = await asyncio.gather(*(send_signed(node, each) for each in removals))
    assert sorted(answer.status_code for answer in answers) == [200, 404]


async def test_the_list_has_the_newest_first(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    async with node.worker():
        agents = [await listed(node, inbox, card_of(f"Desk {number}")) for number in range(3)]

        async def there() -> bool:
            return (await node.client.get(AGENTS)).json()["total"] == 3

        await until(there)
        page = (await node.client.get(AGENTS, params={"limit": 2})).json()
        assert page["total"] == 3
        # Entries listed in the same millisecond are in no fixed order.
        newest = sorted([await shown(node, agent) for agent in agents], key=lambda agent: agent["listed_at"])[1:]
        assert [each["listed_at"] for each in page["agents"]] == [each["listed_at"] for each in reversed(newest)]


async def test_a_list_shows_each_entry_as_it_is_now(node: NodeUnderTest) -> None:
    """Rows are reused for further answers until the entry or its inbox changes."""
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of())

    async def rows() -> list[Any]:
        page = (await node.client.get(AGENTS)).json()
        assert page["agents"] == [await shown(node, agent)]
        return page["agents"]

    assert await rows() == await rows()
    await listed(node, inbox, card_of("Report desk", TRANSLATE))
    assert [skill["name"] for skill in (await rows())[0]["skills"]] == ["Translate contracts"]
    await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
    assert (await rows())[0]["liveness"] == "unreachable"
    assert (await node.client.get(AGENTS, params={"liveness": "open"})).json()["agents"] == []
    await node.client.delete(path_of(inbox), headers=bearer(inbox["inbox_token"]))
    assert (await rows())[0]["url"] is None


class HeldUp(AgentLists):
    """Lists of a process that is held up between reading an entry and listing it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.stands_still, self.goes_on = asyncio.Event(), asyncio.Event()

    async def _put(self, rows: Listing) -> None:
        self.stands_still.set()
        await self.goes_on.wait()
        await super()._put(rows)


async def test_a_list_that_is_behind_is_put_right_where_it_is_read(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of())
    held_up = HeldUp(node.store)
    projecting = asyncio.create_task(held_up.project([agent["id"]]))
    await held_up.stands_still.wait()
    await node.client.delete(f"{AGENTS}/{agent['id']}", headers=bearer(inbox["inbox_token"]))
    held_up.goes_on.set()
    await projecting
    page = (await node.client.get(AGENTS)).json()
    assert (page["agents"], page["total"]) == ([], 0)
    assert await node.store.command("ZCARD", keys.AGENTS) == 0


async def test_what_is_listed_is_checked_at_once(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 3600.0)
    async with node.worker():
        for _ in range(2):  # the worker may find the first agent when it starts and looks everywhere
            agent = await listed(node, await opened(node), card_of())

            async def is_checked(key: str = keys.agent(agent["id"])) -> bool:
                return await node.store.command("HEXISTS", key, "same") == 1

            await until(is_checked)


async def test_the_worker_removes_an_entry_whose_time_is_over_and_tells_of_all(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of())
    async with node.worker():
        await all_events(node, "agents", 1)
    await node.store.command("HSET", keys.agent(agent["id"]), "ends_at", 1)
    await node.store.command("ZADD", keys.AGENT_ENDS, 1, agent["id"])
    async with node.worker():
        events = await all_events(node, "agents", 2)
    assert [event["type"] for event in events] == ["agent.listed", "agent.removed"]
    assert events[1]["data"] == {"id": agent["id"], "status": "removed"}
    assert refused(await node.client.get(f"{AGENTS}/{agent['id']}")) == (404, "agent.unknown")
    assert AGENT_LIFE_MS == 30 * 86_400_000
