"""Work contracts in Redis: a hash for each, in the partition of its id, and a list for each status.

Some time after one is over, a string takes the place of its hash; nobody who reads here can tell.

The lists span all partitions, so they are projections: changed right after a contract, mended where they
are seen to be behind, and by the worker.
"""

from asyncio import gather
from collections.abc import Callable, Sequence
from typing import cast

from node.store import Arg, Store, WakeUps, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey, home_of
from node.store.replay import REPLAY_MS
from node.store.scripts import Script, script
from node.tasks.compaction import pack, unpack
from node.tasks.model import STATUSES
from node.tasks.rights import Claim
from node.tasks.steps import (
    Actor,
    StepResult,
    canceled_again,
    claim_refused,
    completed_again,
    holding_refused,
    move_refused,
)
from node.tasks.view import LISTED, WHOLE, StoredTask

CREATE = script("task_create")
READ = script("task_read")
CLAIM = script("task_claim")
TRANSITION = script("task_transition")
COMPLETE = script("task_complete")
CANCEL = script("task_cancel")
EXTEND = script("task_extend")
RELEASE = script("task_release")
DUE = script("task_due")
LAPSE = script("task_lapse")
COMPACT = script("task_compact")
FORGET = script("task_forget")


HELD = (*WHOLE, b"claim")
"""Fields by which a completion is known again."""


