"""Work contracts in Redis: a hash for each, in the partition of its id, and a list for each status.

Some time after a contract is over, its hash is replaced by one compressed string (`compaction`). Callers that read
contracts (`reader`) or act on them see no difference. The lists span all partitions, so they are projections: they are
updated right after a contract changes, and corrected by the worker and by any reader that finds them stale.
"""

from asyncio import gather, to_thread
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from time import monotonic
from typing import cast

from node.common.own_terms import OwnTerms
from node.common.refusal import Refused
from node.common.unreadable import show_each
from node.store import RedisReply, Store, ids, keys
from node.store.batcher import Batcher
from node.store.decoding import code_of, fields_of, flat_of
from node.store.due import find_due
from node.store.idempotency import IdempotencyKey, Once
from node.store.lists import put_until_current
from node.store.replay import FirstUse, partition_for_new
from node.store.search_keys import TASK_KEYS
from node.store.steps import Step
from node.store.unreadable import read_each
from node.tasks import steps
from node.tasks.compaction import pack
from node.tasks.lapse import JUDGED
from node.tasks.model import OVER, TaskStatus
from node.tasks.offers.feed import announcement_of
from node.tasks.proofs import Actor
from node.tasks.reader import TaskReader
from node.tasks.steps import Claim, ContractKeys
from node.tasks.view import OFFERED, StoredTask, known

COPIED = (
    b"kind",
    b"status",
    b"attempt",
    b"claim",
    b"publisher_id",
    b"assignee_id",
    b"bound",
    b"signer",
    b"review_ms",
    b"rejection",
)
"""Fields that the scripts need to judge a contract that is over."""

LATE_SECONDS = 0.05
"""Longest time from a contract's step to its listing, in seconds; usually it takes a few milliseconds. A contract that
is listed later is read again first, since another process may have changed it."""

AGAIN_MS = 60_000
"""Milliseconds until a contract is due again after `task_lapse` has failed on it."""

NOT_LAPSED = "contract not changed when its time came, its record is damaged"
"""Log message, with the exception, when `task_lapse` has failed on a contract."""

COMPACTED_AT_ONCE = 8
"""Contracts that are read together to be compacted. They are few, since each may have a result of a megabyte."""

COPY_MS = 10_000
"""TTL of a copy of the COPIED fields, in milliseconds: longer than any call to Redis takes."""


