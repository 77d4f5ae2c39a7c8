"""Workers that ask for any suitable contract, and wait for one: each contract goes to exactly one of them."""

import asyncio
from typing import Any

import pytest
from pytest import MonkeyPatch

from node.sign.signed import UNSIGNED
from node.store import OutcomeUnknown, Store, connect
from node.store.errors import StoreBusy
from node.store.idempotency import bound_key
from node.store.keys import OFFERS
from node.tasks.model import Holding, NewTask, NextClaim
from node.tasks.offers.claim_next import ClaimsOfAny
from node.tasks.offers.feed import PAGE, Offer, OfferFeed
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from node.web.waiting_places import WAITING_BY_CLIENT
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import WOKEN, RedisServer, eventually
from tests.tasks.calls import TASKS, act, claimed, let_end, offered, tasks_on, uncharged
from tests.tasks.web_process import Lossy, process_on

NEXT = f"{TASKS}/claim-next"
WORKERS, CONTRACTS = 300, 60
KEY = "a key that nobody guesses"


async def claim_next(node: NodeUnderTest, name: str = "worker", **more: Any) -> Any:
    return await node.client.post(NEXT, json={"assignee_id": name} | more)


async def test_a_worker_gets_an_offered_contract_claimed(node: NodeUnderTest) -> None:
    task = await offered(node)
    claim = await claim_next(node)
    assert claim.status_code == 200, claim.text
    assert (claim.json()["id"], claim.json()["status"]) == (task["id"], "claimed")
    done = await act(node, task, "complete", claim_token=claim.json()["claim_token"], result_payload=1)
    assert done.json()["valid"]


async def test_without_a_contract_that_fits_there_is_nothing(node: NodeUnderTest) -> None:
    await offered(node, skills=["arabic"])
    wanted: list[dict[str, Any]] = [{}, {"skills": ["c++"]}, {"skills": ["arabic"], "publisher_ids": ["another"]}]
    for more in wanted:
        nothing = await claim_next(node, **more)
        assert (nothing.status_code, nothing.content) == (204, b"")


async def test_who_does_not_wait_finds_what_was_offered_before(node: NodeUnderTest) -> None:
    """A process with a slightly old list must not answer 204 until it has heard of the new contract."""
    assert (await claim_next(node)).status_code == 204
    for _ in range(20):
        task = await offered(node)
        assert (await claim_next(node)).json()["id"] == task["id"]


async def test_all_skills_of_a_contract_are_the_workers(node: NodeUnderTest) -> None:
    hard, easy = await offered(node, skills=["arabic", "law"]), await offered(node, skills=["law"])
    found = [(await claim_next(node, skills=["law", "c++"])).json() for _ in range(1)]
    assert [each["id"] for each in found] == [easy["id"]]
    assert (await claim_next(node, skills=["law"])).status_code == 204
    assert (await claim_next(node, skills=["law", "arabic"])).json()["id"] == hard["id"]


async def test_a_worker_may_work_for_some_publishers_only(node: NodeUnderTest) -> None:
    await offered(node)
    mine = await offered(node, publisher_id="my-desk")
    assert (await claim_next(node, publisher_ids=["my-desk"])).json()["id"] == mine["id"]


async def test_who_waits_is_given_what_comes(node: NodeUnderTest, monkeypatch: MonkeyPatch) -> None:
    # At that interval, the process would look, too.
    monkeypatch.setattr("node.tasks.offers.matching.IDLE_SECONDS", 2 * WOKEN)
    waiting = asyncio.create_task(claim_next(node, wait=30, skills=["law"]))
    await eventually(lambda: WAITING_BY_CLIENT.total() == 1)
    await offered(node, skills=["arabic"])
    task = await offered(node, skills=["law"])
    assert (await asyncio.wait_for(waiting, WOKEN)).json()["id"] == task["id"]


async def test_what_is_released_or_fails_is_given_to_who_waits(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=3)
    for what, more in (("release", {}), ("fail", {"code": "it.broke"})):
        waiting = asyncio.create_task(claim_next(node, wait=20))
        await eventually(lambda: WAITING_BY_CLIENT.total() == 1)
        await act(node, task, what, claim_token=task["claim_token"], **more)
        task |= (await waiting).json()
    assert task["attempt"] == 3


async def test_a_key_gets_the_same_claim_again_and_no_second_contract(node: NodeUnderTest) -> None:
    for _ in range(2):
        await offered(node)
    first, second = [await claim_next(node, idempotency_key=KEY) for _ in range(2)]
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert (await node.client.get(TASKS, params={"status": "offered"})).json()["total"] == 1
    await act(node, first.json(), "complete", claim_token=first.json()["claim_token"])
    assert refused(await claim_next(node, idempotency_key=KEY)) == (409, "task.state")


