"""How many entries a client and an address may have (NETWORK 2)."""

import re
from collections.abc import Awaitable, Callable

import pytest

from node.agents.entry import Listing, id_of
from node.agents.model import AgentSkill, ListedCard
from node.agents.store import AGENT_LIFE_MS, HOLDS_MS, MAX_ENTRIES, AgentStore
from node.common.refusal import Refused
from node.config import Limit, Limits
from node.share.site import SITE_SHARE
from tests.agents.calls import AGENTS, card_of, listed, post
from tests.agents.made_up import MadeUpAgents
from tests.inbox.calls import bearer, opened
from tests.support.answers import refused
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import Cluster, RedisServer


async def test_a_client_lists_ten_agents_an_hour(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    for _ in range(10):
        await listed(node, inbox, card_of())
    assert refused(await post(node, inbox, card_of())) == (429, "limit.exceeded")


@pytest.mark.settings(limits=Limits(agent=Limit(1, 600)))
async def test_clients_of_one_site_share_a_limit_of_agents(node: NodeUnderTest) -> None:
    # Otherwise 5,000 URLs posted from the /64s of one /48 would hold up everybody's checks for half a minute.
    posted = [
        await node.client_at(f"2001:db8:1:{number:x}::1").post(AGENTS, json={"url": f"https://a{number}.example/"})
        for number in range(SITE_SHARE + 1)
    ]
    assert [response.status_code for response in posted] == [202] * SITE_SHARE + [429]
    assert posted[-1].headers["x-error-code"] == "limit.exceeded"
    elsewhere = await node.client_at("2001:db8:2::1").post(AGENTS, json={"url": "https://a.example/"})
    assert elsewhere.status_code == 202


async def test_an_address_has_twenty_entries_and_can_renew_them(node: NodeUnderTest) -> None:
    inbox = await opened(node)

    async def posted(number: int, name: str) -> tuple[int, str]:
        client = node.client_at(f"203.0.113.{20 + number // 8}")
        response = await client.post(AGENTS, json={"card": card_of(name)}, headers=bearer(inbox["inbox_token"]))
        return response.status_code, response.headers.get("x-error-code", "")

    assert {await posted(number, f"Desk {number}") for number in range(20)} == {(202, "")}
    assert await posted(20, "Desk 20") == (409, "agents.host_full")
    assert await posted(21, "Desk 3") == (202, "")


async def test_an_entry_that_has_ended_leaves_its_place_to_another(clock: Clock) -> None:
    entries = AgentStore(FakeStore(), 60)

    async def post(number: int) -> None:
        skill = AgentSkill(name="Sum", description="Sums up.")
        card = ListedCard(name=f"Desk {number}", description="Helps.", skills=[skill])
        listing = Listing(
            id=id_of("address", card.name),
            address="address",
            proof="key",
            proven_by="*",
            replay_id="",
            client="203.0.113.7",
            card=card,
        )
        await entries.put(listing, None)

    await its_places_end_one_by_one(clock, post, AGENT_LIFE_MS // 1000)


async def test_an_agent_that_is_not_checked_leaves_its_place_to_another(clock: Clock) -> None:
    entries = AgentStore(FakeStore(), 60)

    async def post(number: int) -> None:
        url = f"https://agent.example/{number}"
        fields = {"given": url, "proof": "domain", "address": "agent.example"}
        await entries.submit("agent.example", fields, agent_id=id_of("agent.example", url), client="", idempotency=None)

    await its_places_end_one_by_one(clock, post, HOLDS_MS // 1000)


async def its_places_end_one_by_one(clock: Clock, post: Callable[[int], Awaitable[None]], life: int) -> None:
    """Check that places end one by one, where a host has the most entries allowed and each takes a place for `life`
    seconds.
    """
    await post(0)
    clock.advance(life / 2)
    for number in range(1, MAX_ENTRIES):
        await post(number)
    with pytest.raises(Refused, match="host_full"):
        await post(MAX_ENTRIES)
    clock.advance(life / 2)
    await post(MAX_ENTRIES)
    with pytest.raises(Refused, match="host_full"):
        await post(MAX_ENTRIES + 1)


async def test_a_host_that_may_be_called_once_a_minute_is_not_asked_for_its_card_twice(
    empty_redis: RedisServer | Cluster, made_up: MadeUpAgents
) -> None:
    once = settings_for(empty_redis.url, callback_allow_private=True, limits=Limits(callback=Limit(1, 60)))
    async with running(once) as node, node.worker():
        response = await node.client.post(AGENTS, json={"url": made_up.url("good")})
        agent = (await node.client.get(f"{AGENTS}/{response.json()['id']}", params={"wait": 30})).json()
    assert agent["status"] == "rejected"
    assert re.fullmatch(
        r"127\.0\.0\.1 is called too often at present; post the URL again in [1-6]?\d s", agent["reason"]
    )
    assert sum(made_up.requests.values()) == 1