class TaskStore(TaskReader):
    """Creates, changes and lists contracts, and reads them. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        super().__init__(store)
        self._idempotency_ms = idempotency_ttl * 1000
        self._changed = Batcher(store, _after_steps)

    async def create(
        self,
        idempotency: IdempotencyKey | None,
        replay_id: str,
        fields: Mapping[str, str | bytes],
        deadline: int | None,
        client: str,
        own: OwnTerms,
    ) -> tuple[str, StoredTask, bool]:
        """Offer a contract until its `deadline` (ms). Returns its id, the contract, and whether it was offered before.

        `own`: the terms of its text, kept with it. If the contract was offered before, only the fields of the offer are
        read. Raises Refused `idempotency.conflict`, `signature.replayed` for a `replay_id` that was used before,
        `task.deadline` for a deadline that has passed, `task.unknown` if the contract offered before was removed.
        """
        wanted, replay_id = await partition_for_new(self._store, idempotency, replay_id)
        task_id = ids.new_id(wanted)
        asked_at = monotonic()
        reply = await self._store.run(
            steps.task_create(
                contract=ContractKeys.of(task_id),
                once=self._once(idempotency, task_id),
                first_use=_first_use(replay_id, task_id),
                deadline="" if deadline is None else deadline,
                client=client,
                doc=TASK_KEYS.doc(task_id),
                own=own,
                fields=flat_of(fields),
            )
        )
        match reply:
            case [b"replayed", bytes(original)]:
                return original.decode(), await self._offered(original.decode()), True
            case _:
                return task_id, *steps.row_of(reply, asked_at)

    async def offered_before(self, idempotency: IdempotencyKey) -> tuple[str, StoredTask] | None:
        """Return the id of the contract that the same request has offered, and the contract as it was then, or None.

        Raises Refused `task.unknown` if that contract was removed.
        """
        record = await self._store.command("GET", keys.idempotency(idempotency.partition, idempotency.scope))
        digest, _, original = cast("bytes", record or b"").decode().partition(" ")
        return (original, await self._offered(original)) if digest == idempotency.digest else None

    async def _offered(self, task_id: str) -> StoredTask:
        """Return a contract as it was when it was offered. Raises Refused `task.unknown`."""
        return known(await self.read(task_id, [*JUDGED, *OFFERED])).as_offered

    # The worker's steps.

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        """Claim a contract. Returns it, and whether the same `request` had claimed it before.

        Raises Refused `task.unknown`, `task.claimed`, `task.paused`, `task.state`, `signature.replayed`.
        """
        step = partial(steps.task_claim, first_use=_first_use(replay_id, task_id), assignee=assignee, request=request)
        return await self._run(step, task_id)

    async def extend(self, task_id: str, claim: Claim) -> StoredTask:
        """Renew the lease of a claim. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        return await self._as_holder(steps.task_extend, task_id, claim)

    async def release(self, task_id: str, claim: Claim) -> StoredTask:
        """Release a claim. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        return await self._as_holder(steps.task_release, task_id, claim)

    async def complete(self, task_id: str, claim: Claim, result: bytes, *, is_checked: bool = False) -> StoredTask:
        """Complete a contract, or submit its result. The same bytes again change nothing.

        Raises Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, StoreUnavailable, and
        UncheckedResult for a result that must fit a schema, unless it `is_checked`.
        """
        step = partial(steps.task_complete, result=result, checked=int(is_checked))
        return await self._as_holder(step, task_id, claim)

    async def fail(self, task_id: str, claim: Claim, reason: bytes, *, retryable: bool) -> StoredTask:
        """End an attempt without a result. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        step = partial(steps.task_fail, reason=reason, retryable=int(retryable))
        return await self._as_holder(step, task_id, claim)

    # A step of either side (SPEC 3.1).

    async def transition(
        self, task_id: str, actor: Actor, target: str, idempotency: IdempotencyKey | None
    ) -> tuple[StoredTask, bool]:
        """Move a contract to its next status. Returns it, and whether the same request had moved it before.

        `target`: the status wanted, which must be the next one; may be empty.

        Raises Refused `task.unknown`, `task.actor`, `task.token`, `task.proof`, `task.state`, `task.result`,
        `idempotency.conflict`, `signature.replayed`.
        """
        step = partial(
            steps.task_transition,
            once=self._once(idempotency, task_id),
            actor=actor.name,
            target=target,
            claim=actor.claim,
        )
        return await self._as_actor(step, task_id, actor)

    # The publisher's steps.

    async def review(
        self, task_id: str, actor: Actor, reason: str, idempotency: IdempotencyKey | None
    ) -> tuple[StoredTask, bool]:
        """Accept a submitted result, or reject it if there is a `reason`.

        Returns the contract, and whether the same request had done so before.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `idempotency.conflict`, `signature.replayed`.
        """
        step = partial(steps.task_review, once=self._once(idempotency, task_id), reason=reason)
        return await self._as_actor(step, task_id, actor)

    async def retry(self, task_id: str, actor: Actor, idempotency: IdempotencyKey | None) -> tuple[StoredTask, bool]:
        """Give a contract that failed one more attempt. Returns it, and whether the same request had done so before.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `task.over`, `idempotency.conflict`,
        `signature.replayed`.
        """
        step = partial(steps.task_retry, once=self._once(idempotency, task_id))
        return await self._as_actor(step, task_id, actor)

    async def cancel(self, task_id: str, actor: Actor) -> StoredTask:
        """Cancel a contract. Raises Refused `task.unknown`, `task.publisher`, `task.state`, `signature.replayed`."""
        row, _ = await self._as_actor(steps.task_cancel, task_id, actor)
        return row

    # Changes by time alone, and removal.

    async def due(self, limit: int) -> list[str]:
        """Return contracts that time alone has changed, up to `limit` from each partition that can be read.

        Raises StoreUnavailable if no server can be reached.
        """
        return await find_due(self._store, [keys.leases(each) for each in range(ids.PARTITIONS)], limit)

    async def lapse(self, task_ids: Sequence[str]) -> dict[str, str]:
        """Record what time alone has changed about contracts. Returns the status of each afterwards, by id.

        The status is empty if the id is not a contract. Contracts whose records are damaged are left out, and are not
        due again for AGAIN_MS.
        """
        return await read_each(task_ids, self._lapse, NOT_LAPSED)

    async def _lapse(self, task_ids: Sequence[str]) -> list[str]:
        lapsing = (steps.task_lapse(contract=ContractKeys.of(each), again=AGAIN_MS) for each in task_ids)
        return [code_of(reply) for reply in await self._store.run_all(lapsing)]

    async def ended_hot(self, task_ids: Sequence[str]) -> list[int | None]:
        """Return when each contract ended (ms); None for one that is not over, or is already compacted."""
        found = await self._store.run_all(
            ("HMGET", keys.task(each), *(f"{status}_at" for status in OVER)) for each in task_ids
        )
        return [next((int(at) for at in times if at), None) for times in cast("list[list[bytes | None]]", found)]

    async def compact(self, task_ids: Sequence[str]) -> int:
        """Replace each contract that is over by a compressed string. Returns how many were replaced."""
        compacted = 0
        for start in range(0, len(task_ids), COMPACTED_AT_ONCE):
            compacted += await self._compact(task_ids[start : start + COMPACTED_AT_ONCE])
        return compacted

    async def _compact(self, task_ids: Sequence[str]) -> int:
        hashes = await self._store.run_all(("HGETALL", keys.task(each)) for each in task_ids)
        read = [(task_id, fields_of(fields)) for task_id, fields in zip(task_ids, hashes, strict=True)]
        # The step detects a change by the number of fields only. A contract that ends after it was read may have the
        # same number, so only contracts that were already over are compacted.
        rows = {task_id: fields for task_id, fields in read if StoredTask(0, fields).is_over}
        # In a thread, since deflating a result of a megabyte takes up to a tenth of a second.
        packed = await to_thread(lambda: [pack(fields) for fields in rows.values()])
        compacting = (
            steps.task_compact(
                task=keys.task(task_id), packed=keys.packed(task_id), fields=len(fields), content=content
            )
            for (task_id, fields), content in zip(rows.items(), packed, strict=True)
        )
        return [code_of(reply) for reply in await self._store.run_all(compacting)].count("compacted")

    async def forget(self, contracts: Mapping[str, str]) -> list[str]:
        """Remove contracts. Returns the ids of those removed.

        `contracts` gives the `stage` of each id. A contract is removed only if it is still at that stage and nobody is
        at work on it; if the stage is empty, it is removed in any case.
        """
        removing = (
            steps.task_forget(contract=ContractKeys.of(each), packed=keys.packed(each), judged=stage)
            for each, stage in contracts.items()
        )
        replies = await self._store.run_all(removing)
        return [task_id for task_id, reply in zip(contracts, replies, strict=True) if code_of(reply) == "forgotten"]

    # The lists.

    async def project(self, rows: Mapping[str, StoredTask]) -> None:
        """List contracts under their status only, announce those on offer, and unlist ids that are not contracts.

        Idempotent. Contracts that were read more than LATE_SECONDS ago are read again: another process may have changed
        and listed them meanwhile.
        """
        if any(monotonic() - row.asked_at > LATE_SECONDS for row in rows.values()):
            rows = await self.read_for_lists(list(rows))
        await put_until_current(rows, self._put, self.read_for_lists, lambda row: row.fields.get(b"status"))

    async def _put(self, rows: Mapping[str, StoredTask]) -> None:
        commands, announcements = _changes_of_lists(rows)
        await gather(self._store.run_all(commands), self._store.run_all(announcements))

    async def project_soon(self, task_id: str, row: StoredTask) -> None:
        """Project a contract right after its step, together with those of other requests, without waiting for Redis.

        If the step was more than LATE_SECONDS ago, `project` is called instead. If Redis is out of reach, the worker
        does the same later.
        """
        if monotonic() - row.asked_at > LATE_SECONDS:
            await self.project({task_id: row})
        else:
            self._changed.add((task_id, row))

    def _once(self, idempotency: IdempotencyKey | None, task_id: str) -> Once:
        return Once.of(idempotency, ids.partition_of_id(task_id), keys.task(task_id), self._idempotency_ms)

    async def _as_actor(self, step: Callable[..., Step], task_id: str, actor: Actor) -> tuple[StoredTask, bool]:
        first_use, proven = _first_use(actor.signed.replay_id, task_id), int(actor.has_publisher_token)
        return await self._run(partial(step, first_use=first_use, proven=proven, signer=actor.signed.signer), task_id)

    async def _as_holder(self, step: Callable[..., Step], task_id: str, claim: Claim) -> StoredTask:
        row, _ = await self._run(partial(step, claim=claim), task_id)
        return row

    async def _run(self, step: Callable[..., Step], task_id: str) -> tuple[StoredTask, bool]:
        """Run a step on a contract. Returns the contract afterwards, and whether the step was done before.

        A compacted contract has no hash, so the step is run on a temporary copy of the fields that it judges by. That
        is enough, since no step changes a contract that is over. Raises Refused, UncheckedResult.
        """
        asked_at = monotonic()
        reply = cast("list[RedisReply]", await self._store.run(step(contract=ContractKeys.of(task_id))))
        if reply[1] != b"task.unknown":
            return steps.row_of(reply, asked_at)
        judged = (await self.compacted([task_id], COPIED)).get(task_id)
        if judged is None:
            return steps.row_of(reply)
        # The result may be large, so the copy has an empty one, which differs from any that a request can bring.
        copied = [*flat_of(judged), b"result_payload", b""]
        copy = keys.unpacked(task_id)
        await self._store.run(steps.task_unpack(copy=copy, ttl=COPY_MS, fields=copied))
        _, replayed = steps.row_of(await self._store.run(step(contract=ContractKeys.of(task_id, copy))))
        fields = (await self.compacted([task_id])).get(task_id)
        if fields is None:
            raise Refused("task.unknown")
        return StoredTask(0, fields), replayed


