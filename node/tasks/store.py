"""Work contracts in Redis: a hash for each, in the partition of its id, and a list for each status.

Some time after a contract is over, one compressed string takes the place of its hash (`compaction`); nobody who reads
(`reader`) or acts on contracts can tell. The lists span all partitions, so they are projections: updated right after a
contract has changed, and put right by the worker and by any reader that finds them behind.
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
"""Fields by which the scripts judge a contract that is over."""

LATE_SECONDS = 0.05
"""A contract whose step is longer ago than this is read again before it is listed: somebody else may have changed it.
Usually it is listed within a few milliseconds."""

AGAIN_MS = 60_000
"""Time until a contract is looked at again after `task_lapse` has failed on it."""

NOT_LAPSED = "contract not changed when its time came, its record is damaged"
"""What is logged when it has failed, with the exception."""

COMPACTED_AT_ONCE = 8
"""Contracts that are read together to be compacted: each may have a result of a megabyte."""

COPY_MS = 10_000
"""How long a copy of the COPIED fields is kept: longer than any call to Redis takes."""


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
        """Offer a contract, until its `deadline` (ms): its id, the contract, and whether it was offered before.

        `own`: the terms of its text, kept with it. Of a contract that was offered before, only the fields of the offer
        are read. Raises Refused `idempotency.conflict`, `signature.replayed` for a `replay_id` that was used before,
        `task.deadline` for one that has passed, `task.unknown` if what was offered before has been removed.
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
        """The contract that the same request has offered, as it was then; None if there is none."""
        record = await self._store.command("GET", keys.idempotency(idempotency.partition, idempotency.scope))
        digest, _, original = cast("bytes", record or b"").decode().partition(" ")
        return (original, await self._offered(original)) if digest == idempotency.digest else None

    async def _offered(self, task_id: str) -> StoredTask:
        """A contract as it was when it was offered. Raises Refused `task.unknown`."""
        return known(await self.read(task_id, [*JUDGED, *OFFERED])).as_offered

    # The worker's steps.

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        """Claim a contract: the contract, and whether the same `request` had claimed it before.

        Raises Refused `task.unknown`, `task.claimed`, `task.paused`, `task.state`, `signature.replayed`.
        """
        step = partial(steps.task_claim, first_use=_first_use(replay_id, task_id), assignee=assignee, request=request)
        return await self._run(step, task_id)

    async def extend(self, task_id: str, claim: Claim) -> StoredTask:
        """Start the lease of a claim again. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        return await self._as_holder(steps.task_extend, task_id, claim)

    async def release(self, task_id: str, claim: Claim) -> StoredTask:
        """Release a claim. Raises Refused `task.unknown`, `task.token`, `task.state`."""
        return await self._as_holder(steps.task_release, task_id, claim)

    async def complete(self, task_id: str, claim: Claim, result: bytes, *, is_checked: bool = False) -> StoredTask:
        """Complete a contract, or submit its result; done before with the same bytes, it stays as it is.

        Raises Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, StoreUnavailable, and
        UncheckedResult for a result that must have a shape, unless it `is_checked`.
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
        """Move a contract to the next status, which is `target` if one is wanted; whether that was done before.

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
        """Accept a submitted result, or reject it for a `reason`; whether the same request had done so before.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `idempotency.conflict`, `signature.replayed`.
        """
        step = partial(steps.task_review, once=self._once(idempotency, task_id), reason=reason)
        return await self._as_actor(step, task_id, actor)

    async def retry(self, task_id: str, actor: Actor, idempotency: IdempotencyKey | None) -> tuple[StoredTask, bool]:
        """Give a contract that failed one more attempt; whether the same request had done so before.

        Raises Refused `task.unknown`, `task.publisher`, `task.state`, `task.over`, `idempotency.conflict`,
        `signature.replayed`.
        """
        step = partial(steps.task_retry, once=self._once(idempotency, task_id))
        return await self._as_actor(step, task_id, actor)

    async def cancel(self, task_id: str, actor: Actor) -> StoredTask:
        """Cancel a contract. Raises Refused `task.unknown`, `task.publisher`, `task.state`, `signature.replayed`."""
        row, _ = await self._as_actor(steps.task_cancel, task_id, actor)
        return row

    # What time brings.

    async def due(self, limit: int) -> list[str]:
        """Contracts that time has changed, up to `limit` from each partition that can be read.

        Raises StoreUnavailable if no server is there.
        """
        return await find_due(self._store, [keys.leases(each) for each in range(ids.PARTITIONS)], limit)

    async def lapse(self, task_ids: Sequence[str]) -> dict[str, str]:
        """Record what time has changed about contracts; returns the status of each afterwards.

        It is empty for what is no contract. Contracts whose records are damaged are left out, and not due for a while.
        """
        return await read_each(task_ids, self._lapse, NOT_LAPSED)

    async def _lapse(self, task_ids: Sequence[str]) -> list[str]:
        lapsing = (steps.task_lapse(contract=ContractKeys.of(each), again=AGAIN_MS) for each in task_ids)
        return [code_of(reply) for reply in await self._store.run_all(lapsing)]

    async def ended_hot(self, task_ids: Sequence[str]) -> list[int | None]:
        """When contracts ended (ms); None for one that is not over, or compacted already."""
        found = await self._store.run_all(
            ("HMGET", keys.task(each), *(f"{status}_at" for status in OVER)) for each in task_ids
        )
        return [next((int(at) for at in times if at), None) for times in cast("list[list[bytes | None]]", found)]

    async def compact(self, task_ids: Sequence[str]) -> int:
        """Put a string in the place of each contract that is over; returns how many were."""
        compacted = 0
        for start in range(0, len(task_ids), COMPACTED_AT_ONCE):
            compacted += await self._compact(task_ids[start : start + COMPACTED_AT_ONCE])
        return compacted

    async def _compact(self, task_ids: Sequence[str]) -> int:
        hashes = await self._store.run_all(("HGETALL", keys.task(each)) for each in task_ids)
        read = [(task_id, fields_of(fields)) for task_id, fields in zip(task_ids, hashes, strict=True)]
        # The step sees by the number of fields that nothing has changed. One that ends meanwhile may have as many.
        rows = {task_id: fields for task_id, fields in read if StoredTask(0, fields).is_over}
        # Beside the event loop: to deflate a result of a megabyte takes up to a tenth of a second.
        packed = await to_thread(lambda: [pack(fields) for fields in rows.values()])
        compacting = (
            steps.task_compact(
                task=keys.task(task_id), packed=keys.packed(task_id), fields=len(fields), content=content
            )
            for (task_id, fields), content in zip(rows.items(), packed, strict=True)
        )
        return [code_of(reply) for reply in await self._store.run_all(compacting)].count("compacted")

    async def forget(self, contracts: Mapping[str, str]) -> list[str]:
        """Remove contracts, each if it is still at the `stage` given here and nobody is at work on it; with none given,
        in any case. Returns those that were removed."""
        removing = (
            steps.task_forget(contract=ContractKeys.of(each), packed=keys.packed(each), judged=stage)
            for each, stage in contracts.items()
        )
        replies = await self._store.run_all(removing)
        return [task_id for task_id, reply in zip(contracts, replies, strict=True) if code_of(reply) == "forgotten"]

    # The lists.

    async def project(self, rows: Mapping[str, StoredTask]) -> None:
        """List contracts under their status and nowhere else, announce those on offer, and unlist what is no contract.

        It is idempotent. A process that was held up since it read the contracts reads them again: others may have
        changed and listed them meanwhile.
        """
        if any(monotonic() - row.asked_at > LATE_SECONDS for row in rows.values()):
            rows = await self.read_for_lists(list(rows))
        await put_until_current(rows, self._put, self.read_for_lists, lambda row: row.fields.get(b"status"))

    async def _put(self, rows: Mapping[str, StoredTask]) -> None:
        commands, announcements = _changes_of_lists(rows)
        await gather(self._store.run_all(commands), self._store.run_all(announcements))

    async def project_soon(self, task_id: str, row: StoredTask) -> None:
        """`project` for one contract right after its step, with those of other requests; nobody waits for it.

        A process that was held up since the step runs `project` itself. If Redis is out of reach, the worker does it.
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
        """Run a step on a contract: the contract afterwards, and whether the step was done before. Raises Refused.

        A compacted contract has no hash for the step to look at, so the step is run on a copy of what it judges by.
        That is enough, since no step changes a contract that is over.
        """
        asked_at = monotonic()
        reply = cast("list[RedisReply]", await self._store.run(step(contract=ContractKeys.of(task_id))))
        if reply[1] != b"task.unknown":
            return steps.row_of(reply, asked_at)
        judged = (await self.compacted([task_id], COPIED)).get(task_id)
        if judged is None:
            return steps.row_of(reply)
        # The result may be large, so an empty one stands for it, which differs from any that a request brings.
        copied = [*flat_of(judged), b"result_payload", b""]
        copy = keys.unpacked(task_id)
        await self._store.run(steps.task_unpack(copy=copy, ttl=COPY_MS, fields=copied))
        _, replayed = steps.row_of(await self._store.run(step(contract=ContractKeys.of(task_id, copy))))
        fields = (await self.compacted([task_id])).get(task_id)
        if fields is None:
            raise Refused("task.unknown")
        return StoredTask(0, fields), replayed


def _after_steps(changed: Sequence[tuple[str, StoredTask]]) -> Iterator[Step | list[str | int]]:
    """What lists contracts that steps have just changed, and announces offers."""
    commands, announcements = _changes_of_lists(dict(changed), after_step=True)
    return chain(commands, announcements)


def _changes_of_lists(
    rows: Mapping[str, StoredTask], *, after_step: bool = False
) -> tuple[list[list[str | int]], list[Step]]:
    """The commands that list contracts under their status and nowhere else, and the steps that announce offers.

    A contract that cannot be read stays where it is. `after_step`: none was over before, since a step has changed it.
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
    """A contract, its list, its score there, and what announces it; no list and 0 for what is no contract."""
    if not row.is_contract:
        return row, None, 0, None
    return row, row.status, row.created_at, announcement_of(task_id, row)


def _first_use(replay_id: str, task_id: str) -> FirstUse:
    return FirstUse.of(replay_id, ids.partition_of_id(task_id), keys.task(task_id))
