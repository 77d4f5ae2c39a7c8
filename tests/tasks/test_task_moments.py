"""The exact millisecond in which time changes a contract: what readers then see is what a step records."""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pytest

from node.common.refusal import Refused
from node.sign.signed import UNSIGNED
from node.store import keys
from node.store.decoding import fields_of
from node.tasks.lapse import next_change
from node.tasks.model import (
    Cancellation,
    Completion,
    FailedAttempt,
    Holding,
    NewClaim,
    NewTask,
    Rejection,
    TaskStatus,
    Transition,
)
from node.tasks.offers.feed import START, OfferFeed
from node.tasks.store import TaskStore
from tests.support.fake_store import Clock, FakeStore
from tests.tasks.calls import tasks_on, told, uncharged

BEFORE, AT, AFTER = -1, 0, 1  # ms


class Case(NamedTuple):
    """A contract that time will change next."""

    status: TaskStatus
    field: str
    """The field that says when."""
    after: TaskStatus
    terms: dict[str, Any]
    others: Mapping[str, int] = {}
    """Fields of times at which something else would change it, as milliseconds after the first time."""


LEASE = {"lease_seconds": 30}
DEADLINE = {"deadline": datetime(2099, 12, 31, tzinfo=UTC)}
LAST = LEASE | {"max_attempts": 1}
PAUSE = {"max_attempts": 2, "retry_seconds": 3600}
CASES = {
    "lease": Case("claimed", "lease_expires_at", "offered", LEASE),
    "lease-of-work": Case("in_progress", "lease_expires_at", "offered", LEASE),
    "lease-counted": Case("claimed", "lease_expires_at", "offered", LEASE | {"max_attempts": 2}),
    "lease-and-pause": Case("claimed", "lease_expires_at", "offered", LEASE | PAUSE),
    "last-lease": Case("claimed", "lease_expires_at", "failed", LAST),
    "last-lease-and-deadline": Case("claimed", "lease_expires_at", "failed", DEADLINE | LAST, {"deadline": 1}),
    "offer": Case("offered", "deadline", "expired", DEADLINE),
    "claim": Case("claimed", "deadline", "expired", DEADLINE),
    "work": Case("in_progress", "deadline", "expired", DEADLINE),
    "deadline-in-a-pause": Case("failed", "deadline", "expired", DEADLINE | PAUSE),
    "deadline-and-lease": Case("claimed", "deadline", "expired", DEADLINE | LEASE, {"lease_expires_at": 0}),
    "deadline-and-last-lease": Case("claimed", "deadline", "expired", DEADLINE | LAST, {"lease_expires_at": 0}),
    "deadline-and-pause": Case("failed", "deadline", "expired", DEADLINE | PAUSE, {"retry_at": 0}),
    "pause": Case("failed", "retry_at", "offered", PAUSE),
    "review": Case("submitted", "review_ends_at", "completed", {"review_seconds": 60}),
}
"""A status of `failed` before the change means that the attempt has failed, not the contract."""


async def come_to(store: FakeStore, case: Case, clock: Clock) -> str:
    """Return the id of a contract that changes in ten seconds."""
    tasks = tasks_on(store)
    task, _ = await tasks.create(NewTask("desk", "Count the panels", **case.terms), UNSIGNED, None, "")
    if case.status != "offered":
        claim, _ = await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
        if case.status == "in_progress":
            await tasks.transition(task.id, Transition("agent"), UNSIGNED, None)
        elif case.status == "failed":
            await tasks.fail(task.id, FailedAttempt("it.broke", claim_token=claim.claim_token))
        elif case.status == "submitted":
            await tasks.complete(task.id, Completion(claim.claim_token, msgspec.Raw(b"1")), uncharged)
    at = round(clock.time() * 1000) + 10_000
    for field, later in {case.field: 0, **case.others}.items():
        await store.command("HSET", keys.task(task.id), field, at + later)
    await store.command("ZADD", keys.leases_of(task.id), at, task.id)
    return task.id