def _after_steps(changed: Sequence[tuple[str, StoredTask]]) -> Iterator[Step | list[str | int]]:
    """Return the commands and steps that list contracts just changed by steps, and announce offers."""
    commands, announcements = _changes_of_lists(dict(changed), after_step=True)
    return chain(commands, announcements)


def _changes_of_lists(
    rows: Mapping[str, StoredTask], *, after_step: bool = False
) -> tuple[list[list[str | int]], list[Step]]:
    """Return the commands that list contracts under their status only, and the steps that announce offers.

    A contract that cannot be read stays where it is. `after_step`: a step has just changed each contract, so none of
    them was over before.
    """
    here: dict[TaskStatus, list[str | int]] = defaultdict(list)
    elsewhere: dict[TaskStatus, list[str]] = defaultdict(list)
    announcements: list[Step] = []
    for task_id, (row, listed, created_at, announcement) in show_each(rows.items(), _listing_of).items():
        if listed:
            here[listed] += (created_at, task_id)
        never_in = OVER if after_step and row.is_contract else ()
        for status in row.statuses:
            if status != listed and status not in never_in:
                elsewhere[status].append(task_id)
        if announcement:
            announcements.append(announcement)
    commands: list[list[str | int]] = [["ZADD", keys.tasks_with(status), *parts] for status, parts in here.items()]
    commands += [["ZREM", keys.tasks_with(status), *task_ids] for status, task_ids in elsewhere.items()]
    return commands, announcements


def _listing_of(task_id: str, row: StoredTask) -> tuple[StoredTask, TaskStatus | None, int, Step | None]:
    """Return a contract, its list, its score there, and the step that announces it; for other ids, no list and 0."""
    if not row.is_contract:
        return row, None, 0, None
    return row, row.status, row.created_at, announcement_of(task_id, row)


def _first_use(replay_id: str, task_id: str) -> FirstUse:
    return FirstUse.of(replay_id, ids.partition_of_id(task_id), keys.task(task_id))
