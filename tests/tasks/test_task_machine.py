"""Contracts against a model: after any steps in any order, they are what the rules say (SPEC 3.1, DESIGN 8)."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, invariant, multiple, precondition, rule

from node.sign.signed import UNSIGNED
from node.store import keys
from node.store.idempotency import bound_key
from node.tasks.model import (
    STATUSES,
    Cancellation,
    Completion,
    FailedAttempt,
    FailureReason,
    Holding,
    NewClaim,
    Rejection,
    Task,
    TaskPageQuery,
    TaskStatus,
    Transition,
)
from node.tasks.store import TaskStore
from tests.support.effort import tries
from tests.support.machine import StoreMachine
from tests.tasks.calls import tasks_on, told, uncharged
from tests.tasks.task_model import AT_WORK, ENDED, NEXT, NO_TOKEN, PUBLISHER, Model, Terms, Told

ACTORS = st.sampled_from([PUBLISHER, "ann", "bob"])
AGENTS = st.sampled_from(["ann", "bob"])
KEYS = st.sampled_from([None, "first-secret-key", "other-secret-key"])  # long enough to be replayed at any time
PROOFS = st.sampled_from(["token", "token", "none", "wrong"])
OWN = "that of the present claim"
PLAIN = st.builds(Terms, lease=st.sampled_from([None, 30, 600]), bound=st.booleans())
FULL = st.builds(
    Terms,
    lease=st.sampled_from([None, 30, 600]),
    attempts=st.sampled_from([2, 3]),
    retry=st.sampled_from([None, 10]),
    deadline=st.sampled_from([None, 45, 600]),  # combined with a lease, too
    review=st.sampled_from([None, 30]),
)
TERMS = st.sampled_from([PLAIN, FULL, FULL, FULL]).flatmap(lambda terms: terms)  # more can go wrong with FULL
AT_ONCE = 2  # unfinished contracts: two can still interfere with each other, and each gets more steps
CONTRACTS = 6  # at most
STEPS = st.integers(0, 2**32).map(lambda seed: Random(seed).choices(range(60), k=6))
"""Which of the allowed steps are taken. Drawn one by one, they would be the same few again and again."""
CHANGES_KEPT = 16
NEVER = 2**53  # ms
LONG = 30 * 86_400  # s; after that, no contract changes by itself any more


def _some_model() -> st.SearchStrategy[Model]:
    """Return a strategy for a contract, usually one that has not ended."""
    machine = cast("st.SearchStrategy[TaskMachine]", st.runner())
    return machine.flatmap(lambda machine: st.sampled_from([*machine.living * 3, *machine.all]))


MODELS = _some_model()


class TaskMachine(StoreMachine):
    """Contracts on an in-memory store whose clock moves only when told to."""

    tokens: Bundle[str] = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Model] = []
        self._tasks = tasks_on(self.store)

    def teardown(self) -> None:
        with self.stack:
            # A step that is refused only because of its token does not record the end of a lease. The sweep does.
            self.advance(LONG)
            self.sweep()
            for model in self.all:
                events: Any = self.run_step(told(self.store, model.id))
                assert [_told(event) for event in events] == model.told
                log = self.run_step(self._tasks.changes(model.id))
                assert log.count == len(model.told)
                assert [what for what, _ in log.last] == [each.what for each in model.told][-CHANGES_KEPT:]

    @property
    def ms(self) -> int:
        """The time of the store in milliseconds, as its scripts see it."""
        seconds, microseconds = cast("tuple[int, int]", self.run_step(self.store.command("TIME")))
        return int(seconds) * 1000 + int(microseconds) // 1000

    @property
    def living(self) -> list[Model]:
        return [model for model in self.all if model.status not in ENDED]

    @initialize(target=tokens, terms=TERMS, choices=STEPS)
    def begin(self, terms: Terms, choices: list[int]) -> MultipleResults[str]:
        return self.offer(terms, choices)

    @precondition(lambda self: len(self.all) < CONTRACTS and len(self.living) < AT_ONCE)
    @rule(target=tokens, terms=TERMS, choices=STEPS)
    def offer_another(self, terms: Terms, choices: list[int]) -> MultipleResults[str]:
        return self.offer(terms, choices)

    def offer(self, terms: Terms, choices: list[int]) -> MultipleResults[str]:
        """Offer a contract, create its model, and take steps."""
        task, _ = self.run_step(self._tasks.create(terms.offer(self.ms), UNSIGNED, None, ""))
        self.all.append(Model(task.id, task.publisher_token, terms, self.ms))
        return self.take(choices)

    @rule(target=tokens, choices=STEPS)
    def go_on(self, choices: list[int]) -> MultipleResults[str]:
        return self.take(choices)

    def take(self, choices: list[int]) -> MultipleResults[str]:
        """Take steps that the contracts allow, one by one. Most other steps would be refused, and lead nowhere."""
        claims: list[str] = []
        for choice in choices:
            moves = [move for model in self.living for move in self.moves(model)]
            if moves and isinstance(token := moves[choice % len(moves)](), str):
                claims.append(token)
        return multiple(*claims)

    def moves(self, model: Model) -> list[Callable[[], object]]:
        """Return the steps that a contract allows now, except its cancellation."""
        model.pass_time(self.ms)
        if model.opens is not None:
            return [lambda: self.wait_for_the_moment(model, 0), lambda: self.claim(model, "ann", None)]
        if model.status == "offered":
            return [lambda: self.claim(model, "ann", None), lambda: self.claim(model, "bob", "first-secret-key")]
        if model.status in AT_WORK:
            return [
                lambda: self.transition(model, PUBLISHER, True, None, None),
                lambda: self.transition(model, model.assignee or "", False, OWN, None),
                lambda: self.complete(model, OWN, b"1"),
                lambda: self.complete(model, OWN, b"null"),
                lambda: self.fail(model, OWN, True),
                lambda: self.release(model, OWN),
                lambda: self.extend(model, OWN),
            ]
        if model.status == "submitted":
            return [
                lambda: self.accept(model, "token"),
                lambda: self.reject(model, "token", "too short"),
                lambda: self.reject(model, "token", "too long"),
                lambda: self.reject_too_late(model),
            ]
        return [lambda: self.retry(model, "token")]

    @rule(target=tokens, model=MODELS, agent=AGENTS, key=KEYS)
    def claim(self, model: Model, agent: str, key: str | None) -> str:
        model.pass_time(self.ms)
        standing = model.status in AT_WORK
        known = key is not None and model.key == (agent, key)
        again = standing and known
        free = model.status == "offered" and not known
        refusal = None if free or again else "task.claimed" if standing else "task.state"
        if free and model.opens is not None:
            refusal = "task.paused"
        wanted = bound_key("claim", agent, key, b"")
        answer = self.attempt(lambda: self._tasks.claim(model.id, NewClaim(agent), UNSIGNED, wanted), refusal)
        if answer is None:
            return NO_TOKEN
        claim, replayed = answer
        assert replayed == again
        if again:
            assert claim.claim_token == model.token
        else:
            model.claim(agent, claim.claim_token, key, self.ms)
        return claim.claim_token

    @rule(
        model=MODELS,
        actor=ACTORS,
        publisher=st.booleans(),
        token=st.none() | st.just(OWN) | tokens,
        wanted=st.none() | st.sampled_from(STATUSES),
    )
    def transition(
        self, model: Model, actor: str, publisher: bool, token: str | None, wanted: TaskStatus | None
    ) -> None:
        model.pass_time(self.ms)
        token = None if token is None else meant(model, token)
        shown = token is not None and token == model.token
        proven = (actor == PUBLISHER and publisher) or (actor == model.assignee and shown)
        after = NEXT.get(model.status)
        if token is not None and not shown:
            refusal = "task.token"
        elif actor not in (PUBLISHER, model.assignee):
            refusal = "task.actor"
        elif model.terms.bound and not proven:
            refusal = "task.proof"
        elif not after or wanted not in (None, after):
            refusal = "task.state"
        else:
            refusal = "task.result" if after == "completed" and model.terms.review is not None else None
        move = Transition(actor, wanted, model.publisher_token if publisher else None, token)
        if self.attempt(lambda: self._tasks.transition(model.id, move, UNSIGNED, None), refusal) and after:
            model.change(after, after, self.ms)

    @rule(model=MODELS, token=st.just(OWN) | tokens, result=st.sampled_from([b"null", b"1", b'{"a": 1}']))
    def complete(self, model: Model, token: str, result: bytes) -> None:
        model.pass_time(self.ms)
        refusal = model.claim_refusal(token := meant(model, token))
        if refusal == "task.state" and model.status in ("completed", "submitted"):
            other = "task.completed" if model.status == "completed" else "task.state"
            refusal = None if result == (model.result or b"null") else other
        completion = Completion(token, msgspec.Raw(result))
        answer = self.attempt(lambda: self._tasks.complete(model.id, completion, uncharged), refusal)
        if answer and model.status in AT_WORK:
            model.result = result
            if model.terms.review is None:
                model.change("completed", "completed", self.ms)
            else:
                model.submit(self.ms, model.terms.review)

    @rule(model=MODELS, token=st.just(OWN) | tokens, retryable=st.sampled_from([True, True, False]))
    def fail(self, model: Model, token: str, retryable: bool) -> None:
        model.pass_time(self.ms)
        token = meant(model, token)
        repeated = model.failed_attempt == model.attempt and model.status in ("offered", "failed")
        refusal = None if repeated and token == model.token else model.claim_refusal(token)
        failed = FailedAttempt("it.broke", retryable=retryable, claim_token=token)
        if self.attempt(lambda: self._tasks.fail(model.id, failed), refusal) and model.status in AT_WORK:
            model.failed_attempt = model.attempt
            model.end_attempt(self.ms, FailureReason(failed.code, failed.message, retryable))

    @rule(model=MODELS, proof=PROOFS, key=KEYS)
    def retry(self, model: Model, proof: str, key: str | None = None) -> None:
        model.pass_time(self.ms)
        refusal = model.publisher_refusal(proof, "failed", "offered")
        if refusal is None and model.status == "failed" and model.deadline is not None and model.deadline <= self.ms:
            refusal = "task.over"
        shown, wanted = Cancellation(proof_of(model, proof)), bound_key(f"retry:{model.id}", PUBLISHER, key, b"")
        if self.once(model, "retry", key, refusal, lambda: self._tasks.retry(model.id, shown, UNSIGNED, wanted)):
            if model.status == "offered":
                return
            model.change("offered", "retried", self.ms)
            model.failures = (model.terms.attempts or 1) - 1
            model.token = model.key = None

    @rule(model=MODELS, proof=PROOFS)
    def accept(self, model: Model, proof: str) -> None:
        model.pass_time(self.ms)
        again = model.status == "completed" and model.terms.review is not None
        refusal = model.publisher_refusal(proof, "completed" if again else "submitted")
        shown = Cancellation(proof_of(model, proof))
        if self.attempt(lambda: self._tasks.accept(model.id, shown, UNSIGNED), refusal) and not again:
            model.change("completed", "completed", self.ms)

    @rule(model=MODELS, proof=PROOFS, reason=st.sampled_from(["too short", "too long"]), key=KEYS)
    def reject(self, model: Model, proof: str, reason: str, key: str | None = None) -> None:
        model.pass_time(self.ms)
        again = model.status in ("in_progress", "expired") and model.rejection == reason
        refusal = model.publisher_refusal(proof, model.status if again else "submitted")
        rejection = Rejection(proof_of(model, proof), reason=reason)
        wanted = bound_key(f"reject:{model.id}", PUBLISHER, key, reason.encode())
        step = lambda: self._tasks.reject(model.id, rejection, UNSIGNED, wanted)  # noqa: E731
        if self.once(model, "reject", key, refusal, step, reason) and not again:
            model.rejection, model.result, model.submitted = reason, None, None
            if model.deadline is not None and model.deadline <= self.ms:
                model.change("expired", "expired", self.ms)
            else:
                model.change("in_progress", "rejected", self.ms)
                model.renew(self.ms)

    def once(
        self,
        model: Model,
        what: str,
        key: str | None,
        refusal: str | None,
        step: Callable[[], Awaitable[tuple[Task, bool]]],
        body: str = "",
    ) -> bool:
        """Take a step of the publisher, which is carried out once for each key. Returns whether it was carried out now.

        `refusal`: that of a step not yet carried out under this key.
        """
        before = None if key is None or refusal == "task.publisher" else model.remembered.get((what, key))
        if before is not None:
            refusal = None if before == body else "idempotency.conflict"
        answer = self.attempt(step, refusal)
        if answer is None:
            return False
        assert answer[1] == (before is not None)
        if key is not None:
            model.remembered[what, key] = body
        return before is None

    def reject_too_late(self, model: Model) -> None:
        """Reject at the moment at which the result is accepted by silence."""
        self.wait_for_the_moment(model, 0)
        self.reject(model, "token", "too late")

    @rule(model=MODELS, token=st.just(OWN) | tokens)
    def extend(self, model: Model, token: str) -> None:
        model.pass_time(self.ms)
        token = meant(model, token)
        if self.attempt(lambda: self._tasks.extend(model.id, Holding(token)), model.claim_refusal(token)):
            model.renew(self.ms)

    @rule(model=MODELS, token=st.just(OWN) | tokens)
    def release(self, model: Model, token: str) -> None:
        model.pass_time(self.ms)
        token = meant(model, token)
        refusal = model.claim_refusal(token, released=True)
        if self.attempt(lambda: self._tasks.release(model.id, Holding(token)), refusal) and model.status in AT_WORK:
            model.change("offered", "released", self.ms)

    @rule(model=MODELS, proof=PROOFS)
    def cancel(self, model: Model, proof: str) -> None:
        model.pass_time(self.ms)
        refusal = model.publisher_refusal(proof, "offered", "canceled", *AT_WORK)
        shown = Cancellation(proof_of(model, proof))
        if self.attempt(lambda: self._tasks.cancel(model.id, shown, UNSIGNED), refusal) and model.status != "canceled":
            model.change("canceled", "canceled", self.ms)

    @rule(seconds=st.sampled_from([1, 29, 30, 600]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @rule(model=MODELS, past=st.sampled_from([-1, 0, 1]))
    def wait_for_the_moment(self, model: Model, past: int) -> None:
        """Wait until a contract changes by itself, or one millisecond less or more."""
        times = (model.ends, model.opens, model.review_ends, model.deadline)
        coming = [time + past for time in times if time is not None and time + past > self.ms]
        if coming:
            self._clock.advance((min(coming) - self.ms) / 1000)

    @rule()
    def sweep(self) -> None:
        """Do what the worker does: end leases, and project the contracts with events."""
        seen = self.records()
        self.run_step(self._tasks.sweep())
        assert self.records() == seen  # readers had already seen the changes that are recorded now
        for model in self.all:
            model.pass_time(self.ms)
            self.run_step(self._tasks.project(model.id))
            assert self.planned(model) == model.next_change
        records = self.records()
        for status in STATUSES:
            page = self.run_step(self._tasks.page(TaskPageQuery(status, limit=50)))
            there = {task.id: _as_listed(task) for task in records if task.status == status}
            assert {task.id: task for task in page.tasks} == there
            assert page.total == len(page.tasks)

    def planned(self, model: Model) -> int | None:
        """Return when the sweep looks at a contract."""
        leases = keys.leases_of(model.id)
        at = cast("bytes | None", self.run_step(self.store.command("ZSCORE", leases, model.id)))
        return None if at is None else int(float(at))

    def records(self) -> list[Task]:
        """Return what readers see."""
        return [self.run_step(self._tasks.get(model.id)) for model in self.all]

    @rule(model=MODELS)
    def compact(self, model: Model) -> None:
        """Compact a contract as the worker does days after its end was recorded. Before that, it must do nothing."""
        written = self.run_step(self.store.command("HGET", keys.task(model.id), "status"))  # None if it was compacted
        seen = self.records()
        compacted = self.run_step(TaskStore(self.store, 3600).compact([model.id]))
        assert self.records() == seen
        assert compacted == (model.status in ENDED and written == model.status.encode())

    @invariant()
    def every_record_is_as_the_model_says(self) -> None:
        for model in self.all:
            task = self.run_step(self._tasks.get(model.id))
            model.pass_time(self.ms)  # readers see changes that no step has recorded yet
            assert (self.planned(model) or NEVER) <= (model.next_change or NEVER)  # a sweep comes in time
            model.check(task)


def meant(model: Model, token: str) -> str:
    """Return the token, or for OWN the one of the contract's assignee."""
    return (model.token or NO_TOKEN) if token == OWN else token


def proof_of(model: Model, proof: str) -> str | None:
    """Return the value shown as the publisher_token."""
    return {"token": model.publisher_token, "none": None, "wrong": model.id}[proof]


def _as_listed(task: Task) -> Task:
    """Return the record without what lists omit."""
    return msgspec.structs.replace(task, result_payload=msgspec.UNSET, attempts=msgspec.UNSET)


def _told(event: dict[str, str]) -> Told:
    what, status = event["type"].removeprefix("task."), cast("TaskStatus", event["status"])
    return Told(what, status, int(event["attempt"]), event["assignee_id"])


TestTasks = TaskMachine.TestCase
TestTasks.settings = tries(40, 20)
