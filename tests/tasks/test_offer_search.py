"""Offered contracts are found by what they ask for (NETWORK 4), and claimed by it."""

import asyncio
from itertools import count
from time import monotonic
from typing import Any

import pytest

from node.store import keys
from node.store.ids import new_id
from node.tasks.offers.feed import Offer
from node.tasks.offers.search import MAX_HITS, OfferSearch, SearchThrottle
from tests.support.answers import json_of, refused
from tests.support.models import embedded_texts
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, act, offered

pytestmark = pytest.mark.usefixtures("patience")

SEARCH = f"{TASKS}/search"
TRANSLATE = {"title": "Translate a legal contract", "description": "Twelve pages, from Portuguese into English."}
COUNT = {"title": "Count solar panels", "description": "How many panels are on these forty photographs of roofs?"}
KEY = "a key that nobody guesses"

_clients = count()


NOBODYS = ("publisher_id", "nobody", "skills", "[]")


async def found(node: NodeUnderTest, query: str, threshold: float = 0.3, **more: Any) -> list[dict[str, Any]]:
    """Return the hits of a search. Each call is by another client, because tests search until all is indexed, more
    often than one client may.
    """
    client = node.client_at(f"203.0.113.{next(_clients) % 250}")
    return json_of(await client.post(SEARCH, json={"query": query, "threshold": threshold} | more))["hits"]


