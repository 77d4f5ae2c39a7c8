"""Agents listed by the URL of their card (NETWORK 2)."""

import asyncio
from collections.abc import Sequence

import pytest

from node.agents.fetch import CARD_BYTES
from node.agents.lists import AgentLists
from node.agents.service import BY_OPERATOR
from node.agents.store import AgentStore
from node.common.stalls import StallDetector
from node.store import ids, keys
from tests.agents.calls import AGENTS, TRANSLATE, card_of
from tests.agents.conftest import CALLING
from tests.agents.made_up import WELL_KNOWN, Json, MadeUpAgents
from tests.agents.test_agent_probes import due_in, ids_listed
from tests.events.test_events_api import all_events
from tests.support.answers import json_of, refused
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import WOKEN

pytestmark = CALLING


async def submitted(node: NodeUnderTest, url: str, **headers: str) -> Json:
    return json_of(await node.client.post(AGENTS, json={"url": url}, headers=headers), 202)


async def checked(node: NodeUnderTest, url: str) -> Json:
    """Post a URL, and return its entry once it has been checked."""
    posted = await submitted(node, url)
    assert (posted["status"], posted["reason"], posted["expires_at"]) == ("checking", None, None)
    response = await node.client.get(f"{AGENTS}/{posted['id']}", params={"wait": 30})
    assert response.json()["status"] != "checking", response.text
    return response.json()


