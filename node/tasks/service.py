"""Work contracts: offered by a publisher, claimed by one worker, completed with a result (SPEC 3.1, 4.3).

What a contract allows at the moment of a step is decided by the scripts behind `store`; here it is judged what a
request says, and what its tokens show.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, cast

import msgspec
import orjson

from node.callbacks.policy import TargetPolicy
from node.common.canonical_json import canonical
from node.common.refusal import Invalid, Issue, Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.config import Settings
from node.sign.signed import Signed
from node.store import ids
from node.store.errors import StoreUnavailable
from node.store.idempotency import IdempotencyKey
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
    Transition,
)
from node.tasks.rights import Actor, Claim, ContractTokens
from node.tasks.store import TaskStore
from node.tasks.view import LISTED, StoredTask, task_of
from node.text.english import is_english
from node.text.lines import require_line, require_name, require_text, require_title
from node.text.readable import readable

ArtifactStatuses = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""For ids, of which some may be those of artifacts: the status of each artifact."""

WITHOUT_BYTES = ("rejected", "expired")
"""Statuses of artifacts whose bytes no worker could read."""

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
        self._tokens = ContractTokens(tokens)
        self._targets = targets
        self._artifact_statuses = artifact_statuses
        self._base = f"{settings.public_url}/api/v1/tasks/"

    async def create(
        self, new: NewTask, signed: Signed | None, idempotency: IdempotencyKey | None, client: str = ""
    ) -> tuple[OfferedTask, bool]:
        """Offer a contract; the second value says whether it is an earlier one, answered again.

        `client`: the one on whose behalf its callbacks are sent.

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
        replay_id = signed.replay_id if signed else ""
        task_id, row, replayed = await self._store.create(idempotency, replay_id, flat)
        if replayed and idempotency:
            idempotency.check_token(row.created_at, row.now)
        else:
            await self._list([(task_id, row)])
        task = self._task(task_id, row)
        token = self._tokens.publisher_token(task_id)
        return OfferedTask(**msgspec.structs.asdict(task), publisher_token=token), replayed

    async def get(self, task_id: str, query: TaskQuery | None = None) -> Task:
        """A contract, waiting for another status if asked to. Raises Refused `task.unknown`, StoreUnavailable."""
        query = query or TaskQuery()
        _require_id(task_id)
        row = await self._store.wait(task_id, query.wait, lambda row: not row.is_contract or row.status != query.status)
        if not row.is_contract:
            raise Refused("task.unknown")
        return self._task(task_id, row)

    async def page(self, query: TaskPageQuery) -> TaskPage:
        """Contracts of one status, newest first, without their results. Raises StoreUnavailable."""
        found, total = await self._store.page(query.status, query.limit, query.offset)
        shown = {task_id: row for task_id, row in found.items() if row.is_contract and row.status == query.status}
        # The others have changed since: the list is behind, and is put right where it is seen.
        await self._list((task_id, row) for task_id, row in found.items() if task_id not in shown)
        tasks = [self._task(task_id, row, whole=False) for task_id, row in shown.items()]
        return TaskPage(tasks, total - (len(found) - len(shown)), query.limit, query.offset)

    async def claim(
        self, task_id: str, new: NewClaim, signed: Signed | None, idempotency: IdempotencyKey | None
    ) -> tuple[ClaimedTask, bool]:
        """Claim a contract; the second value says whether the claim is an earlier one, answered again.

        Raises Invalid, Refused `task.unknown`, `task.claimed`, `task.state`, `idempotency.short`,
        `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        require_text("assignee_id", new.assignee_id)
        require_name("assignee_id", new.assignee_id)
        request = idempotency.scope if idempotency else secrets.token_hex(16)
        replay_id = signed.replay_id if signed else ""
        row, replayed = await self._store.claim(task_id, new.assignee_id, request, replay_id)
        if replayed and idempotency:
            idempotency.check_token(int(row.fields[b"claimed_at"]), row.now)
        task = await self._changed(task_id, row)
        token = self._tokens.claim_token(task_id, Claim(str(task.attempt), request))
        return ClaimedTask(**msgspec.structs.asdict(task), claim_token=token), replayed

    async def transition(
        self, task_id: str, move: Transition, signed: Signed | None, idempotency: IdempotencyKey | None
    ) -> tuple[Task, bool]:
        """Move a contract to its next status (SPEC 3.1); the second value says whether that was done before.

        Raises Invalid, Refused `task.unknown`, `task.actor`, `task.token`, `task.proof`, `task.state`,
        `idempotency.conflict`, `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        actor = Actor(
            name=_actor_name(move),
            has_publisher_token=await self._shows(task_id, move.publisher_token),
            claim=await self._claim_of(task_id, move.claim_token) if move.claim_token is not None else None,
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )
        row, replayed = await self._store.transition(task_id, actor, move.status or "", idempotency)
        return await self._changed(task_id, row), replayed

    async def complete(self, task_id: str, completion: Completion) -> CompletedTask:
        """Complete a contract with its result, which is kept as it is; the same JSON again gets the same answer.

        Raises Invalid, Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, StoreUnavailable.
        """
        _require_id(task_id)
        result = bytes(completion.result_payload)
        _require_json(result)
        claim = await self._claim_of(task_id, completion.claim_token)
        try:
            row = await self._store.complete(task_id, claim, result)
        except Refused as refused:
            # The script compares bytes. What is completed never changes, so it can be looked at afterwards.
            row = await self._store.read(task_id) if refused.code == "task.completed" else None
            if row is None or not row.is_contract or not _is_same(row.result, result):
                raise
        await self._list([(task_id, row)])
        claimed, completed = (int(row.fields[name]) for name in (b"claimed_at", b"completed_at"))
        return CompletedTask(True, task_id, "completed", completed - claimed, timestamp(completed))

    async def cancel(self, task_id: str, cancellation: Cancellation, signed: Signed | None) -> Task:
        """Call a contract off, for whoever proves to be its publisher.

        Raises Refused `task.unknown`, `task.proof`, `task.state`, `signature.replayed`, StoreUnavailable.
        """
        _require_id(task_id)
        actor = Actor(
            has_publisher_token=await self._shows(task_id, cancellation.publisher_token),
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )
        return await self._changed(task_id, await self._store.cancel(task_id, actor))

    async def extend(self, task_id: str, holding: Holding) -> Task:
        """Start the lease of a claim again.

        Raises Refused `task.unknown`, `task.token`, `task.state`, StoreUnavailable.
        """
        _require_id(task_id)
        claim = await self._claim_of(task_id, holding.claim_token)
        return self._task(task_id, await self._store.extend(task_id, claim))

    async def release(self, task_id: str, holding: Holding) -> Task:
        """Give a claim up. Raises Refused `task.unknown`, `task.token`, `task.state`, StoreUnavailable."""
        _require_id(task_id)
        claim = await self._claim_of(task_id, holding.claim_token)
        return await self._changed(task_id, await self._store.release(task_id, claim))

    async def project(self, *task_ids: str) -> None:
        """Put contracts into the lists their status asks for; the worker does so for every task event.

        What is no contract is taken off all lists. Raises StoreUnavailable.
        """
        rows = await self._store.read_all(task_ids, LISTED)
        await self._store.place([_place(task_id, row) for task_id, row in zip(task_ids, rows, strict=True)])

    async def sweep(self) -> int:
        """End the claims whose lease has ended, and say how many did; the worker does so all the time.

        Claims are judged by the clock wherever they are read or acted on: this only brings events, callbacks and
        lists up to date. Raises StoreUnavailable.
        """
        due = await self._store.due(SWEEP_LIMIT)
        statuses = await self._store.lapse(due)
        lapsed = [task_id for task_id, status in zip(due, statuses, strict=True) if status == "offered"]
        await self.project(*lapsed)
        return len(lapsed)

    async def _fields(self, new: NewTask, client: str) -> dict[str, str | bytes]:
        title, description = new.title, readable(new.description or "")
        require_text("publisher_id", new.publisher_id)
        require_name("publisher_id", new.publisher_id)
        require_text("title", title)
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

    async def _check_inputs(self, artifact_ids: Sequence[str]) -> None:
        statuses = await self._artifact_statuses(artifact_ids)
        issues = [
            Issue(("body", "input_artifact_ids", place), "no artifact has this id", "value_error", input=artifact_id)
            for place, artifact_id in enumerate(artifact_ids)
            if artifact_id not in statuses
        ]
        if issues:
            raise Invalid(issues)
        for place, artifact_id in enumerate(artifact_ids):
            if (status := statuses[artifact_id]) in WITHOUT_BYTES:
                raise Refused("artifact.unusable", loc=("body", "input_artifact_ids", place), status=status)

    async def _shows(self, task_id: str, publisher_token: str | None) -> bool:
        """Whether the publisher_token was shown. A wrong one is refused, not taken for none."""
        if publisher_token is None:
            return False
        if not self._tokens.is_publisher(task_id, publisher_token):
            await self._refuse(task_id, "task.proof")
        return True

    async def _claim_of(self, task_id: str, claim_token: str) -> Claim:
        claim = self._tokens.claim_of(task_id, claim_token)
        return claim or await self._refuse(task_id, "task.token")

    async def _refuse(self, task_id: str, code: str) -> NoReturn:
        """Refuse a wrong token with `code`, or with `task.unknown` if there is no such contract."""
        await self.get(task_id)
        raise Refused(code)

    async def _changed(self, task_id: str, row: StoredTask) -> Task:
        """The contract after a step, put into its list."""
        await self._list([(task_id, row)])
        return self._task(task_id, row)

    async def _list(self, rows: Iterable[tuple[str, StoredTask]]) -> None:
        """Put contracts into the lists of their status, if Redis can be told; else the worker will."""
        with suppress(StoreUnavailable):
            await self._store.place([_place(task_id, row) for task_id, row in rows])

    def _task(self, task_id: str, row: StoredTask, *, whole: bool = True) -> Task:
        return task_of(task_id, self._base + task_id, row, whole=whole)


