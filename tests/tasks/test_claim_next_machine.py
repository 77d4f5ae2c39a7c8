"""claim-next against a model, on a real Redis or cluster: an offer goes to a worker that asks and is suitable."""

import asyncio
from collections.abc import Sequence

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from node.sign.signed import UNSIGNED
from node.store import connect
from node.store.idempotency import bound_key
from node.tasks.model import Cancellation, Completion, FailedAttempt, Holding, NewTask, NextClaim, Rejection, TaskStatus
from tests.support.servers import PATIENCE, Cluster, RedisServer
from tests.tasks.calls import uncharged
from tests.tasks.web_process import process_on

SKILLS = st.lists(st.sampled_from(["law", "arabic"]), unique=True, max_size=2)
PUBLISHERS = st.sampled_from(["desk", "office"])


class Known(msgspec.Struct):
    """The expected state of a contract."""

    id: str
    publisher_token: str
    skills: Sequence[str]
    publisher: str
    tries: int
    """Number of attempts that may still fail before the contract fails."""
    reviewed: bool
    status: TaskStatus = "offered"
    token: str = ""


class ClaimNextMachine(RuleBasedStateMachine):
    """Contracts on the services of two web processes, each with its own connections."""

    contracts: Bundle[Known] = Bundle("contracts")

    redis: RedisServer | Cluster

    def __init__(self) -> None:
        super().__init__()
        self.redis.do("FLUSHALL")
        self._runner = asyncio.Runner()
        self._all: list[Known] = []
        self._requests = 0
        connecting = [connect(self.redis.url, timeout=10, max_in_flight=1000) for _ in range(2)]
        self._stores = [self._runner.run(each) for each in connecting]
        self._processes = [process_on(store) for store in self._stores]
        self._tasks = [process.tasks for process in self._processes]

    def teardown(self) -> None:
        async def end() -> None:
            for known in self._all:
                assert (await self._tasks[0].get(known.id)).status == known.status
            for store, process in zip(self._stores, self._processes, strict=True):
                await process.matching.close()
                await store.close()

        self._runner.run(end())
        self._runner.close()

    @rule(target=contracts, skills=SKILLS, publisher=PUBLISHERS, tries=st.integers(1, 2), reviewed=st.booleans())
    def offer(self, skills: list[str], publisher: str, tries: int, reviewed: bool) -> Known:
        offer = NewTask(
            publisher,
            "Count the panels",
            skills=skills,
            max_attempts=tries,
            review_seconds=600 if reviewed else None,
        )
        task, _ = self._runner.run(self._tasks[0].create(offer, UNSIGNED, None, ""))
        self._all.append(known := Known(task.id, task.publisher_token, skills, publisher, tries, reviewed))
        return known

    @rule(process=st.integers(0, 1), skills=SKILLS, publishers=st.lists(PUBLISHERS, max_size=1), repeats=st.booleans())
    def claim_next(self, process: int, skills: list[str], publishers: list[str], repeats: bool) -> None:
        fitting = {
            each.id: each
            for each in self._all
            if each.status == "offered"
            and {*each.skills} <= {*skills}
            and each.publisher in (publishers or [each.publisher])
        }
        self._requests += 1
        key = bound_key("claim-next", "worker", f"request number {self._requests}", b"")
        wanted = NextClaim("worker", skills, publishers, wait=PATIENCE if fitting else 0)
        claim, _ = self._runner.run(self._processes[process].claims.claim(wanted, key, "", uncharged))
        assert (claim is None) == (not fitting)
        if claim is None:
            return
        known = fitting[claim.id]
        known.status, known.token = "claimed", claim.claim_token
        if repeats:
            again, replayed = self._runner.run(self._processes[1 - process].claims.claim(wanted, key, "", uncharged))
            assert again is not None
            assert (again.claim_token, replayed) == (claim.claim_token, True)

    @rule(known=contracts)
    def release(self, known: Known) -> None:
        if known.status in ("claimed", "in_progress"):
            self._runner.run(self._tasks[0].release(known.id, Holding(known.token)))
            known.status = "offered"

    @rule(known=contracts, retryable=st.booleans())
    def fail(self, known: Known, retryable: bool) -> None:
        if known.status in ("claimed", "in_progress"):
            failed = FailedAttempt("it.broke", retryable=retryable, claim_token=known.token)
            self._runner.run(self._tasks[0].fail(known.id, failed))
            known.tries -= 1
            known.status = "offered" if retryable and known.tries > 0 else "failed"

    @rule(known=contracts)
    def retry(self, known: Known) -> None:
        if known.status == "failed":
            self._runner.run(self._tasks[1].retry(known.id, Cancellation(known.publisher_token), UNSIGNED, None))
            known.status, known.tries = "offered", 1

    @rule(known=contracts)
    def complete(self, known: Known) -> None:
        if known.status in ("claimed", "in_progress"):
            self._runner.run(self._tasks[1].complete(known.id, Completion(known.token), uncharged))
            known.status = "submitted" if known.reviewed else "completed"

    @rule(known=contracts, accepts=st.booleans())
    def review(self, known: Known, accepts: bool) -> None:
        if known.status == "submitted" and accepts:
            self._runner.run(self._tasks[1].accept(known.id, Cancellation(known.publisher_token), UNSIGNED))
            known.status = "completed"
        elif known.status == "submitted":
            rejection = Rejection(known.publisher_token, reason="Once more, please.")
            self._runner.run(self._tasks[0].reject(known.id, rejection, UNSIGNED, None))
            known.status = "in_progress"

    @rule(known=contracts)
    def cancel(self, known: Known) -> None:
        if known.status in ("offered", "claimed", "in_progress"):
            self._runner.run(self._tasks[0].cancel(known.id, Cancellation(known.publisher_token), UNSIGNED))
            known.status = "canceled"


def test_claim_next_gives_what_fits_to_one_worker_and_nothing_else(empty_redis: RedisServer | Cluster) -> None:
    class OnThis(ClaimNextMachine):
        redis = empty_redis

    run_state_machine_as_test(OnThis, settings=settings(max_examples=25, stateful_step_count=25))
