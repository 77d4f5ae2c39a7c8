"""An inbox opened with a card is an agent of the directory (NETWORK 1 and 2)."""

import pytest

from node.agents.store import MAX_ENTRIES
from node.config import Limit, Limits
from node.store import ids, keys
from tests.agents.calls import AGENTS, SUMMARISE, Json, card_of, listed, post
from tests.events.test_events_api import all_events
from tests.inbox.calls import ADDRESS, INBOXES, bearer, closed, opened, path_of, send_signed, signed
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest, until

CARD = card_of("Report desk", SUMMARISE)


# tests search until the worker is ready
pytestmark = pytest.mark.settings(limits=Limits(search=Limit(0, 1)))


async def the_only_agent(node: NodeUnderTest) -> Json:
    """Return the only entry of the directory, once a worker has listed it."""

    async def is_there() -> bool:
        return (await node.client.get(AGENTS)).json()["total"] == 1

    async with node.worker():
        await until(is_there)
    return (await node.client.get(AGENTS)).json()["agents"][0]


async def test_an_inbox_takes_each_card_that_the_directory_takes(node: NodeUnderTest) -> None:
    """Ids and tags of skills, which the directory does not require, must not be required here either."""
    skills: list[Json] = [
        {"name": f"Summarise {what}", "description": f"Makes short {what} of long ones."} for what in ("a", "b")
    ]
    card: Json = {
        "name": "Report desk",
        "description": "Summarises reports.",
        "skills": [skills[0], skills[1] | {"tags": []}],
    }
    inbox = await opened(node, card=card)
    listed_again = await node.client.post(AGENTS, json={"card": card}, headers=bearer(inbox["inbox_token"]))
    assert (listed_again.status_code, listed_again.json()["id"]) == (202, inbox["agent_id"])
    shown = (await node.client.get(path_of(inbox, "/a2a/.well-known/agent-card.json"))).json()["skills"]
    assert shown == [skill | {"id": f"skill-{n}", "tags": ["inbox"]} for n, skill in enumerate(skills, 1)]


async def test_an_inbox_with_a_card_is_listed_and_reached_through_itself(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD)
    agent = await the_only_agent(node)
    assert inbox["agent_id"] == agent["id"]
    assert (agent["name"], agent["proof"], agent["inbox"]) == ("Report desk", "inbox", inbox["address"])
    assert (agent["url"], agent["liveness"]) == (inbox["a2a_url"], "open")
    assert (await node.client.get(agent["card_url"])).json()["skills"][0]["name"] == "Summarise reports"
    removed = await node.client.delete(f"{AGENTS}/{agent['id']}", headers=bearer(inbox["inbox_token"]))
    assert removed.status_code == 200


async def test_an_inbox_opened_by_a_key_is_proven_by_it(node: NodeUnderTest) -> None:
    response = await send_signed(node, signed("POST", INBOXES, {"card": CARD}))
    assert response.status_code == 201, response.text
    agent = await the_only_agent(node)
    assert (agent["proof"], agent["address"], agent["inbox"]) == ("key", ADDRESS, ADDRESS)


async def test_renewing_with_a_card_renews_the_entry_and_without_one_leaves_it(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD)
    agent = await the_only_agent(node)
    await node.store.command("HSET", keys.agent(agent["id"]), "ends_at", 10**13)
    left = await node.client.post(INBOXES, json={"label": "desk"}, headers=bearer(inbox["inbox_token"]))
    assert "agent_id" not in left.json()
    assert (await the_only_agent(node))["expires_at"].startswith("2286")
    renewed = await node.client.post(INBOXES, json={"card": CARD}, headers=bearer(inbox["inbox_token"]))
    assert renewed.json()["agent_id"] == agent["id"]
    assert not (await the_only_agent(node))["expires_at"].startswith("2286")


@pytest.mark.parametrize("is_by_key", [False, True])
async def test_a_card_of_another_name_takes_the_place_of_the_last(node: NodeUnderTest, *, is_by_key: bool) -> None:
    """Otherwise every card of an inbox would stay in the directory for a month, and the twentieth would be refused."""
    inbox = await opened(node)

    async def renewed(**fields: object) -> str | None:
        if is_by_key:
            request = signed("POST", INBOXES, fields)
            response = await send_signed(node, request, content_type="application/json")
        else:
            response = await node.client.post(INBOXES, json=fields, headers=bearer(inbox["inbox_token"]))
        assert response.is_success, response.text
        return response.json().get("agent_id")

    async def names() -> list[str]:
        return [agent["name"] for agent in (await node.client.get(AGENTS)).json()["agents"]]

    first = await renewed(card=CARD)
    for name in ("Paper desk", "Letter desk"):
        await renewed(card=card_of(name, SUMMARISE))
        assert await names() == [name]
    assert refused(await node.client.get(f"{AGENTS}/{first}")) == (404, "agent.unknown")
    await renewed(label="desk")
    assert await names() == ["Letter desk"]
    await renewed(card=None)
    assert await names() == []


