"""Work contracts: offered by a publisher, claimed by one worker, completed with a result (SPEC 3.1, 4.3)."""

import secrets
from asyncio import gather
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, cast

import msgspec
import orjson

from node.callbacks.policy import TargetPolicy
from node.common.refusal import Invalid, Issue, Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.config import Settings
from node.sign.signed import Signed
from node.store import StoreUnavailable, ids, keys
from node.store.idempotency import IdempotencyKey
from node.store.long_poll import wait_for_change
from node.tasks.model import (
    Cancellation,
    ClaimedTask,
    CompletedTask,
    Completion,
    Holding,
    NewClaim,
    NewTask,
    OfferedTask,
    Task,
    TaskPage,
    TaskPageQuery,
    TaskQuery,
    TaskStatus,
    Transition,
)
from node.tasks.rights import Claim, ContractTokens
from node.tasks.steps import Actor, StepResult
from node.tasks.store import TaskStore
from node.tasks.view import LISTED, StoredTask, task_of
from node.text.english import is_english
from node.text.lines import require_line, require_name, require_title
from node.text.readable import readable

ArtifactStatuses = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""The status of each of these that is the id of an artifact."""

WITHOUT_BYTES = ("rejected", "expired")
"""Statuses of artifacts that no worker could read."""

SWEEP_LIMIT = 100
"""Leases that one sweep ends in a partition; the next sweep takes the rest."""


class Tasks:
    """The service behind /api/v1/tasks."""

    def __init__(
        self,
        store: TaskStore,
        settings: Settings,
        tokens: Tokens,
        targets: TargetPolicy,
        artifact_statuses: ArtifactStatuses,
    ) -> None:
        self._store = store
        self._rights = ContractTokens(tokens)
        self._targets = targets
        self._artifact_statuses = artifact_statuses
        self._base = f"{settings.public_url}/api/v1/tasks/"

    async def create(
        self, new: NewTask, signed: Signed | None, idempotency: IdempotencyKey | None, client: str = ""
    ) -> tuple[OfferedTask, bool]:
        """Offer a contract; the second value says whether it is an earlier one, answered again.

        `client`: whose its callbacks are.

        Raises Invalid, Refused `language.not_english`, `artifact.unusable`, `idempotency.conflict`,
        `idempotency.short`, `signature.replayed`, StoreUnavailable.
        """
        fields = await self._fields(new, client)
        if new.input_artifact_ids:
            await self._check_inputs(new.input_artifact_ids)
        if signed:
            fields |= {"signer": signed.signer, "signature": signed.signature}
        if signed or new.require_proof:
            fields["bound"] = "1"
        flat = [part for pair in fields.items() for part in pair]
        outcome = await self._store.create(idempotency, signed.replay_id if signed else "", flat)
        if outcome.kind == "replayed" and idempotency:
            task = await self._offered_before(outcome.id, idempotency)
        else:
            task = await self._changed(outcome)
        token = self._rights.publisher_token(task.id)
        return OfferedTask(**msgspec.structs.asdict(task), publisher_token=token), outcome.kind == "replayed"

    async def get(self, task_id: str, query: TaskQuery | None = None) -> Task:
        """A contract, waiting for another status if asked to. Raises Refused `task.unknown`, StoreUnavailable."""
        query = query or TaskQuery()
        _require_id(task_id)
        row = await wait_for_change(
            self._store.wakeups,
            keys.task(task_id),
            query.wait,
            lambda: self._store.read(task_id),
            lambda row: not row.is_contract or row.status != query.status,
        )
        if not row.is_contract:
            raise Refused("task.unknown")
        return self._task(task_id, row)

    async def page(self, query: TaskPageQuery) -> TaskPage:
        """Contracts of one status, newest first, without their results. Raises StoreUnavailable."""
        found, total = await self._store.list(query.status, query.limit, query.offset)
        tasks: list[Task] = []
        for task_id, row in found:
            if row.is_contract and row.status == query.status:
                tasks.append(task_of(task_id, self._base + task_id, row, whole=False))
            else:  # changed since: the list is behind, and is put right where it is seen
                total -= 1
                await self._place(task_id, row)
        return TaskPage(tasks, total, query.limit, query.offset)

    async def claim(
        self, task_id: str, new: NewClaim, signed: Signed | None, idempotency: IdempotencyKey | None
    ) -> tuple[ClaimedTask, bool]:
        """Claim a contract; the second value says whether the claim is an earlier one, answered again.

        Raises Invalid, Refused `task.unknown`, `task.claimed`, `task.state`, `idempotency.short`,
        `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        _require_words("assignee_id", new.assignee_id)
        require_name("assignee_id", new.assignee_id)
        request = idempotency.scope if idempotency else secrets.token_hex(16)
        replay_id = signed.replay_id if signed else ""
        outcome = await self._store.claim(task_id, new.assignee_id, request, replay_id)
        if outcome.kind == "replayed" and idempotency:
            idempotency.check_token(int(outcome.row.fields[b"claimed_at"]), outcome.row.now)
        task = await self._changed(outcome)
        token = self._rights.claim_token(task_id, str(task.attempt), request)
        return ClaimedTask(**msgspec.structs.asdict(task), claim_token=token), outcome.kind == "replayed"

    async def transition(
        self, task_id: str, move: Transition, signed: Signed | None, idempotency: IdempotencyKey | None
    ) -> tuple[Task, bool]:
        """Move a contract to its next status (SPEC 3.1); the second value says whether that was done before.

        Raises Invalid, Refused `task.unknown`, `task.actor`, `task.token`, `task.proof`, `task.state`,
        `idempotency.conflict`, `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        acting = Actor(
            actor=_actor(move),
            has_publisher_token=await self._shows(task_id, move.publisher_token),
            grip=await self._grip(task_id, move.claim_token) if move.claim_token is not None else None,
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )
        outcome = await self._store.transition(task_id, acting, move.status or "", idempotency)
        return await self._changed(outcome), outcome.kind == "replayed"

    async def complete(self, task_id: str, completion: Completion) -> CompletedTask:
        """Complete a contract with its result, which is kept as it is.

        Raises Invalid, Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, StoreUnavailable.
        """
        _require_id(task_id)
        result = bytes(completion.result_payload)
        _require_json(result)
        grip = await self._grip(task_id, completion.claim_token)
        outcome = _done(await self._store.complete(task_id, grip, result))
        await self._place(task_id, outcome.row, "completed")
        claimed, completed = (int(outcome.row.fields[name]) for name in (b"claimed_at", b"completed_at"))
        return CompletedTask(True, task_id, "completed", completed - claimed, timestamp(completed))

    async def cancel(self, task_id: str, cancellation: Cancellation, signed: Signed | None) -> Task:
        """Call a contract off, for whoever proves to be its publisher.

        Raises Refused `task.unknown`, `task.proof`, `task.state`, `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        acting = Actor(
            has_publisher_token=await self._shows(task_id, cancellation.publisher_token),
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )
        return await self._changed(await self._store.cancel(task_id, acting))

    async def extend(self, task_id: str, holding: Holding) -> Task:
        """Start the lease of a claim again.

        Raises Refused `task.unknown`, `task.token`, `task.state`, StoreUnavailable.
        """
        _require_id(task_id)
        grip = await self._grip(task_id, holding.claim_token)
        return self._task(task_id, _done(await self._store.extend(task_id, grip)).row)

    async def release(self, task_id: str, holding: Holding) -> Task:
        """Give a claim up. Raises Refused `task.unknown`, `task.token`, `task.state`, StoreUnavailable."""
        _require_id(task_id)
        grip = await self._grip(task_id, holding.claim_token)
        return await self._changed(await self._store.release(task_id, grip))

    async def project(self, *task_ids: str) -> None:
        """Put contracts into the lists their status asks for; the worker does so for every task event.

        What is no contract is taken off all lists. Raises StoreUnavailable.
        """
        rows = await self._store.read_all(task_ids, LISTED)
        await self._store.place_all(
            [
                (task_id, row.status, row.created_at) if row.is_contract else (task_id, None, 0)
                for task_id, row in zip(task_ids, rows, strict=True)
            ]
        )

    async def sweep(self) -> int:
        """End the claims whose lease has ended, and say how many did; the worker does so all the time.

        Claims are judged by the clock wherever they are met: this only brings events, callbacks and
        lists up to date. Raises StoreUnavailable.
        """
        ids = await self._store.due(SWEEP_LIMIT)
        statuses = await gather(*(self._store.lapse(task_id) for task_id in ids))
        lapsed = [task_id for task_id, status in zip(ids, statuses, strict=True) if status == "offered"]
        await self.project(*lapsed)
        return len(lapsed)

    async def compact(self, task_id: str) -> bool:
        """Keep a contract that is over in less memory; whether that was done now. Raises StoreUnavailable."""
        return await self._store.compact(task_id)

    async def _fields(self, new: NewTask, client: str) -> dict[str, str | bytes]:
        title, description = new.title, readable(new.description or "")
        _require_words("publisher_id", new.publisher_id)
        require_name("publisher_id", new.publisher_id)
        _require_words("title", title)
        require_title("title", title)
        if not is_english(title) or not is_english(description):
            raise Refused("language.not_english")
        fields: dict[str, str | bytes] = {"publisher_id": new.publisher_id, "title": title}
        if description:
            fields["description"] = description
        if new.callback_url is not None:
            fields |= await self._targets.accept(new.callback_url, client)
        if new.input_artifact_ids:
            fields["input_artifact_ids"] = msgspec.json.encode(new.input_artifact_ids)
        if new.lease_seconds is not None:
            fields["lease_ms"] = str(new.lease_seconds * 1000)
        return fields

    async def _offered_before(self, task_id: str, idempotency: IdempotencyKey) -> Task:
        row = await self._store.read(task_id)
        if not row.is_contract:
            raise Refused("task.unknown")
        idempotency.check_token(row.created_at, row.now)
        return self._task(task_id, row)

    async def _check_inputs(self, ids: Sequence[str]) -> None:
        statuses = await self._artifact_statuses(ids)
        issues = [
            Issue(("body", "input_artifact_ids", place), "no artifact has this id", "value_error", input=artifact_id)
            for place, artifact_id in enumerate(ids)
            if artifact_id not in statuses
        ]
        if issues:
            raise Invalid(issues)
        for place, artifact_id in enumerate(ids):
            if (status := statuses[artifact_id]) in WITHOUT_BYTES:
                raise Refused("artifact.unusable", loc=("body", "input_artifact_ids", place), status=status)

    async def _shows(self, task_id: str, publisher_token: str | None) -> bool:
        """Whether the publisher_token was shown; a wrong one is never taken for none."""
        if publisher_token is None:
            return False
        if not self._rights.is_publisher(task_id, publisher_token):
            await self._refuse(task_id, "task.proof")
        return True

    async def _grip(self, task_id: str, claim_token: str) -> Claim:
        grip = self._rights.grip_of(task_id, claim_token)
        return grip or await self._refuse(task_id, "task.token")

    async def _refuse(self, task_id: str, code: str) -> NoReturn:
        """Refuse a forged token; of an unknown contract that it is unknown."""
        await self.get(task_id)
        raise Refused(code)

    async def _changed(self, outcome: StepResult) -> Task:
        """The contract after a step, put into its list. Raises Refused."""
        done = _done(outcome)
        await self._place(done.id, done.row)
        return self._task(done.id, done.row)

    async def _place(self, task_id: str, row: StoredTask, status: TaskStatus | None = None) -> None:
        # What was done is done, whether or not the lists can be told now: the worker will.
        with suppress(StoreUnavailable):
            if row.is_contract or status:
                await self._store.place(task_id, status or row.status, row.created_at)
            else:
                await self._store.place(task_id, None)

    def _task(self, task_id: str, row: StoredTask) -> Task:
        return task_of(task_id, self._base + task_id, row)


def _done(outcome: StepResult) -> StepResult:
    if outcome.kind == "refused":
        raise Refused(outcome.refusal, status=outcome.status)
    return outcome


def _actor(move: Transition) -> str:
    """Who says to act: actor_id, or the one role that is named instead."""
    named = [name for name in ("actor_id", "publisher_id", "assignee_id") if getattr(move, name) is not None]
    if move.actor_id is None and len(named) != 1:
        raise Invalid.field("body", "actor_id", msg="Field required", kind="missing")
    require_line(named[0], actor := cast("str", getattr(move, named[0])))
    return actor


def _require_id(task_id: str) -> None:
    if not ids.is_id(task_id):
        raise Refused("task.unknown")


def _require_words(name: str, value: str) -> None:
    if not value.strip():
        raise Invalid.field("body", name, msg="must hold more than white space")


def _require_json(result: bytes) -> None:
    """Raise Invalid for a result that the decoder passed over: a number beyond all bounds, half a character."""
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError as error:
        raise Invalid.field("body", "result_payload", msg=f"is not JSON: {error.msg}", kind="json_invalid") from None