async def test_a_key_whose_contract_another_has_by_now_gets_the_next_one(node: NodeUnderTest) -> None:
    lost = await offered(node, lease_seconds=60)
    assert (await claim_next(node, idempotency_key=KEY)).json()["id"] == lost["id"]
    await let_end(node.store, lost["id"])
    assert (await act(node, lost, "claim", assignee_id="other")).status_code == 200
    task = await offered(node)
    again = await claim_next(node, idempotency_key=KEY, wait=20)
    assert (again.json()["id"], again.json()["attempt"]) == (task["id"], 1)


async def test_a_key_that_is_forgotten_while_its_request_waits_gets_what_comes(node: NodeUnderTest) -> None:
    lost = await offered(node, lease_seconds=60)
    assert (await claim_next(node, idempotency_key=KEY)).json()["id"] == lost["id"]
    await let_end(node.store, lost["id"])
    assert (await act(node, lost, "claim", assignee_id="other")).status_code == 200
    waiting = asyncio.create_task(claim_next(node, idempotency_key=KEY, wait=20))
    await eventually(lambda: WAITING_BY_CLIENT.total() == 1)
    (record,) = [name for name in await node.names("idem:*") if await node.store.command("GET", name) == _raw(lost)]
    await node.store.command("DEL", record)  # as when the record has expired
    task = await offered(node)
    assert (await waiting).json()["id"] == task["id"]
    assert await node.store.command("GET", record) == _raw(task)


async def test_two_requests_of_one_key_that_wait_get_one_contract(node: NodeUnderTest) -> None:
    waiting = [asyncio.create_task(claim_next(node, wait=20, idempotency_key=KEY)) for _ in range(2)]
    await eventually(lambda: WAITING_BY_CLIENT.total() == 2)
    await asyncio.gather(*(offered(node) for _ in range(2)))
    first, second = [(await each).json()["id"] for each in waiting]
    assert first == second


async def test_of_two_requests_of_one_key_both_get_the_only_contract(empty_redis: RedisServer) -> None:
    """Regression: the second waited in vain. If the client has only the answer to that one, as when the connection of
    the first broke without a word, nobody would have worked on the contract.
    """
    async with await connect(empty_redis.url, timeout=10, max_in_flight=100) as store:
        tasks, claims, matching = process_on(store)
        key = bound_key("claim-next", "worker", KEY, b"")
        waiting = {asyncio.create_task(claims.claim(NextClaim("worker", wait=30), key, "", uncharged)) for _ in "12"}
        await eventually(lambda: len(matching) == 2)
        task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
        _, (second,) = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        store.wakeups.waiters.release()  # instead of 30 s
        claim, was_made_before = await second
        assert claim is not None
        assert (claim.id, was_made_before) == (task.id, True)
        await matching.close()


async def test_a_claim_that_another_was_faster_to_make_costs_no_place_in_the_limit(node: NodeUnderTest) -> None:
    task = await claimed(node)
    before = (await claim_next(node)).headers["ratelimit"]
    lost = [await act(node, task, "claim", assignee_id="slow-agent") for _ in range(3)]
    assert [refused(each) for each in lost] == 3 * [(409, "task.claimed")]
    assert lost[-1].headers["ratelimit"].partition(";t=")[0] == before.partition(";t=")[0]


def _raw(task: dict[str, Any]) -> bytes:
    return task["id"].encode()


async def persist(claims: ClaimsOfAny, name: str, seconds: float) -> str | None:
    """Return the contract of a worker that repeats its request whenever an answer is lost."""
    while True:
        try:
            wanted = bound_key("claim-next", name, KEY, b"")
            claim, _ = await claims.claim(NextClaim(name, wait=seconds), wanted, "", uncharged)
        except OutcomeUnknown:
            continue
        return claim.id if claim else None


async def test_of_many_who_wait_in_two_processes_each_contract_goes_to_one(empty_redis: RedisServer) -> None:
    stores = [await connect(empty_redis.url, timeout=10, max_in_flight=10_000) for _ in range(2)]
    processes = [process_on(store, Lossy(store)) for store in stores]
    workers = [
        asyncio.create_task(persist(processes[number % 2].claims, f"agent-{number}", 30)) for number in range(WORKERS)
    ]
    tasks = processes[0].tasks
    made = await asyncio.gather(
        *(tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "") for _ in range(CONTRACTS))
    )
    await eventually(lambda: sum(worker.done() for worker in workers) >= CONTRACTS)
    for worker in workers:
        worker.cancel()
    got = [found for found in await asyncio.gather(*workers, return_exceptions=True) if isinstance(found, str)]
    assert sorted(got) == sorted(task.id for task, _ in made)
    for store, process in zip(stores, processes, strict=True):
        await process.matching.close()
        await store.close()


