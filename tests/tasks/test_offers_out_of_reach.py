"""An offer that is out of reach when its turn comes is shown later: no position in the feed skips it."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from node.sign.signed import UNSIGNED
from node.store import RedisReply, StoreUnavailable
from node.tasks.model import MAX_LEFT_OUT, NewClaim, NewTask, TaskPage, TaskPageQuery
from node.tasks.offers.feed import OfferFeed
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN
from tests.tasks.calls import UNKNOWN_ID, tasks_on

GONE: set[str] = set()
"""Ids of contracts whose server is out of reach."""


class PartlyGone(TaskStore):
    """The store of a cluster, a part of which is out of reach."""

    async def _listed_reachable(
        self, task_ids: Sequence[str], names: Sequence[bytes]
    ) -> list[StoredTask | StoreUnavailable]:
        return _without_gone(task_ids, await super()._listed_reachable(task_ids, names))


def _without_gone(task_ids: Sequence[str], found: Sequence[Any]) -> list[Any]:
    return [StoreUnavailable("gone") if each in GONE else row for each, row in zip(task_ids, found, strict=True)]


@pytest.fixture
def left_out() -> asyncio.Event:
    """Set once a contract that is out of reach has been looked up."""
    return asyncio.Event()


@pytest.fixture
def tasks(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, left_out: asyncio.Event) -> Tasks:
    facts = OfferFeed._facts  # pyright: ignore[reportPrivateUsage]

    async def facts_of(feed: OfferFeed, task_ids: Sequence[str]) -> list[RedisReply | StoreUnavailable]:
        found = _without_gone(task_ids, await facts(feed, task_ids))
        if not GONE.isdisjoint(task_ids):
            left_out.set()
        return found

    monkeypatch.setattr(OfferFeed, "_facts", facts_of)
    GONE.clear()
    return tasks_on(node.store, through=PartlyGone(node.store, 3600))


async def offers(tasks: Tasks, count: int, **changed: Any) -> list[str]:
    """Create offers, and return their ids in order."""
    offer = NewTask("desk", "Count the panels", **changed)
    return [(await tasks.create(offer, UNSIGNED, None, ""))[0].id for _ in range(count)]


def shown(page: TaskPage) -> tuple[list[str], bool]:
    """Return the ids on a page, and whether it says that some are left out."""
    return [task.id for task in page.tasks], page.incomplete is True


async def after(tasks: Tasks, page: TaskPage, **query: Any) -> TaskPage:
    """Return the page that follows."""
    assert isinstance(page.next_since, str)
    return await tasks.page(TaskPageQuery(since=page.next_since, **query))


async def test_a_page_of_what_came_since_shows_later_what_it_leaves_out(tasks: Tasks) -> None:
    first, second, third = await offers(tasks, 3)
    GONE.add(second)
    page = await tasks.page(TaskPageQuery(since="0-0"))
    assert shown(page) == ([first, third], True)
    page = await after(tasks, page)
    assert shown(page) == ([], True)
    GONE.clear()
    page = await after(tasks, page)
    assert shown(page) == ([second], False)
    assert shown(await after(tasks, page)) == ([], False)


@pytest.mark.parametrize("query", [{}, {"publisher_id": "desk"}, {"skill": "law"}])
async def test_the_first_page_does_so_too(tasks: Tasks, query: dict[str, Any]) -> None:
    first, second = await offers(tasks, 2, skills=["law"])
    (other,) = [task.id for task in [(await tasks.create(NewTask("office", "Read a memo"), UNSIGNED, None, ""))[0]]]
    GONE.update((first, other))
    page = await tasks.page(TaskPageQuery(**query))
    assert shown(page) == ([second], True)
    GONE.clear()
    expected = {first} if query else {first, other}
    assert {*shown(await after(tasks, page, **query))[0]} == expected


async def test_an_offer_that_was_taken_meanwhile_is_not_shown(tasks: Tasks, node: NodeUnderTest) -> None:
    (first,) = await offers(tasks, 1)
    GONE.add(first)
    page = await tasks.page(TaskPageQuery(since="0-0"))
    GONE.clear()
    await tasks_on(node.store).claim(first, NewClaim("worker"), UNSIGNED, None)
    page = await after(tasks, page)
    assert shown(page) == ([], False)
    assert page.next_since == await OfferFeed(node.store).end()


async def test_who_waits_is_shown_what_is_back_when_something_comes(tasks: Tasks, left_out: asyncio.Event) -> None:
    (first,) = await offers(tasks, 1)
    # Makes sure that the offer is announced: an announcement later would wake the waiting reader, which would get the
    # offer alone.
    assert shown(await tasks.page(TaskPageQuery(since="0-0"))) == ([first], False)
    GONE.add(first)
    waiting = asyncio.create_task(tasks.page(TaskPageQuery(since="0-0", wait=30)))
    await asyncio.wait_for(left_out.wait(), WOKEN)
    GONE.clear()
    (second,) = await offers(tasks, 1)
    assert shown(await asyncio.wait_for(waiting, WOKEN)) == ([first, second], False)


async def test_a_position_names_a_page_of_contracts_at_most(tasks: Tasks) -> None:
    made = await offers(tasks, MAX_LEFT_OUT + 10)
    GONE.update(made)
    page = await tasks.page(TaskPageQuery(since="0-0", limit=50))
    for _ in range(3):
        page = await after(tasks, page, limit=50)
        assert shown(page) == ([], True)
        assert isinstance(page.next_since, str)
        assert page.next_since.count("~") == MAX_LEFT_OUT
    GONE.clear()
    page = await after(tasks, page, limit=50)
    assert shown(page)[0] == made[:MAX_LEFT_OUT]
    assert shown(await after(tasks, page, limit=50))[0] == made[MAX_LEFT_OUT:]


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_is_away_when_each_offer_is_shown_once(tasks: Tasks, seed: int) -> None:
    """A reader that continues from page to page, of any length, sees each of them once."""
    random = Random(seed)
    start = await tasks.page(TaskPageQuery())
    made = await offers(tasks, 40)
    found: list[str] = []
    page = start
    for _ in range(30):
        GONE.clear()
        GONE.update(random.sample(made, random.randint(0, 40)))
        page = await after(tasks, page, limit=random.randint(1, 20))
        found += shown(page)[0]
    GONE.clear()
    while True:
        page = await after(tasks, page, limit=random.randint(1, 20))
        if not page.tasks:
            break
        found += shown(page)[0]
    assert sorted(found) == sorted(made)


@pytest.mark.parametrize("since", ["0-0~", "0-0~x", "0-0~" + "9" * 36, "0-0" + f"~{UNKNOWN_ID}" * 51])
async def test_what_is_no_position_is_refused(node: NodeUnderTest, since: str) -> None:
    response = await node.client.get("/api/v1/tasks", params={"status": "offered", "since": since})
    assert response.status_code == 422


async def test_a_position_may_name_what_there_is_not(node: NodeUnderTest) -> None:
    since = f"0-0~{UNKNOWN_ID}"
    page = (await node.client.get("/api/v1/tasks", params={"status": "offered", "since": since})).json()
    assert (page["tasks"], page["next_since"]) == ([], "0-0")
