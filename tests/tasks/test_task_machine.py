"""Contracts against a model: whatever is done in whatever order, they are what the rules say (SPEC 3.1, DESIGN 8)."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, precondition, rule

from node.store.idempotency import bound_key
from node.tasks.model import (
    STATUSES,
    Cancellation,
    Completion,
    Holding,
    NewClaim,
    NewTask,
    Task,
    TaskPageQuery,
    TaskStatus,
    Transition,
)
from node.tasks.store import TaskStore
from tests.support.machine import StoreMachine
from tests.tasks.calls import tasks_on, told

PUBLISHER = "desk"
ACTORS = st.sampled_from([PUBLISHER, "ann", "bob"])
AGENTS = st.sampled_from(["ann", "bob"])
KEYS = st.sampled_from([None, "first-secret-key", "other-secret-key"])  # long enough to be answered at any time
OWN = "that of the present claim"
NO_TOKEN = "1.x.y"
CONTRACTS = 2  # at most: what may go wrong between two does, and each gets more steps
NEXT: dict[TaskStatus, TaskStatus] = {"claimed": "in_progress", "in_progress": "completed"}


class Model:
    """What a contract must be."""

    def __init__(self, task_id: str, publisher_token: str, lease: int | None, bound: bool) -> None:
        self.id = task_id
        self.publisher_token = publisher_token
        self.lease = lease
        self.bound = bound
        self.status: TaskStatus = "offered"
        self.assignee: str | None = None
        self.attempt = 0
        self.token: str | None = None
        """That of the last claim, unless it has lapsed."""
        self.key: tuple[str, str] | None = None
        self.ends: int | None = None
        self.result: bytes | None = None
        self.told = ["offered"]

    def change(self, status: TaskStatus, what: str) -> None:
        self.status = status
        self.told.append(what)
        if status == "offered":
            self.assignee = self.ends = None
        if status in ("completed", "canceled"):
            self.ends = None

    def lapse(self, now: int) -> None:
        if self.ends is not None and self.ends <= now:
            self.change("offered", "expired")
            self.token = self.key = None

    def meant(self, token: str) -> str:
        """The token, or the one that the contract's assignee has."""
        return (self.token or NO_TOKEN) if token == OWN else token

    def claim_refusal(self, token: str, *, released: bool = False) -> str | None:
        """The refusal of a step that takes the claim."""
        if token != self.token or (self.status == "offered" and not released):
            return "task.token"
        return "task.state" if self.status in ("completed", "canceled") else None