async def test_who_goes_away_leaves_what_comes_to_the_next(node: NodeUnderTest) -> None:
    tasks, claims, matching = process_on(node.store)
    first = asyncio.create_task(claims.claim(NextClaim("first", wait=20), None, "", uncharged))
    second = asyncio.create_task(claims.claim(NextClaim("second", wait=20), None, "", uncharged))
    await eventually(lambda: len(matching) == 2)
    first.cancel()
    task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    claim, _ = await second
    assert claim is not None
    assert claim.id == task.id
    await tasks.release(task.id, Holding(claim.claim_token))
    await matching.close()


class Busy(TaskStore):
    """A store that is too busy for the first claim."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 3600)
        self.calls = 0

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        self.calls += 1
        if self.calls == 1:
            raise StoreBusy("as many calls as may be are under way")
        return await super().claim(task_id, assignee, request, replay_id)


async def test_what_could_not_be_claimed_is_for_others_who_wait(node: NodeUnderTest) -> None:
    tasks, claims, matching = process_on(node.store, Busy(node.store))
    first = asyncio.create_task(claims.claim(NextClaim("first", wait=20), None, "", uncharged))
    await eventually(lambda: len(matching) == 1)
    second = asyncio.create_task(claims.claim(NextClaim("second", wait=20), None, "", uncharged))
    await eventually(lambda: len(matching) == 2)
    task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    with pytest.raises(StoreBusy):
        await first
    claim, _ = await second
    assert claim is not None
    assert claim.id == task.id
    await matching.close()


async def test_what_a_repeated_request_was_given_is_for_others_who_wait(node: NodeUnderTest) -> None:
    """The repeated request gets the contract of the first one. The contract that was handed to it meanwhile must not be
    withheld from others.
    """
    tasks, claims, matching = process_on(node.store)
    key = bound_key("claim-next", "worker", KEY, b"")
    waiting: list[asyncio.Task[Any]] = []
    for name, given in (("worker", key), ("worker", key), ("other", None)):
        waiting.append(asyncio.create_task(claims.claim(NextClaim(name, wait=20), given, "", uncharged)))
        await eventually(lambda: len(matching) == len(waiting))
    for _ in range(2):
        await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    first, again, other = [(await each)[0] for each in waiting]
    assert first.id == again.id
    assert other
    assert other.id != first.id
    await matching.close()


async def test_what_comes_back_is_given_again_however_soon(node: NodeUnderTest, monkeypatch: MonkeyPatch) -> None:
    # So that every newcomer lets the list be read again.
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 0.0)
    tasks, claims, matching = process_on(node.store)
    await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    for _ in range(4):
        claim, _ = await claims.claim(NextClaim("worker", wait=20), None, "", uncharged)
        assert claim is not None
        await tasks.release(claim.id, Holding(claim.claim_token))
        for _ in range(3):  # meanwhile, the feed reports it
            assert (await claims.claim(NextClaim("other", publisher_ids=["office"]), None, "", uncharged))[0] is None
    await matching.close()


async def test_what_is_put_back_is_for_whoever_comes_next(node: NodeUnderTest, monkeypatch: MonkeyPatch) -> None:
    """Otherwise it would be skipped in the list for seconds, like one that was handed out a moment ago."""
    # So that every newcomer lets the list be read again.
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 0.0)
    tasks, claims, matching = process_on(node.store)
    key = bound_key("claim-next", "worker", KEY, b"")
    waiting = [asyncio.create_task(claims.claim(NextClaim("worker", wait=20), key, "", uncharged)) for _ in range(2)]
    await eventually(lambda: len(matching) == 2)
    for _ in range(2):
        await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    first, again = [(await each)[0] for each in waiting]
    other, _ = await claims.claim(NextClaim("other", wait=20), None, "", uncharged)
    assert first
    assert first == again
    assert other
    await matching.close()


class Overtaken(OfferFeed):
    """Adds an offer to the feed after the list was read, but before its reader gets the reply."""

    def __init__(self, store: Store, tasks: Tasks) -> None:
        super().__init__(store)
        self._tasks = tasks
        self._came = asyncio.Event()

    async def listed(self, start: int, count: int = PAGE) -> tuple[list[Offer], list[str]]:
        found = await super().listed(start, count)
        await self._tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
        await self._came.wait()
        return found

    async def after(self, entry: str) -> list[tuple[str, Offer]]:
        found = await super().after(entry)
        if found:
            self._came.set()
        return found


async def test_what_comes_while_the_list_is_read_is_known(node: NodeUnderTest, monkeypatch: MonkeyPatch) -> None:
    """Otherwise the offer would be forgotten unless a suitable worker is already waiting, because the list was read
    before the offer came.
    """
    monkeypatch.setattr("node.tasks.offers.matching.FRESH_SECONDS", 100.0)
    tasks = tasks_on(node.store)
    await tasks.create(NewTask("office", "Count the panels"), UNSIGNED, None, "")
    _, claims, matching = process_on(node.store, feed=Overtaken(node.store, tasks))
    assert (await claims.claim(NextClaim("worker", publisher_ids=["office"]), None, "", uncharged))[0]
    claim, _ = await claims.claim(NextClaim("other", publisher_ids=["desk"], wait=20), None, "", uncharged)
    assert claim
    await matching.close()


class Late(OfferFeed):
    """Adds an offer before the follower of the feed knows where the feed ends."""

    def __init__(self, store: Store, tasks: Tasks) -> None:
        super().__init__(store)
        self._tasks = tasks

    async def end(self) -> str:
        await self._tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
        return await super().end()


async def test_the_list_is_read_once_the_feed_is_followed(node: NodeUnderTest, monkeypatch: MonkeyPatch) -> None:
    """This includes a feed that is followed anew after nobody had waited for a while."""
    monkeypatch.setattr("node.tasks.offers.matching.IDLE_SECONDS", 0.0)
    monkeypatch.setattr("node.store.wakeups.IDLE_ROUNDS", 0)
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.05)
    _, claims, matching = process_on(node.store, feed=Late(node.store, tasks_on(node.store)))
    for _ in range(2):
        assert (await claims.claim(NextClaim("worker"), None, "", uncharged))[0]
        await until(lambda: _is_heard_by_nobody(node))
    await matching.close()


async def _is_heard_by_nobody(node: NodeUnderTest) -> bool:
    return await node.store.command("PUBSUB", "SHARDNUMSUB", OFFERS, key=OFFERS) == [OFFERS.encode(), 0]


async def test_the_list_of_offers_waits_and_goes_on_from_where_it_was(node: NodeUnderTest) -> None:
    old = await offered(node)
    page = (await node.client.get(TASKS, params={"status": "offered"})).json()
    assert [task["id"] for task in page["tasks"]] == [old["id"]]
    since = {"status": "offered", "since": page["next_since"], "wait": 30}
    waiting = asyncio.create_task(node.client.get(TASKS, params=since | {"skill": "law"}))
    await eventually(lambda: WAITING_BY_CLIENT.total() == 1)
    await offered(node)
    new = await offered(node, skills=["law"], publisher_id="my-desk")
    found = (await asyncio.wait_for(waiting, WOKEN)).json()
    assert [task["id"] for task in found["tasks"]] == [new["id"]]
    nothing = await node.client.get(TASKS, params={"status": "offered", "since": found["next_since"]})
    assert nothing.json()["tasks"] == []
    for more in ({"skill": "law"}, {"publisher_id": "my-desk"}):
        named = (await node.client.get(TASKS, params={"status": "offered"} | more)).json()
        assert ([task["id"] for task in named["tasks"]], named["total"]) == ([new["id"]], 1)
        beyond = (await node.client.get(TASKS, params={"status": "offered", "offset": 1} | more)).json()
        assert (beyond["tasks"], beyond["total"]) == ([], 1)
    for wrong in ({"since": "soon"}, {"wait": 31}, {"skill": "Two words"}):
        assert (await node.client.get(TASKS, params={"status": "offered"} | wrong)).status_code == 422


async def test_who_waits_for_an_offer_is_not_held_up_by_those_before_it_that_do_not_fit(node: NodeUnderTest) -> None:
    """The reader must not stop after as many offers as one round trip reads, to wait for another to come."""
    tasks = tasks_on(node.store)
    for _ in range(PAGE + 1):
        await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    wanted, _ = await tasks.create(NewTask("desk", "Count the panels", skills=["law"]), UNSIGNED, None, "")
    asked = {"status": "offered", "since": "0-0", "skill": "law", "wait": 20}
    found = (await node.client.get(TASKS, params=asked, timeout=30)).json()
    assert [task["id"] for task in found["tasks"]] == [wanted.id]