def _place(task_id: str, row: StoredTask) -> tuple[str, str | None, int]:
    """Where a contract is listed; what is no contract is on no list."""
    return (task_id, row.status, row.created_at) if row.is_contract else (task_id, None, 0)


def _is_same(result: bytes, other: bytes) -> bool:
    """Whether two results are the same JSON, whatever their spaces and the order of their members."""
    return result == other or canonical(result, orjson.loads(result)) == canonical(other, orjson.loads(other))


def _actor_name(move: Transition) -> str:
    """Who says to act: actor_id, or the one role that is named instead."""
    named = [name for name in ("actor_id", "publisher_id", "assignee_id") if getattr(move, name) is not None]
    if move.actor_id is None and len(named) != 1:
        raise Invalid.field("body", "actor_id", msg="Field required", kind="missing")
    require_line(named[0], name := cast("str", getattr(move, named[0])))
    return name


def _require_id(task_id: str) -> None:
    if not ids.is_id(task_id):
        raise Refused("task.unknown")


def _require_json(result: bytes) -> None:
    """Raise Invalid for a number beyond all bounds or half a surrogate pair, which the decoder does not look at."""
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError as error:
        raise Invalid.field("body", "result_payload", msg=f"is not JSON: {error.msg}", kind="json_invalid") from None