async def test_who_renews_by_a_token_in_a_signed_request_is_listed_by_the_token(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    request = signed("POST", INBOXES, {"card": CARD})
    assert (await send_signed(node, request, **bearer(inbox["inbox_token"]))).status_code == 200
    agent = await the_only_agent(node)
    assert (agent["proof"], agent["address"], agent["inbox"]) == ("inbox", inbox["address"], inbox["address"])


async def test_an_entry_goes_with_the_inbox_that_proves_it(node: NodeUnderTest) -> None:
    """Whether the inbox is closed or ends by itself. An entry proven by a key stays."""
    closing, ending = await opened(node, card=CARD), await opened(node)
    ended = await listed(node, ending, CARD)
    await send_signed(node, signed("POST", INBOXES))
    by_key = (await send_signed(node, signed("POST", AGENTS, {"card": CARD}))).json()["id"]
    partition = ids.partition_of_id(ended["id"])

    async def names() -> set[str]:
        found = {each["id"] for each in (await node.client.get(AGENTS)).json()["agents"]}
        hits = (
            await node.client.post(f"{AGENTS}/search", json={"query": "summary of reports", "threshold": 0.1})
        ).json()
        return found | {hit["agent_id"] for hit in hits["hits"]}

    async def all_are_found() -> bool:
        return len(await names()) == 3

    async def one_is_left() -> bool:
        return await names() == {by_key}

    async with node.worker():
        await until(all_are_found)
        assert (await closed(node, closing)).status_code == 200
        assert (await send_signed(node, signed("DELETE", f"{INBOXES}/{ADDRESS}"))).status_code == 200
        await node.store.command("UNLINK", keys.inbox(ending["address"]))
        await node.store.command("ZADD", keys.agents_due(partition), 0, ended["id"])
        await until(one_is_left)
        assert refused(await node.client.get(f"{AGENTS}/{ended['id']}")) == (404, "agent.unknown")
        events = await all_events(node, "agents", 5)
    # Events of different partitions have no fixed order.
    assert sorted(event["type"] for event in events) == ["agent.listed"] * 3 + ["agent.removed"] * 2
    assert await node.store.command("EXISTS", keys.agents_of(closing["address"])) == 0


async def test_the_token_of_a_closed_inbox_lists_nothing(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    assert (await closed(node, inbox)).status_code == 200
    assert refused(await post(node, inbox, CARD)) == (404, "inbox.unknown")
    assert await node.names("agent:*") == []


async def test_an_address_without_room_for_its_card_is_told_so_and_not_renewed(node: NodeUnderTest) -> None:
    inbox = await opened(node, label="desk")
    listed_there = keys.agents_of(inbox["address"])
    await node.store.command(
        "ZADD", listed_there, *(part for n in range(MAX_ENTRIES) for part in (10**13, f"entry {n}"))
    )
    await node.store.command("PEXPIRE", listed_there, 60_000)
    wanted = {"card": CARD, "label": "bureau"}
    renewed = await node.client.post(INBOXES, json=wanted, headers=bearer(inbox["inbox_token"]))
    assert refused(renewed) == (409, "agents.host_full")
    assert (await node.client.get(f"{INBOXES}/{inbox['address']}")).json()["label"] == "desk"


async def test_entries_that_have_ended_leave_room(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    entries = [part for number in range(MAX_ENTRIES) for part in (1, f"entry {number}")]
    await node.store.command("ZADD", keys.agents_of(inbox["address"]), *entries)
    renewed = await node.client.post(INBOXES, json={"card": CARD}, headers=bearer(inbox["inbox_token"]))
    assert renewed.status_code == 200


async def test_a_card_that_cannot_be_listed_opens_nothing(node: NodeUnderTest) -> None:
    foreign = {"description": "Este agente resume relatórios longos e explica o que importa neles para todos."}
    response = await node.client.post(INBOXES, json={"card": CARD | foreign})
    assert refused(response) == (400, "language.not_english")
    long = await node.client.post(INBOXES, json={"card": CARD | {"description": "long text " * 201}})
    assert long.status_code == 422
    assert await node.names("inbox:*") == []


@pytest.mark.settings(client_inboxes=1, limits=Limits(agent=Limit(1, 3600)))
async def test_a_card_does_not_count_where_there_is_no_room_for_its_inbox(
    node: NodeUnderTest,
) -> None:
    inbox = await opened(node)
    for _ in range(3):
        assert refused(await node.client.post(INBOXES, json={"card": CARD})) == (429, "quota.inbox")
    await closed(node, inbox)
    await opened(node, card=CARD)


async def test_a_card_counts_among_the_registrations_of_its_client(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD)
    for _ in range(9):
        response = await node.client.post(AGENTS, json={"card": CARD}, headers=bearer(inbox["inbox_token"]))
        assert response.status_code == 202
    other = node.client_at("203.0.113.8")
    assert (await other.post(INBOXES, json={"card": CARD})).status_code == 201
    response = await node.client.post(INBOXES, json={"card": CARD})
    assert refused(response) == (429, "limit.exceeded")
    assert (await node.client.post(INBOXES, json={})).status_code == 201
