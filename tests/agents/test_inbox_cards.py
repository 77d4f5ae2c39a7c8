"""An inbox that is opened with a card is an agent of the directory (NETWORK 1 and 2)."""

from node.store import keys
from tests.agents.calls import AGENTS, SUMMARISE, Json, card_of
from tests.inbox.calls import ADDRESS, INBOXES, bearer, code, opened, send_signed, signed
from tests.support.node_under_test import NodeUnderTest, until

CARD = card_of("Report desk", SUMMARISE)


async def the_only_agent(node: NodeUnderTest) -> Json:
    """The entry of the directory, once the worker has put it there."""

    async def is_there() -> bool:
        return (await node.client.get(AGENTS)).json()["total"] == 1

    async with node.worker():
        await until(is_there)
    return (await node.client.get(AGENTS)).json()["agents"][0]


async def test_an_inbox_with_a_card_is_listed_and_reached_through_itself(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD)
    agent = await the_only_agent(node)
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
    await node.client.post(INBOXES, json={"label": "desk"}, headers=bearer(inbox["inbox_token"]))
    assert (await the_only_agent(node))["expires_at"].startswith("2286")
    await node.client.post(INBOXES, json={"card": CARD}, headers=bearer(inbox["inbox_token"]))
    assert not (await the_only_agent(node))["expires_at"].startswith("2286")


async def test_a_card_that_cannot_be_listed_opens_nothing(node: NodeUnderTest) -> None:
    foreign = {"description": "Este agente resume relatórios longos e explica o que importa neles para todos."}
    response = await node.client.post(INBOXES, json={"card": CARD | foreign})
    assert code(response) == (400, "language.not_english")
    long = await node.client.post(INBOXES, json={"card": CARD | {"description": "long text " * 201}})
    assert long.status_code == 422
    assert await node.names("inbox:*") == []


async def test_a_card_counts_among_the_registrations_of_its_client(node: NodeUnderTest) -> None:
    inbox = await opened(node, card=CARD)
    for _ in range(9):
        response = await node.client.post(AGENTS, json={"card": CARD}, headers=bearer(inbox["inbox_token"]))
        assert response.status_code == 202
    other = node.client_at("203.0.113.8")
    assert (await other.post(INBOXES, json={"card": CARD})).status_code == 201
    refused = await node.client.post(INBOXES, json={"card": CARD})
    assert code(refused) == (429, "limit.exceeded")
    assert (await node.client.post(INBOXES, json={})).status_code == 201