class TaskStore:
    """Creates, changes, reads and lists contracts."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    @property
    def wakeups(self) -> WakeUps:
        """Where waiting readers are woken."""
        return self._store.wakeups

    async def create(
        self, idempotency: IdempotencyKey | None, replay_id: str, fields: Sequence[str | bytes]
    ) -> StepResult:
        """Offer a contract. A `replay_id` is refused when it was used before. Raises StoreUnavailable."""
        home = await home_of(self._store, idempotency, replay_id)
        if home is None:
            return StepResult("refused", "", refusal="signature.replayed")
        partition, replay_id = home
        task_id = ids.new_id(partition)
        return await self._change(
            CREATE,
            task_id,
            [self._idempotency(idempotency, task_id), self._replay(replay_id, task_id)],
            [*self._times(idempotency, replay_id), task_id, *fields],
        )

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> StepResult:
        """Claim a contract; `request` is the same for a repeated request. Raises StoreUnavailable."""
        return await self._change(
            CLAIM,
            task_id,
            [self._leases(task_id), self._replay(replay_id, task_id)],
            [task_id, assignee, request, REPLAY_MS if replay_id else 0],
            lambda row: claim_refused(task_id, row),
        )

    async def transition(
        self, task_id: str, acting: Actor, target: str, idempotency: IdempotencyKey | None
    ) -> StepResult:
        """Move a contract to the next status, which is `target` if one is wanted. Raises StoreUnavailable."""
        grip = acting.grip or Claim("", "")
        return await self._change(
            TRANSITION,
            task_id,
            [self._leases(task_id), self._idempotency(idempotency, task_id), self._replay(acting.replay_id, task_id)],
            [
                *self._times(idempotency, acting.replay_id),
                task_id,
                acting.actor,
                target,
                int(acting.has_publisher_token),
                acting.signer,
                grip.attempt,
                grip.request,
            ],
            lambda row: move_refused(task_id, row, acting),
        )

    async def complete(self, task_id: str, grip: Claim, result: bytes) -> StepResult:
        """Complete a contract; the row then has its times only. Raises StoreUnavailable."""
        outcome = await self._change(
            COMPLETE,
            task_id,
            [self._leases(task_id)],
            [task_id, grip.attempt, grip.request, result],
            lambda row: completed_again(task_id, row, grip, result),
        )
        if outcome.refusal != "task.completed":
            return outcome
        # The script knows bytes only. What is completed never changes, so it can be looked at afterwards.
        row = await self.read(task_id, HELD)
        return completed_again(task_id, row, grip, result) if row.is_contract else outcome

    async def cancel(self, task_id: str, acting: Actor) -> StepResult:
        """Call a contract off. Raises StoreUnavailable."""
        return await self._change(
            CANCEL,
            task_id,
            [self._leases(task_id), self._replay(acting.replay_id, task_id)],
            [task_id, int(acting.has_publisher_token), acting.signer, REPLAY_MS if acting.replay_id else 0],
            lambda row: canceled_again(task_id, row, acting),
        )

    async def extend(self, task_id: str, grip: Claim) -> StepResult:
        """Start the lease of a claim again. Raises StoreUnavailable."""
        return await self._hold(EXTEND, task_id, grip)

    async def release(self, task_id: str, grip: Claim) -> StepResult:
        """Give a claim up. Raises StoreUnavailable."""
        return await self._hold(RELEASE, task_id, grip)

    async def lapse(self, task_id: str) -> str:
        """End the claim of a contract if its lease has; the status after. Raises StoreUnavailable."""
        keys_ = [keys.task(task_id), self._leases(task_id), self._events(task_id)]
        return code_of(await self._store.run(LAPSE, keys_, [task_id]))

    async def due(self, limit: int) -> Sequence[str]:
        """Contracts whose lease has ended, `limit` of each partition at most. Raises StoreUnavailable."""
        looks = (([keys.leases(partition)], [limit]) for partition in range(ids.PARTITIONS))
        replies = cast("list[list[bytes]]", await self._store.runs(DUE, looks))
        return [name.decode() for names in replies for name in names]

    async def read(self, task_id: str, names: Sequence[bytes] = WHOLE) -> StoredTask:
        """Fields of a contract; none for an unknown id. Raises StoreUnavailable."""
        (row,) = await self.read_all([task_id], names)
        return row

    async def read_all(self, task_ids: Sequence[str], names: Sequence[bytes] = WHOLE) -> Sequence[StoredTask]:
        """The same of many. Raises StoreUnavailable."""
        replies = await self._store.runs(READ, [([keys.task(each)], names) for each in task_ids])
        rows: list[StoredTask] = []
        for task_id, reply in zip(task_ids, replies, strict=True):
            now, values = cast("tuple[int, list[bytes | None]]", tuple(cast("list[object]", reply)))
            rows.append(StoredTask(now, _fields(names, values) or _named(names, await self._packed(task_id))))
        return rows

    async def list(self, status: str, limit: int, offset: int) -> tuple[list[tuple[str, StoredTask]], int]:
        """Contracts that are listed under a status, the newest first, and how many are. Raises StoreUnavailable."""
        listed = keys.tasks_with(status)
        ids, total = await self._store.commands([("ZREVRANGE", listed, offset, offset + limit - 1), ("ZCARD", listed)])
        names = [name.decode() for name in cast("list[bytes]", ids)]
        found = await self._store.commands([("HMGET", keys.task(name), *LISTED) for name in names])
        rows = [_fields(LISTED, cast("list[bytes | None]", values)) for values in found]
        # A lease is judged by the clock of the server that keeps it: such a contract is read again, as a step.
        leased = [name for name, row in zip(names, rows, strict=True) if b"lease_expires_at" in row]
        judged = dict(zip(leased, await gather(*(self.read(name, LISTED) for name in leased)), strict=True))
        # And one without a hash is compacted, mostly.
        lacking = [name for name, row in zip(names, rows, strict=True) if not row]
        strings = await self._store.commands([("GET", keys.packed(name)) for name in lacking])
        for name, packed in zip(lacking, cast("list[bytes | None]", strings), strict=True):
            judged[name] = StoredTask(0, _named(LISTED, unpack(packed) if packed else {}))
        listing = [(name, judged.get(name) or StoredTask(0, row)) for name, row in zip(names, rows, strict=True)]
        return listing, cast("int", total)

    async def ended_hot(self, task_id: str) -> int | None:
        """When a contract ended (ms); None if it is not over, or compacted already. Raises StoreUnavailable."""
        times = await self._store.command("HMGET", keys.task(task_id), "completed_at", "canceled_at")
        return next((int(time) for time in cast("list[bytes | None]", times) if time), None)

    async def compact(self, task_id: str) -> bool:
        """Put a string in the place of a contract that is over; False if there is none. Raises StoreUnavailable."""
        fields = fields_of(await self._store.command("HGETALL", keys.task(task_id)))
        if fields.get(b"kind") != b"contract":
            return False
        args = [len(fields), pack(fields)]
        return code_of(await self._store.run(COMPACT, [keys.task(task_id), keys.packed(task_id)], args)) == "compacted"

    async def forget(self, task_id: str) -> bool:
        """Remove a contract that nobody holds; False if there is none. Raises StoreUnavailable."""
        keys_ = [keys.task(task_id), keys.packed(task_id), self._events(task_id)]
        return code_of(await self._store.run(FORGET, keys_, [task_id])) == "forgotten"

    async def place(self, task_id: str, status: str | None, created_at: int = 0) -> None:
        """List a contract under its status and nowhere else; None takes it off all lists. Again, it changes nothing."""
        await self.place_all([(task_id, status, created_at)])

    async def place_all(self, places: Sequence[tuple[str, str | None, int]]) -> None:
        """The same of many: id, status and time of creation (ms) of each. Raises StoreUnavailable."""
        changes: list[list[str | int]] = []
        for name in STATUSES:
            here = [part for task_id, status, at in places if status == name for part in (at, task_id)]
            elsewhere = [task_id for task_id, status, _ in places if status != name]
            if here:
                changes.append(["ZADD", keys.tasks_with(name), *here])
            if elsewhere:
                changes.append(["ZREM", keys.tasks_with(name), *elsewhere])
        await self._store.commands(changes)

    async def _hold(self, step: Script, task_id: str, grip: Claim) -> StepResult:
        args = [task_id, grip.attempt, grip.request]
        return await self._change(
            step, task_id, [self._leases(task_id)], args, lambda row: holding_refused(task_id, row, grip)
        )

    async def _packed(self, task_id: str) -> dict[bytes, bytes]:
        """The fields of a compacted contract; none if there is none."""
        packed = await self._store.command("GET", keys.packed(task_id))
        return unpack(cast("bytes", packed)) if packed else {}

    async def _change(
        self,
        step: Script,
        task_id: str,
        between: Sequence[str],
        args: Sequence[Arg],
        compacted: Callable[[StoredTask], StepResult] | None = None,
    ) -> StepResult:
        """Run a step whose keys are the contract, those `between`, and the outbox.

        `compacted` says what it comes to for a contract that is compacted.
        """
        keys_ = [keys.task(task_id), *between, self._events(task_id)]
        match code_of(reply := await self._store.run(step, keys_, args)), reply:
            case "refused", [_, b"task.unknown", _] if compacted and (fields := await self._packed(task_id)):
                return compacted(StoredTask(0, fields))
            case "refused", [_, bytes(code), bytes(status)]:
                return StepResult("refused", task_id, refusal=code.decode(), status=status.decode())
            case kind, [_, bytes(original)]:
                return StepResult(kind, original.decode())
            case kind, [_, int(now), fields]:
                return StepResult(kind, task_id, StoredTask(now, fields_of(fields)))
            case _:
                raise TypeError(f"{step.name} answered {reply!r}")

    def _times(self, idempotency: IdempotencyKey | None, replay_id: str) -> tuple[str, int, int]:
        """digest, idem_ttl and replay_ttl of a step."""
        return idempotency.digest if idempotency else "", self._idempotency_ms, REPLAY_MS if replay_id else 0

    def _idempotency(self, idempotency: IdempotencyKey | None, task_id: str) -> str:
        return keys.idempotency(ids.partition_of_id(task_id), idempotency.scope) if idempotency else keys.task(task_id)

    def _replay(self, replay_id: str, task_id: str) -> str:
        return keys.replay(ids.partition_of_id(task_id), replay_id) if replay_id else keys.task(task_id)

    def _leases(self, task_id: str) -> str:
        return keys.leases(ids.partition_of_id(task_id))

    def _events(self, task_id: str) -> str:
        return keys.events(ids.partition_of_id(task_id))


def _fields(names: Sequence[bytes], values: Sequence[bytes | None]) -> dict[bytes, bytes]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _named(names: Sequence[bytes], fields: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Those fields of a compacted contract that are asked for."""
    return {name: fields[name] for name in names if name in fields}
