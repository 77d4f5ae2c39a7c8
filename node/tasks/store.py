"""Work contracts in Redis: a hash for each, in the partition of its id, and a list for each status.

Some time after a contract is over, one compressed string takes the place of its hash (`compaction`); nobody who reads
or acts through this module can tell. The lists span all partitions, so they are projections: changed right after a
contract, put right where a reader finds them behind, and by the worker.
"""

from asyncio import gather
from collections.abc import Callable, Sequence
from typing import cast

from node.common.refusal import Refused
from node.store import RedisReply, Store, ids, keys
from node.store.bulk import bulk, bulk_steps
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey, home_of
from node.store.long_poll import wait_for_change
from node.store.replay import REPLAY_MS
from node.store.steps import Key, Step
from node.tasks import steps
from node.tasks.compaction import pack, unpack
from node.tasks.model import STATUSES
from node.tasks.rights import Actor, Claim
from node.tasks.view import LISTED, WHOLE, StoredTask

JUDGED = (b"kind", b"status", b"attempt", b"claim", b"publisher_id", b"assignee_id", b"bound", b"signer")
"""Fields by which the scripts judge a contract that is over."""

COPY_MS = 10_000
"""How long the copy of those fields is kept: longer than any call to Redis takes."""


class TaskStore:
    """Creates, changes, reads and lists contracts."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    async def create(
        self, idempotency: IdempotencyKey | None, replay_id: str, fields: Sequence[str | bytes]
    ) -> tuple[str, StoredTask, bool]:
        """Offer a contract: its id, the contract, and whether it was offered before.

        A `replay_id` that was used before is refused. Raises Refused `idempotency.conflict`, `signature.replayed`,
        `task.unknown` for a contract that was offered before and has been removed, StoreUnavailable.
        """
        home = await home_of(self._store, idempotency, replay_id)
        if home is None:
            raise Refused("signature.replayed")
        partition, replay_id = home
        task_id = ids.new_id(partition)
        reply = await self._store.run(
            steps.task_create(
                task=keys.task(task_id),
                idem=_idempotency_key(idempotency, task_id),
                replay=_replay_key(replay_id, task_id),
                events=_events(task_id),
                digest=idempotency.digest if idempotency else "",
                idem_ttl=self._idempotency_ms,
                replay_ttl=_replay_ttl(replay_id),
                id=task_id,
                fields=fields,
            )
        )
        match reply:
            case [b"replayed", bytes(original)]:
                row = await self.read(original.decode())
                if not row.is_contract:
                    raise Refused("task.unknown")
                return original.decode(), row, True
            case _:
                return task_id, *_row_of(reply)

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        """Claim a contract: the contract, and whether the same `request` had claimed it before.

        Raises Refused `task.unknown`, `task.claimed`, `task.state`, `signature.replayed`, StoreUnavailable.
        """
        return await self._run(
            task_id,
            lambda task: steps.task_claim(
                task=task,
                leases=_leases(task_id),
                replay=_replay_key(replay_id, task_id),
                events=_events(task_id),
                id=task_id,
                assignee=assignee,
                request=request,
                replay_ttl=_replay_ttl(replay_id),
            ),
        )

    async def transition(
        self, task_id: str, actor: Actor, target: str, idempotency: IdempotencyKey | None
    ) -> tuple[StoredTask, bool]:
        """Move a contract to the next status, which is `target` if one is wanted; whether that was done before.

        Raises Refused `task.unknown`, `task.actor`, `task.token`, `task.proof`, `task.state`, `idempotency.conflict`,
        `signature.replayed`, StoreUnavailable.
        """
        return await self._run(
            task_id,
            lambda task: steps.task_transition(
                task=task,
                leases=_leases(task_id),
                idem=_idempotency_key(idempotency, task_id),
                replay=_replay_key(actor.replay_id, task_id),
                events=_events(task_id),
                digest=idempotency.digest if idempotency else "",
                idem_ttl=self._idempotency_ms,
                replay_ttl=_replay_ttl(actor.replay_id),
                id=task_id,
                actor=actor.name,
                target=target,
                proven=int(actor.has_publisher_token),
                signer=actor.signer,
                attempt=actor.claim.attempt if actor.claim else "",
                request=actor.claim.request if actor.claim else "",
            ),
        )

    async def complete(self, task_id: str, claim: Claim, result: bytes) -> StoredTask:
        """Complete a contract; completed before with the same bytes, it stays as it is.

        Raises Refused `task.unknown`, `task.token`, `task.state`, `task.completed`, StoreUnavailable.
        """
        row, _ = await self._run(
            task_id,
            lambda task: steps.task_complete(
                task=task,
                leases=_leases(task_id),
                events=_events(task_id),
                id=task_id,
                attempt=claim.attempt,
                request=claim.request,
                result=result,
            ),
        )
        return row

    async def cancel(self, task_id: str, actor: Actor) -> StoredTask:
        """Call a contract off. Raises Refused `task.unknown`, `task.proof`, `task.state`, `signature.replayed`,
        StoreUnavailable.
        """
        row, _ = await self._run(
            task_id,
            lambda task: steps.task_cancel(
                task=task,
                leases=_leases(task_id),
                replay=_replay_key(actor.replay_id, task_id),
                events=_events(task_id),
                id=task_id,
                proven=int(actor.has_publisher_token),
                signer=actor.signer,
                replay_ttl=_replay_ttl(actor.replay_id),
            ),
        )
        return row

    async def extend(self, task_id: str, claim: Claim) -> StoredTask:
        """Start the lease of a claim again. Raises Refused `task.unknown`, `task.token`, `task.state`,
        StoreUnavailable.
        """
        return await self._change_claim(steps.task_extend, task_id, claim)

    async def release(self, task_id: str, claim: Claim) -> StoredTask:
        """Give a claim up. Raises Refused `task.unknown`, `task.token`, `task.state`, StoreUnavailable."""
        return await self._change_claim(steps.task_release, task_id, claim)

    async def lapse(self, task_ids: Sequence[str]) -> list[str]:
        """End the claims of contracts, as far as their leases have ended; the status of each after.

        Empty for what is no contract. Raises StoreUnavailable.
        """
        lapsing = (
            steps.task_lapse(task=keys.task(each), leases=_leases(each), events=_events(each), id=each)
            for each in task_ids
        )
        return [code_of(reply) for reply in await bulk_steps(self._store, lapsing)]

    async def due(self, limit: int) -> list[str]:
        """Contracts whose lease has ended, `limit` of each partition at most. Raises StoreUnavailable."""
        looking = [steps.task_due(leases=keys.leases(each), limit=limit) for each in range(ids.PARTITIONS)]
        found = cast("list[list[bytes]]", await bulk_steps(self._store, looking))
        return [name.decode() for names in found for name in names]

    async def read(self, task_id: str, names: Sequence[bytes] = WHOLE) -> StoredTask:
        """Fields of a contract; none for an unknown id. Raises StoreUnavailable."""
        (row,) = await self.read_all([task_id], names)
        return row

    async def read_all(self, task_ids: Sequence[str], names: Sequence[bytes] = WHOLE) -> list[StoredTask]:
        """The same of many. Raises StoreUnavailable."""
        reading = (steps.task_read(task=keys.task(each), names=names) for each in task_ids)
        replies = cast("list[tuple[int, list[bytes | None]]]", await bulk_steps(self._store, reading))
        rows = {
            task_id: StoredTask(now, _fields(names, values))
            for task_id, (now, values) in zip(task_ids, replies, strict=True)
        }
        compacted = await self._compacted([task_id for task_id, row in rows.items() if not row.fields], names)
        rows |= {task_id: StoredTask(rows[task_id].now, fields) for task_id, fields in compacted.items()}
        return [rows[task_id] for task_id in task_ids]

    async def wait(self, task_id: str, seconds: float, is_new: Callable[[StoredTask], bool]) -> StoredTask:
        """A contract as soon as it is new, or once the time is over. Raises StoreUnavailable."""
        return await wait_for_change(
            self._store.wakeups, keys.task(task_id), seconds, lambda: self.read(task_id), is_new
        )

    async def page(self, status: str, limit: int, offset: int) -> tuple[dict[str, StoredTask], int]:
        """Contracts that are listed under a status, the newest first, and how many are. Raises StoreUnavailable."""
        listed = keys.tasks_with(status)
        found, total = await self._store.commands(
            [("ZREVRANGE", listed, offset, offset + limit - 1), ("ZCARD", listed)]
        )
        names = [name.decode() for name in cast("list[bytes]", found)]
        hashes = await self._store.commands([("HMGET", keys.task(name), *LISTED) for name in names])
        rows = {
            name: StoredTask(0, _fields(LISTED, cast("list[bytes | None]", values)))
            for name, values in zip(names, hashes, strict=True)
        }
        # A lease is judged by the clock of the server that keeps it, so such a contract is read again, as a step.
        leased = [name for name, row in rows.items() if b"lease_expires_at" in row.fields]
        lacking = [name for name, row in rows.items() if not row.fields]
        if leased or lacking:
            judged, compacted = await gather(self.read_all(leased, LISTED), self._compacted(lacking, LISTED))
            rows |= dict(zip(leased, judged, strict=True))
            rows |= {name: StoredTask(0, fields) for name, fields in compacted.items()}
        return rows, cast("int", total)

    async def ended_hot(self, task_ids: Sequence[str]) -> list[int | None]:
        """When contracts ended (ms); None for one that is not over, or compacted already. Raises StoreUnavailable."""
        times = await bulk(
            self._store, (("HMGET", keys.task(each), "completed_at", "canceled_at") for each in task_ids)
        )
        return [next((int(at) for at in pair if at), None) for pair in cast("list[list[bytes | None]]", times)]

    async def compact(self, task_ids: Sequence[str]) -> int:
        """Put a string in the place of each contract that is over; how many those were. Raises StoreUnavailable."""
        hashes = await bulk(self._store, (("HGETALL", keys.task(each)) for each in task_ids))
        rows = {task_id: fields_of(fields) for task_id, fields in zip(task_ids, hashes, strict=True)}
        compacting = (
            steps.task_compact(
                task=keys.task(task_id), packed=keys.packed(task_id), fields=len(fields), content=pack(fields)
            )
            for task_id, fields in rows.items()
            if fields.get(b"kind") == b"contract"
        )
        return [code_of(reply) for reply in await bulk_steps(self._store, compacting)].count("compacted")

    async def forget(self, task_ids: Sequence[str]) -> list[str]:
        """Remove contracts, except those that are claimed; those that were removed. Raises StoreUnavailable."""
        removing = (
            steps.task_forget(task=keys.task(each), packed=keys.packed(each), events=_events(each), id=each)
            for each in task_ids
        )
        replies = await bulk_steps(self._store, removing)
        return [task_id for task_id, reply in zip(task_ids, replies, strict=True) if code_of(reply) == "forgotten"]

    async def place(self, places: Sequence[tuple[str, str | None, int]]) -> None:
        """List contracts under their status and nowhere else: id, status and time of creation (ms) of each.

        The status None takes one off all lists. Repeated, it changes nothing. Raises StoreUnavailable.
        """
        changes: list[list[str | int]] = []
        for name in STATUSES:
            here = [part for task_id, status, at in places if status == name for part in (at, task_id)]
            elsewhere = [task_id for task_id, status, _ in places if status != name]
            if here:
                changes.append(["ZADD", keys.tasks_with(name), *here])
            if elsewhere:
                changes.append(["ZREM", keys.tasks_with(name), *elsewhere])
        await self._store.commands(changes)

    async def _change_claim(self, step: Callable[..., Step], task_id: str, claim: Claim) -> StoredTask:
        row, _ = await self._run(
            task_id,
            lambda task: step(
                task=task,
                leases=_leases(task_id),
                events=_events(task_id),
                id=task_id,
                attempt=claim.attempt,
                request=claim.request,
            ),
        )
        return row

    async def _run(self, task_id: str, step_on: Callable[[Key], Step]) -> tuple[StoredTask, bool]:
        """Run a step on a contract: the contract afterwards, and whether the step was done before. Raises Refused.

        A compacted contract has no hash for the step to look at, so the step is run on a copy of what it judges by.
        That is enough, since no step changes a contract that is over.
        """
        reply = cast("list[RedisReply]", await self._store.run(step_on(keys.task(task_id))))
        if reply[1] != b"task.unknown":
            return _row_of(reply)
        compacted = await self._compacted([task_id])
        if task_id not in compacted:
            return _row_of(reply)
        fields = compacted[task_id]
        judged = [part for name in JUDGED if name in fields for part in (name, fields[name])]
        # The result may be large, so an empty one stands for it, which differs from any that a request brings.
        judged += [b"result_payload", b""]
        copy = keys.unpacked(task_id)
        await self._store.run(steps.task_unpack(copy=copy, ttl=COPY_MS, fields=judged))
        _, replayed = _row_of(await self._store.run(step_on(copy)))
        return StoredTask(0, fields), replayed

    async def _compacted(self, task_ids: Sequence[str], names: Sequence[bytes] = ()) -> dict[str, dict[bytes, bytes]]:
        """The fields of these `names`, or all, of those of the contracts that are compacted."""
        strings = await bulk(self._store, (("GET", keys.packed(task_id)) for task_id in task_ids))
        found: dict[str, dict[bytes, bytes]] = {}
        for task_id, packed in zip(task_ids, strings, strict=True):
            if packed:
                fields = unpack(cast("bytes", packed))
                found[task_id] = {name: fields[name] for name in names or fields if name in fields}
        return found


def _row_of(reply: RedisReply) -> tuple[StoredTask, bool]:
    """The contract after a step, and whether the step was done before. Raises Refused."""
    match reply:
        case [b"refused", bytes(code), bytes(status)]:
            raise Refused(code.decode(), status=status.decode())
        case [kind, int(now), fields]:
            return StoredTask(now, fields_of(fields)), kind == b"replayed"
        case _:
            raise TypeError(f"a step on a contract answered {reply!r}")


def _fields(names: Sequence[bytes], values: Sequence[bytes | None]) -> dict[bytes, bytes]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _idempotency_key(idempotency: IdempotencyKey | None, task_id: str) -> Key:
    return keys.idempotency(ids.partition_of_id(task_id), idempotency.scope) if idempotency else keys.task(task_id)


def _replay_key(replay_id: str, task_id: str) -> Key:
    return keys.replay(ids.partition_of_id(task_id), replay_id) if replay_id else keys.task(task_id)


def _replay_ttl(replay_id: str) -> int:
    return REPLAY_MS if replay_id else 0


def _leases(task_id: str) -> Key:
    return keys.leases(ids.partition_of_id(task_id))


def _events(task_id: str) -> Key:
    return keys.events(ids.partition_of_id(task_id))
