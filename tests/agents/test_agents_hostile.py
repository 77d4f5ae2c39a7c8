"""Agents with bad intentions: hosts that hang, private addresses, and script in every field (NETWORK 2)."""

import asyncio
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest

from node.agents.card import has_one_spelling
from node.agents.fetch import FETCH_SECONDS
from node.agents.store import HIDDEN_MS
from node.callbacks import call
from node.callbacks.lookup import LookupResult
from node.store import ids, keys
from tests.agents.calls import AGENTS
from tests.agents.conftest import CALLING
from tests.agents.made_up import WELL_KNOWN, Json, MadeUpAgents
from tests.agents.test_agent_probes import listed_at
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until

SCRIPT = "<script>alert(1)</script>"

pytestmark = CALLING


async def checked(node: NodeUnderTest, url: str) -> Json:
    response = await node.client.post(AGENTS, json={"url": url})
    assert response.status_code == 202, response.text
    return (await node.client.get(f"{AGENTS}/{response.json()['id']}", params={"wait": 30})).json()


async def test_a_host_that_hangs_or_drips_is_rejected_in_time(
    node: NodeUnderTest, made_up: MadeUpAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.callbacks.call.AttemptTimeouts", partial(call.AttemptTimeouts, total=0.3))
    async with node.worker():
        slow, drip = await checked(node, made_up.url("slow")), await checked(node, made_up.url("drip", host=1))
    assert (slow["status"], drip["status"]) == ("rejected", "rejected")
    assert "no answer within" in slow["reason"]
    assert "did not send its answer within" in drip["reason"]
    assert made_up.requests[f"GET /slow{WELL_KNOWN}"] == 0  # after one request that hangs, no second one is made


async def test_a_host_that_asks_to_come_back_in_no_year_at_all_is_rejected(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await checked(node, made_up.url("never"))
    assert agent["status"] == "rejected"
    assert agent["reason"].endswith("answered 429")


async def test_what_a_host_says_that_is_no_http_is_not_said_by_the_directory(
    node: NodeUnderTest, made_up: MadeUpAgents
) -> None:
    """Otherwise agents would read any words of a stranger, which nobody has judged, as the node's own."""
    async with node.worker():
        agent = await checked(node, made_up.url("talking"))
    assert (agent["status"], agent["reason"]) == (
        "rejected",
        f"{made_up.url('talking')}: no answer: illegal status line",
    )


async def test_those_who_wait_for_a_check_have_so_many_places(
    node: NodeUnderTest, made_up: MadeUpAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.web.waiting_places.MAX_WAITING_PER_CLIENT", 3)
    posted = (await node.client.post(AGENTS, json={"url": made_up.url("good")})).json()
    waiting = [asyncio.create_task(node.client.get(f"{AGENTS}/{posted['id']}", params={"wait": 20})) for _ in range(3)]
    await node.listened_to(keys.agent(posted["id"]))

    async def is_refused() -> bool:
        response = await node.client.get(f"{AGENTS}/{posted['id']}", params={"wait": 0.01})
        return response.headers.get("x-error-code") == "limit.waiting"

    await until(is_refused)
    async with node.worker():
        answers = await asyncio.gather(*waiting)
    assert {answer.json()["status"] for answer in answers} == {"listed"}


def test_nobody_waits_longer_than_forty_seconds_for_a_check() -> None:
    assert call.AttemptTimeouts().total <= 10
    assert FETCH_SECONDS <= 30
    assert FETCH_SECONDS * 1000 < HIDDEN_MS  # so no other worker takes the check meanwhile


async def test_private_places_are_never_called(empty_redis: Any, made_up: MadeUpAgents) -> None:
    async with running(settings_for(empty_redis.url)) as node:
        for url in (made_up.url("good"), "http://169.254.169.254/latest", "http://localhost/", "http://[::1]/"):
            response = await node.client.post(AGENTS, json={"url": url})
            assert response.status_code == 422, url
    assert not made_up.requests


async def test_what_the_settings_allow_no_longer_is_not_called_any_more(
    node: NodeUnderTest, empty_redis: Any, made_up: MadeUpAgents
) -> None:
    async with node.worker():
        agent = await listed_at(node, made_up.url("good"))
    posted = (await node.client.post(AGENTS, json={"url": made_up.url("old")})).json()
    await node.store.command("ZADD", keys.agents_due(ids.partition_of_id(agent["id"])), 0, agent["id"])
    before = made_up.requests.total()

    async def is_unreachable() -> bool:  # after the first of three probes
        return await node.store.command("HGET", keys.agent(agent["id"]), "doubt") == b"unreachable"

    async with running(settings_for(empty_redis.url)) as strict, strict.worker():
        rejected = (await strict.client.get(f"{AGENTS}/{posted['id']}", params={"wait": 30})).json()
        await until(is_unreachable)
    assert (rejected["status"], rejected["name"]) == ("rejected", None)
    assert made_up.requests.total() == before


async def test_a_name_that_leads_to_a_private_place_is_rejected(
    empty_redis: Any, made_up: MadeUpAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def to_loopback(*_: object) -> LookupResult:
        return LookupResult([ip_address("127.0.0.1")], 0.0)

    monkeypatch.setattr("node.callbacks.lookup.Lookup.__call__", to_loopback)
    async with running(settings_for(empty_redis.url)) as node, node.worker():
        agent = await checked(node, "http://agent.example.com/")
    assert (agent["status"], agent["reason"]) == (
        "rejected",
        "http://agent.example.com/.well-known/agent-card.json: the host has an address that is not public",
    )
    assert not made_up.requests


async def test_script_in_every_field_is_text(node: NodeUnderTest, made_up: MadeUpAgents) -> None:
    skill = {
        "id": SCRIPT,
        "name": f"Summarise reports {SCRIPT}",
        "description": f"Reads a long report and tells what matters in it. {SCRIPT}",
        "tags": [SCRIPT],
        "examples": [f"Please sum up these forty pages for me. {SCRIPT}"],
    }
    made_up.cards["/good"] = {
        "name": f"Report desk {SCRIPT}",
        "description": f"Helps people with long documents of every kind. {SCRIPT}",
        "skills": [skill],
        "iconUrl": "javascript:alert(1)",
        "signatures": [{"protected": "e30", "signature": "x", "header": {"jku": made_up.url("jku")}}],
    }
    async with node.worker():
        agent = await checked(node, made_up.url("good"))
    assert agent["status"] == "listed", agent["reason"]
    assert agent["name"] == f"Report desk {SCRIPT}"
    response = await node.client.get(f"{AGENTS}/{agent['id']}")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "GET /jku" not in made_up.requests


SPELLINGS = ("//card.json", "/./card.json", "/x/../card.json", "/%63ard.json", "/a%2db.json", "/a%2f.json")


@pytest.mark.parametrize("path", SPELLINGS)
async def test_one_card_is_not_listed_under_many_spellings_of_its_url(node: NodeUnderTest, path: str) -> None:
    # Where the agent's server treats all spellings as one path, one card could otherwise get twenty entries, as many as
    # its host may have.
    refused = await node.client.post(AGENTS, json={"url": f"http://agent.example{path}"})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["msg"].startswith("must not contain //")


@pytest.mark.parametrize("path", ["", "/", "/a/", "/.well-known/x.json", "/a%2Fb/~c/d@e:f", "/caf%C3%A9"])
def test_the_usual_spelling_of_a_path_is_taken(path: str) -> None:
    assert has_one_spelling(path or "/")
