"""The lists of contracts are projections: they may be behind, and are always corrected (DESIGN 4)."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from node.store import Store, ids, keys
from node.tasks.model import PLAIN_STATUSES, STATUSES, Holding, TaskPageQuery
from node.tasks.offers.feed import OfferFeed
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.interrupted import Interrupted
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, act, claimed, offered, tasks_on


async def places(node: NodeUnderTest, task_id: str) -> list[str]:
    """Return the lists that hold a contract."""
    return [each for each in STATUSES if await node.store.command("ZSCORE", keys.tasks_with(each), task_id) is not None]


async def listed(node: NodeUnderTest, status: str) -> dict[str, Any]:
    return (await node.client.get(TASKS, params={"status": status})).json()


async def test_contracts_are_spread_over_the_partitions(node: NodeUnderTest) -> None:
    """Otherwise one server of a cluster would hold all of them."""
    made = [await offered(node) for _ in range(8)]
    assert len({ids.partition_of_id(task["id"]) for task in made}) > 1


async def test_a_contract_that_no_list_was_told_of_is_projected(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await node.store.command("DEL", keys.tasks_with("claimed"))
    tasks = tasks_on(node.store)
    for _ in range(2):
        await tasks.project(task["id"])
        assert await places(node, task["id"]) == ["claimed"]


async def test_a_contract_in_several_lists_is_left_in_its_own(node: NodeUnderTest) -> None:
    task = await offered(node)
    for status in PLAIN_STATUSES:
        await node.store.command("ZADD", keys.tasks_with(status), 1, task["id"])
    await tasks_on(node.store).project(task["id"])
    assert await places(node, task["id"]) == ["offered"]


async def test_what_is_no_contract_is_in_no_list(node: NodeUnderTest) -> None:
    missing = ids.new_id()
    await node.store.command("ZADD", keys.tasks_with("offered"), 1, missing)
    await tasks_on(node.store).project(missing)
    assert await places(node, missing) == []


@pytest.mark.parametrize("status", ["claimed", "completed"])
async def test_a_list_that_is_behind_is_put_right_where_it_is_read(node: NodeUnderTest, status: str) -> None:
    task, other = await offered(node), await claimed(node)
    await node.store.command("ZREM", keys.tasks_with("offered"), task["id"])
    await node.store.command("ZADD", keys.tasks_with(status), 1, task["id"])
    page = await listed(node, status)
    standing = [other["id"]] if status == "claimed" else []
    assert ([found["id"] for found in page["tasks"]], page["total"]) == (standing, len(standing))
    assert await places(node, task["id"]) == ["offered"]
    assert [found["id"] for found in (await listed(node, "offered"))["tasks"]] == [task["id"]]


class HeldUp(TaskStore):
    """The store of a process that stalls before it lists what it has claimed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 3600)
        self.stands_still, self.goes_on = asyncio.Event(), asyncio.Event()

    async def project(self, rows: Mapping[str, StoredTask]) -> None:
        self.stands_still.set()
        await self.goes_on.wait()
        await super().project(rows)