async def test_the_card_of_a_url_is_fetched_and_proves_its_host(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await checked(node, made_up.url("good"))
    assert (agent["status"], agent["reason"], agent["proof"], agent["address"]) == (
        "listed",
        None,
        "domain",
        "127.0.0.1",
    )
    assert agent["name"] == "Desk good"
    assert [each["name"] for each in agent["skills"]] == ["Summarise reports"]
    assert agent["url"] == made_up.url("good")
    assert agent["card_url"] == made_up.url("good") + WELL_KNOWN
    assert (agent["binding"], agent["inbox"]) == ("HTTP+JSON", None)
    assert agent["listed_at"] < agent["expires_at"]


async def test_the_url_of_a_card_is_asked_for_it_first(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        agent = await checked(node, made_up.url("good") + WELL_KNOWN)
        assert agent["status"] == "listed"
        assert agent["card_url"] == made_up.url("good") + WELL_KNOWN
        assert (await checked(node, made_up.url("good")))["id"] == agent["id"]
        assert (await checked(node, made_up.url("good/")))["id"] == agent["id"]
    assert made_up.requests[f"GET /good{WELL_KNOWN}{WELL_KNOWN}"] == 0


async def test_nobody_removes_an_entry_by_posting_where_its_card_is_not(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    url = made_up.url("direct")  # the card is at this URL itself, not at the well-known place below
    async with node.worker():
        agent = await checked(node, url)
        assert (agent["status"], agent["card_url"]) == ("listed", url)
        for other in (url + WELL_KNOWN, url + "/"):
            again = await checked(node, other)
            assert (again["id"], again["status"], again["card_url"]) == (agent["id"], "listed", url)
        made_up.kinds["/direct"] = "direct-failing"  # there is still no card at the well-known place
        again = await checked(node, url)
        assert (again["id"], again["status"], again["reason"]) == (agent["id"], "listed", f"{url} answered 500")
        made_up.kinds["/direct"] = "gone"
        assert (await checked(node, url + WELL_KNOWN))["status"] == "rejected"


async def test_who_posts_a_card_that_cannot_be_listed_is_told_what_is_wrong_with_it(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    made_up.cards["/direct"] = {"skills": []}
    url = made_up.url("direct")  # the answer from the well-known place below must not be the only reason shown
    async with node.worker():
        agent = await checked(node, url)
    assert (agent["status"], agent["reason"]) == (
        "rejected",
        f"{url} is not an agent card that can be listed: skills: Expected array of length >= 1; "
        f"{url}{WELL_KNOWN} answered 404",
    )


REJECTED: Sequence[tuple[str, Json, str]] = (
    ("none", {}, "answered 404"),
    ("gone", {}, "answered 410"),
    ("failing", {}, "answered 500"),
    ("redirect", {}, "redirects are not followed"),
    ("nonsense", {}, "not an agent card that can be listed"),
    ("huge", {}, f"at most {CARD_BYTES} bytes"),
    ("good/1", {"name": "\u0420aypal desk"}, "alphabets that look alike"),
    ("good/2", {"skills": []}, "skills"),
    ("good/3", {"skills": [TRANSLATE] * 21}, "skills"),
    ("good/4", {"description": "Este agente resume relatórios longos e explica o que importa neles."}, "English"),
    ("good/5", {"supportedInterfaces": [{"url": "http://victim.example/a2a"}]}, "names no endpoint"),
    ("good/6", {"supportedInterfaces": [{"url": "javascript:alert(1)"}]}, "names no endpoint"),
    ("good/7", {"supportedInterfaces": [{"url": "http://127.0.0.1@victim.example/"}]}, "names no endpoint"),
)


async def test_what_is_no_card_is_rejected_with_the_reason(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        hidden = {"url": made_up.url("good/8"), "protocolBinding": "GR\u202ePC", "protocolVersion": "1.0"}
        header = {"url": made_up.url("good/9"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0\r\nX-Forged: 1"}
        alike = {"url": made_up.url("good/10"), "protocolBinding": "JSONRP\u0421", "protocolVersion": "1.0"}
        endpoints = (
            ("good/8", {"supportedInterfaces": [hidden]}, "visible ASCII"),
            ("good/10", {"supportedInterfaces": [alike]}, "visible ASCII"),
            ("good/9", {"supportedInterfaces": [header]}, "visible ASCII"),
        )
        for kind, card, reason in (*REJECTED, *endpoints):
            made_up.cards[f"/{kind}"] = card
            agent = await checked(node, made_up.url(kind))
            assert (agent["status"], agent["name"], agent["listed_at"]) == ("rejected", None, None), kind
            assert reason in agent["reason"], kind
            assert (agent["proof"], agent["address"]) == ("domain", "127.0.0.1"), kind
        assert await ids_listed(node) == set()
    assert await node.store.command("ZCARD", keys.agents_of("127.0.0.1")) == 0


async def test_what_a_worker_that_was_held_up_has_not_heard_is_asked_again(
    node: NodeUnderTest, made_up: MadeUpAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_held_up = True

    def says(_: StallDetector, since: float) -> bool:
        return was_held_up and since > 0

    monkeypatch.setattr(StallDetector, "was_held_up", says)
    monkeypatch.setattr("node.agents.checks.POLL_SECONDS", 0.1)
    posted = await submitted(node, made_up.url("cut"))
    made_up.kinds["/cut"] = "failing"
    key, due = keys.agent(posted["id"]), keys.agents_due(ids.partition_of_id(posted["id"]))

    async def looked_at() -> bool:
        return await node.store.command("GET", keys.LAST_CHECK) != b"1"

    async def has_status(wanted: bytes) -> bool:
        return await node.store.command("HGET", key, "status") == wanted

    async def is_unreachable() -> bool:
        return await node.store.command("HGET", key, "liveness") == b"unreachable"

    async def check() -> None:
        """Make a worker check the entry once."""
        await node.store.command("SET", keys.LAST_CHECK, 1)
        await node.store.command("ZADD", due, 0, posted["id"])
        await until(looked_at)

    await node.store.command("SET", keys.LAST_CHECK, 1)
    async with node.worker():
        await until(looked_at)
        assert await has_status(b"checking")
        made_up.kinds["/cut"] = "cut"  # the card can be read, but a probe's request is cut off
        await check()
        assert await has_status(b"listed")
        await check()
        assert not await is_unreachable()
        was_held_up = False
        await check()
        await until(is_unreachable)


NO_AGENT: Sequence[Json] = (
    {},
    {"url": 3},
    {"url": "http://agent.example/", "card": {}},
    {"url": "http://agent.example/", "card": card_of()},
    {"url": "ftp://agent.example/"},
    {"url": "http://agent.example/?a=1"},
)


@pytest.mark.parametrize("body", NO_AGENT)
async def test_a_body_without_url_or_card_is_refused(node: NodeUnderTest, body: Json) -> None:
    assert (await node.client.post(AGENTS, json=body)).status_code == 422


async def test_posting_a_url_again_renews_its_entry(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    async with node.worker():
        first = await checked(node, made_up.url("good"))
        made_up.cards["/good"] = {"skills": [TRANSLATE]}
        second = await checked(node, made_up.url("good"))
        assert second["id"] == first["id"]
        assert second["listed_at"] == first["listed_at"]
        assert second["expires_at"] > first["expires_at"]
        assert [each["name"] for each in second["skills"]] == ["Translate contracts"]


async def test_a_late_look_for_what_has_ended_leaves_what_was_posted_again(node: NodeUnderTest) -> None:
    """Two workers may look for ended entries at the same time, or one worker's list may be out of date."""
    posted = await submitted(node, "http://agent.example/")
    await node.store.command("ZADD", keys.AGENT_ENDS, 1, posted["id"])
    lists = AgentLists(node.store)
    await lists.project(await lists.sweep())
    assert (await node.client.get(f"{AGENTS}/{posted['id']}")).json()["status"] == "checking"


async def test_what_redis_has_dropped_is_not_checked_again_and_again(node: NodeUnderTest) -> None:
    gone = ids.new_id()
    due = keys.agents_due(ids.partition_of_id(gone))
    await node.store.command("ZADD", due, 1, gone)

    async def is_forgotten() -> bool:
        return await node.store.command("ZSCORE", due, gone) is None

    async with node.worker():
        await until(is_forgotten)


async def test_a_card_that_is_gone_ends_its_entry_when_it_is_posted_again(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await checked(node, made_up.url("good"))
        made_up.kinds["/good"] = "failing"
        kept = await checked(node, made_up.url("good"))
        assert kept["status"] == "listed"
        assert "answered 500" in kept["reason"]
        assert 21 < await due_in(node, kept) < 27

        async def is_listed() -> bool:
            return await ids_listed(node) == {agent["id"]}

        await until(is_listed)
        made_up.kinds["/good"] = "gone"
        assert (await checked(node, made_up.url("good")))["status"] == "rejected"
        assert await ids_listed(node) == set()
        events = await all_events(node, "agents", 2)
    assert [event["type"] for event in events] == ["agent.listed", "agent.removed"]


async def test_a_repeated_request_is_answered_again(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    key = {"idempotency-key": "k1"}
    once = await submitted(node, made_up.url("good"), **key)
    again = await node.client.post(AGENTS, json={"url": made_up.url("good")}, headers=key)
    assert again.json() == once
    assert again.headers["idempotency-replayed"] == "true"
    other = await node.client.post(AGENTS, json={"url": made_up.url("old")}, headers=key)
    assert refused(other) == (422, "idempotency.conflict")


async def test_a_host_has_twenty_entries(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    for number in range(20):
        await submitted(node, made_up.url(f"good/{number}"))
    full = await node.client.post(AGENTS, json={"url": made_up.url("good/20")})
    assert refused(full) == (409, "agents.host_full")
    await submitted(node, made_up.url("good/19"))
    await submitted(node, made_up.url("good/20", host=1))


async def test_an_entry_waits_for_a_worker_to_check_it_in_the_partition_of_its_host(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    agent = await submitted(node, made_up.url("good"))
    assert (await node.client.get(f"{AGENTS}/{agent['id']}")).json()["status"] == "checking"
    async with node.worker():

        async def is_listed() -> bool:
            return await ids_listed(node) == {agent["id"]}

        await until(is_listed)
    assert ids.partition_of_id(agent["id"]) == ids.partition_of("127.0.0.1")


@pytest.mark.parametrize(
    ("was_listed", "kind", "status"),
    [(False, "grpc", "listed"), (False, "none", "rejected"), (True, "failing", "listed")],
)
async def test_who_waits_for_a_check_is_told_at_once_what_it_found(
    node: NodeUnderTest, made_up: MadeUpAgents, was_listed: bool, kind: str, status: str
) -> None:
    """This includes a check after which the probe finds nothing that would also wake the waiting request (`grpc`)."""
    made_up.kinds["/desk"], url = "good", made_up.url("desk")
    if was_listed:

        async def is_listed() -> bool:
            return await ids_listed(node) != set()

        async with node.worker():
            await submitted(node, url)
            await until(is_listed)
    made_up.kinds["/desk"] = kind
    agent = await submitted(node, url)
    waiting = asyncio.create_task(node.client.get(f"{AGENTS}/{agent['id']}", params={"wait": 30}))
    await node.listened_to(keys.agent(agent["id"]))
    async with node.worker():
        assert (await asyncio.wait_for(waiting, WOKEN)).json()["status"] == status


async def test_who_waits_for_a_check_learns_that_the_entry_was_removed(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    agent = await submitted(node, made_up.url("good"))
    waiting = asyncio.create_task(node.client.get(f"{AGENTS}/{agent['id']}", params={"wait": 30}))
    await node.listened_to(keys.agent(agent["id"]))
    await AgentStore(node.store, 60).remove(agent["id"], "127.0.0.1", BY_OPERATOR, "")
    assert refused(await asyncio.wait_for(waiting, WOKEN)) == (404, "agent.unknown")


async def test_the_owner_of_a_key_cannot_remove_what_a_domain_proves(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await checked(node, made_up.url("good"))
        assert refused(await node.client.delete(f"{AGENTS}/{agent['id']}")) == (401, "inbox.proof")
