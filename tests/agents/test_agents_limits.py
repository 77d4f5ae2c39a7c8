"""How many entries a client and an address may have (NETWORK 2)."""

from tests.agents.calls import AGENTS, card_of, listed, post
from tests.inbox.calls import bearer, code, opened
from tests.support.node_under_test import NodeUnderTest


async def test_a_client_lists_ten_agents_an_hour(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    for _ in range(10):
        await listed(node, inbox, card_of())
    assert code(await post(node, inbox, card_of())) == (429, "limit.exceeded")


async def test_an_address_has_twenty_entries_and_can_renew_them(node: NodeUnderTest) -> None:
    inbox = await opened(node)

    async def posted(number: int, name: str) -> tuple[int, str]:
        client = node.client_at(f"203.0.113.{20 + number // 8}")
        response = await client.post(AGENTS, json={"card": card_of(name)}, headers=bearer(inbox["inbox_token"]))
        return response.status_code, response.headers.get("x-error-code", "")

    assert {await posted(number, f"Desk {number}") for number in range(20)} == {(202, "")}
    assert await posted(20, "Desk 20") == (409, "agents.host_full")
    assert await posted(21, "Desk 3") == (202, "")