async def test_who_was_held_up_lists_a_contract_as_it_is_by_then(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a contract that another process has released meanwhile would be on offer, but in no list of offers."""
    monkeypatch.setattr("node.tasks.store.LATE_SECONDS", 0.0)
    task, held_up = await offered(node), HeldUp(node.store)
    claiming = asyncio.create_task(tasks_on(node.store, through=held_up).claim_as(task["id"], "worker", "7" * 32, None))
    await held_up.stands_still.wait()
    other = tasks_on(node.store)
    # The same request, repeated at another process.
    claim, _ = await other.claim_as(task["id"], "worker", "7" * 32, None)
    await other.release(task["id"], Holding(claim.claim_token))
    held_up.goes_on.set()
    await claiming
    assert await places(node, task["id"]) == ["offered"]


async def test_a_worker_that_was_held_up_lists_a_contract_as_it_is_by_then(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the worker used what it read before it stalled, the released contract would stay listed as claimed for
    ever.
    """
    monkeypatch.setattr("node.tasks.store.LATE_SECONDS", 0.0)
    task, held_up = await claimed(node), HeldUp(node.store)
    projecting = asyncio.create_task(tasks_on(node.store, through=held_up).project(task["id"]))
    await held_up.stands_still.wait()
    await tasks_on(node.store).release(task["id"], Holding(task["claim_token"]))
    held_up.goes_on.set()
    await projecting
    assert await places(node, task["id"]) == ["offered"]


async def test_a_step_while_a_worker_lists_its_contract_is_not_undone(node: NodeUnderTest) -> None:
    """Otherwise one claim in a hundred that follow their offer at once would be in no list for up to half a second."""
    task, worker = await offered(node), HeldUp(node.store)
    projecting = asyncio.create_task(tasks_on(node.store, through=worker).project(task["id"]))
    await worker.stands_still.wait()
    await act(node, task, "claim", assignee_id="worker")
    worker.goes_on.set()
    await projecting
    assert await places(node, task["id"]) == ["claimed"]


async def test_a_contract_keeps_its_place_in_the_list_through_a_claim(node: NodeUnderTest) -> None:
    first, second = await offered(node), await offered(node)
    tasks = tasks_on(node.store)
    await node.store.command("DEL", keys.tasks_with("offered"))
    await tasks.project(second["id"], first["id"])
    assert [found["id"] for found in (await listed(node, "offered"))["tasks"]] == [second["id"], first["id"]]


async def test_a_list_that_was_read_before_shows_what_has_changed_since(node: NodeUnderTest) -> None:
    task = await offered(node)
    first = (await listed(node, "offered"))["tasks"]
    assert first == (await listed(node, "offered"))["tasks"]
    assert [each["id"] for each in first] == [task["id"]]
    claim = (await act(node, task, "claim", assignee_id="worker-1")).json()
    assert (await listed(node, "offered"))["tasks"] == []
    await act(node, task, "release", claim_token=claim["claim_token"])
    again = (await node.client.get(f"/api/v1/tasks/{task['id']}")).json()
    assert (await listed(node, "offered"))["tasks"] == [again]
    assert again["updated_at"] > first[0]["updated_at"]


async def test_the_list_is_looked_through_once_for_all_who_look_for_work_at_a_time(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    async def look(wait: int) -> list[str]:
        wanted = {"status": "offered", "skill": "law", "wait": wait}
        page = (await node.client.get(TASKS, params=wanted, timeout=40)).json()
        return [task["id"] for task in page["tasks"]]

    empty_redis.do("CONFIG", "RESETSTAT")
    assert await asyncio.gather(*(look(0) for _ in range(50))) == [[]] * 50
    looking = [asyncio.create_task(look(30)) for _ in range(50)]
    await node.listened_to(keys.OFFERS)
    for _ in range(3):
        await offered(node, skills=["cooking"])
    task = await offered(node, skills=["law"])
    assert await asyncio.gather(*looking) == [[task["id"]]] * 50
    assert empty_redis.info("commandstats")["cmdstat_zrevrange"]["calls"] < 50


@pytest.mark.parametrize("first", [0, 1])
async def test_what_is_offered_while_the_list_is_read_is_on_the_page_or_after_it(
    node: NodeUnderTest, first: int
) -> None:
    """The position in the feed must be read before the list: not after it, nor together with it in any order."""
    offers = [await offered(node)]

    async def go_on() -> None:
        offers.append(await offered(node))

    interrupted = cast("Store", Interrupted(node.store, go_on, first))
    page = await tasks_on(interrupted).page(TaskPageQuery("offered"))
    assert isinstance(page.next_since, str)
    after = await OfferFeed(node.store).after(page.next_since)
    shown = {task.id for task in page.tasks} | {offer.id for _, offer in after}
    assert shown == {task["id"] for task in offers}


async def test_a_page_of_what_came_since_goes_on_after_what_it_shows(node: NodeUnderTest) -> None:
    tasks = [await offered(node) for _ in range(5)]
    await act(node, tasks[1], "claim", assignee_id="worker-1")
    asked = {"status": "offered", "limit": 2, "since": "0-0"}
    for expected in ([0], [2, 3], [4], []):
        page = (await node.client.get(TASKS, params=asked)).json()
        assert [found["id"] for found in page["tasks"]] == [tasks[number]["id"] for number in expected]
        asked["since"] = page["next_since"]
    # A waiting reader is not held up by an offer that somebody has claimed since.
    await act(node, tasks[0], "claim", assignee_id="worker-1")
    asked = {"status": "offered", "limit": 1, "since": "0-0", "wait": 20}
    page = (await node.client.get(TASKS, params=asked, timeout=30)).json()
    assert [found["id"] for found in page["tasks"]] == [tasks[2]["id"]]


async def test_who_asks_from_beyond_the_end_goes_on_from_the_end(node: NodeUnderTest) -> None:
    await offered(node)
    page = (await node.client.get(TASKS, params={"status": "offered", "since": "9999999999999-0"})).json()
    task = await offered(node)
    after = (await node.client.get(TASKS, params={"status": "offered", "since": page["next_since"]})).json()
    assert [found["id"] for found in after["tasks"]] == [task["id"]]


@pytest.mark.parametrize("asked", [{"publisher_id": "report-desk"}, {"since": "0-0"}, {"wait": 0.05}])
async def test_who_looks_for_work_is_not_shown_a_paused_contract(node: NodeUnderTest, asked: dict[str, Any]) -> None:
    task = await claimed(node, max_attempts=2, retry_seconds=600)
    await act(node, task, "fail", claim_token=task["claim_token"], code="it.broke")
    assert [each["id"] for each in (await listed(node, "offered"))["tasks"]] == [task["id"]]
    page = (await node.client.get(TASKS, params={"status": "offered"} | asked)).json()
    assert (page["tasks"], page["total"]) == ([], 0)


async def test_a_paused_contract_has_not_been_put_on_offer(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=2, retry_seconds=600)
    since = (await listed(node, "offered"))["next_since"]
    await act(node, task, "fail", claim_token=task["claim_token"], code="it.broke")
    await tasks_on(node.store).project(task["id"])
    page = (await node.client.get(TASKS, params={"status": "offered", "since": since})).json()
    assert page["tasks"] == []


@pytest.mark.parametrize("asked", [{"skill": "summarise"}, {"publisher_id": "report-desk"}, {"since": "1-1"}])
async def test_filters_of_offers_are_refused_on_other_lists(node: NodeUnderTest, asked: dict[str, str]) -> None:
    response = await node.client.get(TASKS, params={"status": "completed"} | asked)
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["query", *asked])