class TaskMachine(StoreMachine):
    """Contracts on a store in memory whose clock only moves when told to."""

    models: Bundle[Model] = Bundle("models")
    tokens: Bundle[str] = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Model] = []
        self._compacted: list[Model] = []
        self._tasks = tasks_on(self.store)

    def teardown(self) -> None:
        with self.stack:
            self.sweep()  # a step that is refused by its token alone does not notice that a lease has ended
            for model in self._all:
                events: Any = self.run_step(told(self.store, model.id))
                assert [event["type"] for event in events] == [f"task.{what}" for what in model.told]

    @initialize(target=models, lease=st.sampled_from([None, 30, 600]), bound=st.booleans())
    def begin(self, lease: int | None, bound: bool) -> Model:
        return self.offer(lease, bound)

    @precondition(lambda self: len(self._all) < CONTRACTS)
    @rule(target=models, lease=st.sampled_from([None, 30, 600]), bound=st.booleans())
    def offer_another(self, lease: int | None, bound: bool) -> Model:
        return self.offer(lease, bound)

    def offer(self, lease: int | None, bound: bool) -> Model:
        """A new contract and its model."""
        new = NewTask(PUBLISHER, "Count the panels", lease_seconds=lease, require_proof=bound)
        task, _ = self.run_step(self._tasks.create(new, None, None))
        self._all.append(model := Model(task.id, task.publisher_token, lease, bound))
        return model

    @rule(target=tokens, model=models, agent=AGENTS, key=KEYS)
    def claim(self, model: Model, agent: str, key: str | None) -> str:
        model.lapse(self.now)
        standing = model.status in ("claimed", "in_progress")
        again = standing and key is not None and model.key == (agent, key)
        refusal = None if model.status == "offered" or again else "task.claimed" if standing else "task.state"
        wanted = bound_key("claim", agent, key, b"")
        answer = self.attempt(lambda: self._tasks.claim(model.id, NewClaim(agent), None, wanted), refusal)
        if answer is None:
            return NO_TOKEN
        claim, replayed = answer
        assert replayed == again
        if again:
            assert claim.claim_token == model.token
        else:
            model.change("claimed", "claimed")
            model.assignee, model.token, model.key = agent, claim.claim_token, (agent, key) if key else None
            model.attempt += 1
            model.ends = None if model.lease is None else self.now + model.lease
        return claim.claim_token

    @rule(
        model=models,
        actor=ACTORS,
        publisher=st.booleans(),
        token=st.none() | st.just(OWN) | tokens,
        wanted=st.none() | st.sampled_from(STATUSES),
    )
    def transition(
        self, model: Model, actor: str, publisher: bool, token: str | None, wanted: TaskStatus | None
    ) -> None:
        model.lapse(self.now)
        token = None if token is None else model.meant(token)
        shown = token is not None and token == model.token
        proven = (actor == PUBLISHER and publisher) or (actor == model.assignee and shown)
        after = NEXT.get(model.status)
        if token is not None and not shown:
            refusal = "task.token"
        elif actor not in (PUBLISHER, model.assignee):
            refusal = "task.actor"
        elif model.bound and not proven:
            refusal = "task.proof"
        else:
            refusal = None if after and wanted in (None, after) else "task.state"
        move = Transition(actor, wanted, model.publisher_token if publisher else None, token)
        if self.attempt(lambda: self._tasks.transition(model.id, move, None, None), refusal) and after:
            model.change(after, after)

    @rule(model=models, token=st.just(OWN) | tokens, result=st.sampled_from([b"null", b"1", b'{"a": 1}']))
    def complete(self, model: Model, token: str, result: bytes) -> None:
        model.lapse(self.now)
        token = model.meant(token)
        refusal = model.claim_refusal(token)
        if refusal == "task.state" and model.status == "completed":
            refusal = None if result == (model.result or b"null") else "task.completed"
        answer = self.attempt(lambda: self._tasks.complete(model.id, Completion(token, msgspec.Raw(result))), refusal)
        if answer and model.status != "completed":
            model.change("completed", "completed")
            model.result = result

    @rule(model=models, token=st.just(OWN) | tokens)
    def extend(self, model: Model, token: str) -> None:
        model.lapse(self.now)
        token = model.meant(token)
        if self.attempt(lambda: self._tasks.extend(model.id, Holding(token)), model.claim_refusal(token)):
            model.ends = None if model.lease is None else self.now + model.lease

    @rule(model=models, token=st.just(OWN) | tokens)
    def release(self, model: Model, token: str) -> None:
        model.lapse(self.now)
        token = model.meant(token)
        refusal = model.claim_refusal(token, released=True)
        if self.attempt(lambda: self._tasks.release(model.id, Holding(token)), refusal) and model.status != "offered":
            model.change("offered", "released")

    @rule(model=models, proof=st.sampled_from(["token", "none", "wrong"]))
    def cancel(self, model: Model, proof: str) -> None:
        model.lapse(self.now)
        shown = {"token": model.publisher_token, "none": None, "wrong": model.id}[proof]
        refusal = "task.proof" if proof != "token" else "task.state" if model.status == "completed" else None
        answer = self.attempt(lambda: self._tasks.cancel(model.id, Cancellation(shown), None), refusal)
        if answer and model.status != "canceled":
            model.change("canceled", "canceled")

    @rule(seconds=st.sampled_from([1, 29, 30, 600]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @rule()
    def sweep(self) -> None:
        """What the worker does: end the leases, and project what was told of."""
        self.run_step(self._tasks.sweep())
        for model in self._all:
            model.lapse(self.now)
            self.run_step(self._tasks.project(model.id))
        for status in STATUSES:
            page = self.run_step(self._tasks.page(TaskPageQuery(status, limit=50)))
            assert {task.id for task in page.tasks} == {model.id for model in self._all if model.status == status}
            assert page.total == len(page.tasks)

    @rule(model=models)
    def compact(self, model: Model) -> None:
        """What the worker does days after a contract is over; at any other time it must do nothing."""
        over = model.status in ("completed", "canceled")
        compacted = self.run_step(TaskStore(self.store, 3600).compact([model.id]))
        assert compacted == (over and model not in self._compacted)
        if over:
            self._compacted.append(model)

    @invariant()
    def every_record_is_as_the_model_says(self) -> None:
        for model in self._all:
            task = self.run_step(self._tasks.get(model.id))
            void = model.ends is not None and model.ends <= self.now
            assert (task.status, task.assignee_id) == (("offered", None) if void else (model.status, model.assignee))
            assert task.attempt == model.attempt
            assert (task.lease_expires_at is None) == (model.ends is None or void)
            assert _result(task) == (model.result or b"null" if task.status == "completed" else None)


def _result(task: Task) -> bytes | None:
    return None if task.result_payload is msgspec.UNSET else bytes(task.result_payload)


TestTasks = TaskMachine.TestCase
TestTasks.settings = settings(max_examples=40, stateful_step_count=30)