async def planned(store: FakeStore, task_id: str) -> float:
    """Return when the sweep looks at a contract (ms); infinite if it does not."""
    at: Any = await store.command("ZSCORE", keys.leases_of(task_id), task_id)
    return float(at or "inf")


@pytest.mark.parametrize("past", [BEFORE, AT, AFTER])
@pytest.mark.parametrize("name", CASES)
async def test_a_step_writes_down_what_a_reader_sees(clock: Clock, name: str, past: int) -> None:
    case, store = CASES[name], FakeStore()
    task_id = await come_to(store, case, clock)
    before = len(await told(store, task_id))
    clock.advance((10_000 + past) / 1000)
    contracts = TaskStore(store, 3600)
    seen = await contracts.read(task_id)
    assert seen.status == (case.after if past >= AT else case.status.replace("failed", "offered"))
    assert (case.field.encode() in seen.fields) == (past < AT or case.field == "deadline")

    assert await contracts.lapse([task_id]) == {task_id: seen.status}
    stored = fields_of(await store.command("HGETALL", keys.task(task_id)))
    assert stored == seen.fields | {b"changes": stored[b"changes"]}
    assert len(await told(store, task_id)) == before + (past >= AT)
    assert await planned(store, task_id) == next_change(seen.fields)


async def test_the_pause_after_a_lease_that_ended_holds_though_nobody_has_written_it_down(clock: Clock) -> None:
    store = FakeStore()
    task_id = await come_to(store, CASES["lease-and-pause"], clock)
    clock.advance(10)
    with pytest.raises(Refused, match=r"task\.paused") as refused:
        await tasks_on(store).claim(task_id, NewClaim("other"), UNSIGNED, None)
    opens = await tasks_on(store).get(task_id)
    assert refused.value.retry_after is not None
    clock.advance(refused.value.retry_after)
    claim, _ = await tasks_on(store).claim(task_id, NewClaim("other"), UNSIGNED, None)
    assert (claim.attempt, claim.claimed_at) == (2, opens.retry_at)


async def test_a_lease_and_the_pause_after_it_that_are_over_leave_an_offer(clock: Clock) -> None:
    store = FakeStore()
    task_id = await come_to(store, CASES["lease-and-pause"], clock)
    clock.advance(2 * 3600)
    claim, _ = await tasks_on(store).claim(task_id, NewClaim("other"), UNSIGNED, None)
    assert (claim.attempt, claim.retry_at) == (2, msgspec.UNSET)


@pytest.mark.parametrize("deadline", [None, 600])
@pytest.mark.parametrize("lease", [None, 30, 3600])
async def test_every_step_plans_when_time_changes_its_contract_next(
    clock: Clock, lease: int | None, deadline: int | None
) -> None:
    store = FakeStore()
    tasks = tasks_on(store)
    offer = NewTask(
        "desk",
        "Count the panels",
        lease_seconds=lease,
        deadline=None if deadline is None else datetime.fromtimestamp(clock.time() + deadline, UTC),
        max_attempts=9,
        retry_seconds=10,
        review_seconds=20,
    )
    task, _ = await tasks.create(offer, UNSIGNED, None, "")
    assert await planned(store, task.id) == (math.inf if deadline is None else round(clock.time() + deadline) * 1000)
    token = ""

    async def claim() -> None:
        nonlocal token
        clock.advance(15)  # by then, a pause is over, too
        token = (await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None))[0].claim_token

    def extend() -> Awaitable[object]:
        return tasks.extend(task.id, Holding(token))

    steps: list[Callable[[], Awaitable[object]]] = [
        claim,
        lambda: tasks.release(task.id, Holding(token)),
        claim,
        lambda: tasks.fail(task.id, FailedAttempt("it.broke", claim_token=token)),
        claim,
        lambda: tasks.transition(task.id, Transition("agent"), UNSIGNED, None),
        lambda: tasks.complete(task.id, Completion(token, msgspec.Raw(b"1")), uncharged),
        lambda: tasks.reject(task.id, Rejection(task.publisher_token, reason="Two pages, please."), UNSIGNED, None),
        extend,
        lambda: tasks.fail(task.id, FailedAttempt("it.broke", retryable=False, claim_token=token)),
        lambda: tasks.retry(task.id, Cancellation(task.publisher_token), UNSIGNED, None),
        lambda: tasks.cancel(task.id, Cancellation(task.publisher_token), UNSIGNED),
    ]
    for step in steps:
        clock.advance(1)
        await step()
        await tasks.sweep()  # corrects what was planned for the end of a pause
        found = await TaskStore(store, 3600).read(task.id)
        assert await planned(store, task.id) == next_change(found.fields)
        assert (found.changed_at == round(clock.time() * 1000)) == (step is not extend)