async def test_all_who_wait_on_one_account_search_as_often_as_one_client_may(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    nearest = OfferSearch.nearest

    async def counted(*given: Any) -> list[Offer]:
        nonlocal looked
        looked += 1
        return await nearest(*given)

    monkeypatch.setattr(OfferSearch, "nearest", counted)
    began = monotonic()
    waiting = [
        asyncio.create_task(claim_next(node, query="Portuguese pages", threshold=1.0, wait=3)) for _ in range(12)
    ]
    while not all(each.done() for each in waiting):  # new offers arrive all the time
        await node.store.command("XADD", keys.OFFERS, "MAXLEN", 1, "*", "id", new_id(), *NOBODYS)
    assert {(await each).status_code for each in waiting} == {204}
    assert 12 < looked <= 12 + 1 + (monotonic() - began), "once each, and together once a second"


def test_who_waits_alone_searches_every_other_second_and_at_the_end() -> None:
    throttle = SearchThrottle()
    assert throttle.next("one", 100.0, 130.0) == 102.0
    assert throttle.next("other", 100.0, 100.5) == 100.5
    times = [throttle.next("one", 100.0, 110.0) for _ in range(50)]
    assert times[:8] == [103.0, 104.0, 105.0, 106.0, 107.0, 108.0, 109.0, 110.0]
    assert all(each > 110.0 for each in times[8:])


async def test_offers_are_found_by_their_words_at_once(node: NodeUnderTest) -> None:
    task = await offered(node, **TRANSLATE, skills=["law"])
    await offered(node, **COUNT)
    brief = await offered(node, title="Whistle a tune")
    assert [(hit["task_id"], hit["snippet"]) for hit in await found(node, "whistle")] == [(brief["id"], brief["title"])]
    [hit] = await found(node, "Portuguese pages")
    assert (hit["task_id"], hit["title"], hit["url"]) == (task["id"], TRANSLATE["title"], task["url"])
    assert (hit["publisher_id"], hit["skills"], hit["mode"]) == ("report-desk", ["law"], "text")
    assert "Portuguese" in hit["snippet"]


async def test_what_is_claimed_or_over_is_found_no_more_and_what_is_offered_again_is(node: NodeUnderTest) -> None:
    async with node.worker():
        task = await offered(node, **TRANSLATE)
        query = "Portuguese pages"

        async def is_found() -> bool:
            return [hit["task_id"] for hit in await found(node, query)] == [task["id"]]

        await until(is_found)
        claim = (await act(node, task, "claim", assignee_id="worker")).json()
        assert not await found(node, query)
        await act(node, task, "release", claim_token=claim["claim_token"])
        await until(is_found)
        claim = (await act(node, task, "claim", assignee_id="worker")).json()
        await act(node, task, "fail", claim_token=claim["claim_token"], code="no.dictionary")
        assert not await found(node, query)
        await act(node, task, "retry", publisher_token=task["publisher_token"])
        await until(is_found)
        await act(node, task, "cancel", publisher_token=task["publisher_token"])
        assert not await found(node, query)


async def test_offers_are_found_by_meaning_and_the_best_one_is_claimed(node: NodeUnderTest) -> None:
    async with node.worker():
        panels, contract = await offered(node, **COUNT), await offered(node, **TRANSLATE)
        query = "I render agreements written in a foreign language into our own"

        async def is_found_by_meaning() -> bool:
            return [hit["task_id"] for hit in await found(node, query, 0.6)][:1] == [contract["id"]]

        await until(is_found_by_meaning)
        nothing = await claim_next(node, query="cook a soup", threshold=0.8)
        assert nothing.status_code == 204
        claim = await claim_next(node, query=query, threshold=0.5)
        assert claim.json()["id"] == contract["id"]
        other = await claim_next(node, query="count things on photographs of a roof", threshold=0.5)
        assert other.json()["id"] == panels["id"]


async def test_an_offer_that_was_claimed_and_released_is_not_embedded_again(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = embedded_texts(monkeypatch)
    async with node.worker():
        task = await offered(node, **TRANSLATE)

        async def by_meaning() -> bool:
            hits = await found(node, "agreements written in a foreign language", 0.5)
            return [(hit["task_id"], hit["mode"]) for hit in hits] == [(task["id"], "meaning")]

        async def aside() -> int:
            return len(await node.names("search:tasks:aside:*"))

        async def is_there() -> bool:
            return not await aside() and await by_meaning()

        await until(is_there)
        for _ in range(3):
            claim = (await act(node, task, "claim", assignee_id="worker")).json()
            await until(aside)
            assert not await by_meaning()
            await act(node, task, "release", claim_token=claim["claim_token"])
            await until(is_there)
        assert len(embedded) == 1
        claim = (await act(node, task, "claim", assignee_id="worker")).json()
        await until(aside)
        await act(node, task, "complete", claim_token=claim["claim_token"])

        async def nothing_is_left() -> bool:
            return not await aside() and not await node.names(f"search:tasks:passages:*{task['id']}")

        await until(nothing_is_left)


async def test_who_waits_for_a_match_is_given_what_comes(node: NodeUnderTest) -> None:
    waiting = asyncio.create_task(claim_next(node, query="Portuguese pages", threshold=0.5, wait=20))
    await offered(node, **COUNT)
    task = await offered(node, **TRANSLATE)
    assert (await waiting).json()["id"] == task["id"]


async def test_a_match_must_fit_the_worker_too_and_a_key_gets_it_again(node: NodeUnderTest) -> None:
    await offered(node, **TRANSLATE, skills=["law"])
    mine = await offered(node, **TRANSLATE, publisher_id="my-desk")
    asked = {"query": "Portuguese pages", "threshold": 0.3, "idempotency_key": KEY}
    first, second = [await claim_next(node, publisher_ids=["my-desk"], **asked) for _ in range(2)]
    assert first.json()["id"] == mine["id"]
    assert first.json() == second.json()
    assert (await claim_next(node, query="Portuguese pages", threshold=0.3)).status_code == 204


async def test_however_many_better_matches_fit_nobody_a_worker_gets_what_fits(node: NodeUnderTest) -> None:
    """If only the 50 best matches were looked at, as many offers that nobody can do would hide all others."""
    await offered(node, **COUNT, publisher_id="my-desk")
    mine = await offered(node, **TRANSLATE, publisher_id="my-desk")
    query = f"{TRANSLATE['title']}: {TRANSLATE['description']}"
    for number in range(MAX_HITS + 5):
        offer = {"publisher_id": "stranger", "title": TRANSLATE["title"], "description": query, "skills": ["nobodys"]}
        json_of(await node.client_at(f"203.0.113.{number % 5}").post(TASKS, json=offer), 201)
    by_text = await claim_next(node, query=query)
    assert by_text.json()["id"] == mine["id"]
    assert (await claim_next(node, query=query)).status_code == 204, "what does not match is no match now"
    async with node.worker():

        async def is_searched_by_meaning() -> bool:
            return len(await found(node, "agreements in a foreign language", 0.5, limit=50)) == 50

        await until(is_searched_by_meaning)
        await act(node, mine, "release", claim_token=by_text.json()["claim_token"])

        async def gets_mine() -> bool:
            claim = await claim_next(node, query="agreements in a foreign language", threshold=0.6)
            return claim.status_code == 200 and claim.json()["id"] == mine["id"]

        await until(gets_mine)


async def test_the_text_of_a_match_is_fetched_once_for_its_hit_and_not_to_see_whether_it_fits(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    """A search must not fetch it again to see whether the contract is still offered."""
    texts = 0
    for number in range(10):
        pages = f"Page {number} of the report says how many panels were counted. " * 300
        await offered(node, title="Translate a report", description=pages, skills=["law"])
        texts += len(pages)
    before = empty_redis.info("stats")["total_net_output_bytes"]
    assert (await claim_next(node, query="Translate a report", threshold=0.3)).status_code == 204
    assert empty_redis.info("stats")["total_net_output_bytes"] - before < 50_000
    before = empty_redis.info("stats")["total_net_output_bytes"]
    assert len(await found(node, "Translate a report", limit=10)) == 10
    assert texts <= empty_redis.info("stats")["total_net_output_bytes"] - before < texts + 50_000


async def test_a_search_counts_as_one_and_without_words_it_is_refused(node: NodeUnderTest) -> None:
    response = await node.client.post(SEARCH, json={"query": "Portuguese"})
    assert '"search"' in response.headers["ratelimit"]
    claim = await claim_next(node, query="Portuguese")
    assert {'"claim"', '"search"'} <= {each.partition(";")[0].strip() for each in claim.headers["ratelimit"].split(",")}
    assert refused(await node.client.post(SEARCH, json={"query": " "})) == (422, "request.invalid")
    assert refused(await claim_next(node, query=" ")) == (422, "request.invalid")


async def claim_next(node: NodeUnderTest, **more: Any) -> Any:
    return await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "worker"} | more)