@pytest.mark.parametrize(("seconds", "elapsed_ms"), [(90, 90_000), (-90, 0)], ids=["forward", "back"])
async def test_a_contract_took_the_time_from_its_claim_to_its_result(
    clock: Clock, seconds: int, elapsed_ms: int
) -> None:
    tasks = tasks_on(FakeStore())
    task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    clock.advance(1)
    claim, _ = await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
    clock.advance(seconds)
    done, _ = await tasks.complete(task.id, Completion(claim.claim_token, msgspec.Raw(b"1")), uncharged)
    assert done.elapsed_ms == (await tasks.get(task.id)).elapsed_ms == elapsed_ms


async def test_nothing_is_offered_until_now(clock: Clock) -> None:
    tasks, now = tasks_on(FakeStore()), datetime.fromtimestamp(clock.time(), UTC)
    await tasks.create(NewTask("desk", "Count", deadline=now + timedelta(milliseconds=1)), UNSIGNED, None, "")
    with pytest.raises(Refused, match=r"task\.deadline"):
        await tasks.create(NewTask("desk", "Count", deadline=now), UNSIGNED, None, "")


@pytest.mark.parametrize("past", [BEFORE, AT])
async def test_a_publisher_gives_no_further_attempt_from_the_deadline_on(clock: Clock, past: int) -> None:
    store = FakeStore()
    tasks = tasks_on(store)
    end = datetime.fromtimestamp(clock.time() + 600, UTC)
    failing, rejected = [
        (
            await tasks.create(
                NewTask("desk", "Count the panels", deadline=end, review_seconds=review), UNSIGNED, None, ""
            )
        )[0]
        for review in (None, 3600)
    ]
    tokens = [
        (await tasks.claim(each.id, NewClaim("agent"), UNSIGNED, None))[0].claim_token for each in (failing, rejected)
    ]
    await tasks.fail(failing.id, FailedAttempt("it.broke", claim_token=tokens[0]))
    await tasks.complete(rejected.id, Completion(tokens[1], msgspec.Raw(b"1")), uncharged)
    clock.advance(600 + past / 1000)
    rejection = Rejection(rejected.publisher_token, reason="Two pages, please.")
    after, _ = await tasks.reject(rejected.id, rejection, UNSIGNED, None)
    retried = Cancellation(failing.publisher_token)
    if past < AT:
        again, _ = await tasks.retry(failing.id, retried, UNSIGNED, None)
        assert (after.status, again.status) == ("in_progress", "offered")
    else:
        assert after.status == "expired"
        with pytest.raises(Refused, match=r"task\.over"):
            await tasks.retry(failing.id, retried, UNSIGNED, None)


async def test_an_offer_that_is_taken_and_given_back_in_one_millisecond_is_announced_again(clock: Clock) -> None:
    """Otherwise workers that wait are not told that it is available again, because it counts as known."""
    store = FakeStore()
    tasks = tasks_on(store)
    task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
    for attempt in range(3):
        told_of = [offer.id for _, offer in await OfferFeed(store).after(START)]
        assert told_of == [task.id] * (attempt + 1)
        claim, _ = await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
        await tasks.release(task.id, Holding(claim.claim_token))
        await tasks.project(task.id)
