"""Work contracts in Redis: a hash for each, in the partition of its id, and a list for each status.

The lists span all partitions, so they are projections: changed right after a contract, mended where they
are seen to be behind, and by the worker.
"""

from asyncio import gather
from collections.abc import Sequence
from typing import cast

import msgspec

from node.idempotency import Once
from node.store import Arg, News, Store, keys
from node.store.replay import REPLAY_MS, bind
from node.store.reply import code_of, fields_of
from node.store.scripts import Script, script
from node.tasks.model import STATUSES
from node.tasks.rights import Grip
from node.tasks.view import LISTED, WHOLE, Row

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


class Outcome(msgspec.Struct, frozen=True):
    """How a step ended."""

    kind: str
    """What was done; `refused` if nothing was."""
    id: str
    row: Row = Row(0, {})
    """The contract afterwards; not for `refused`, nor for a `replayed` creation."""
    refusal: str = ""
    """The code of the catalogue."""
    status: str = ""
    """That of the contract which was refused."""


class Acting(msgspec.Struct, frozen=True, kw_only=True):
    """Who says to act on a contract, and what they have shown for it."""

    actor: str = ""
    has_publisher_token: bool = False
    grip: Grip | None = None
    signer: str = ""
    replay_id: str = ""


class TaskStore:
    """Creates, changes, reads and lists contracts."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    @property
    def news(self) -> News:
        """Where waiting readers are woken."""
        return self._store.news

    async def create(self, once: Once | None, replay_id: str, fields: Sequence[str | bytes]) -> Outcome:
        """Offer a contract. A `replay_id` is refused when it was used before. Raises StoreUnavailable."""
        if once and replay_id:
            if not await bind(self._store, replay_id, once.scope):
                return Outcome("refused", "", refusal="signature.replayed")
            replay_id = ""
        partition = once.partition if once else keys.partition_of(replay_id) if replay_id else None
        task_id = keys.new_id(partition)
        return await self._change(
            CREATE,
            task_id,
            [self._idempotency(once, task_id), self._replay(replay_id, task_id)],
            [*self._times(once, replay_id), task_id, *fields],
        )

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> Outcome:
        """Claim a contract; `request` is the same for a repeated request. Raises StoreUnavailable."""
        return await self._change(
            CLAIM,
            task_id,
            [self._leases(task_id), self._replay(replay_id, task_id)],
            [task_id, assignee, request, REPLAY_MS if replay_id else 0],
        )

    async def transition(self, task_id: str, acting: Acting, target: str, once: Once | None) -> Outcome:
        """Move a contract to the next status, which is `target` if one is wanted. Raises StoreUnavailable."""
        grip = acting.grip or Grip("", "")
        return await self._change(
            TRANSITION,
            task_id,
            [self._leases(task_id), self._idempotency(once, task_id), self._replay(acting.replay_id, task_id)],
            [
                *self._times(once, acting.replay_id),
                task_id,
                acting.actor,
                target,
                int(acting.has_publisher_token),
                acting.signer,
                grip.attempt,
                grip.request,
            ],
        )

    async def complete(self, task_id: str, grip: Grip, result: bytes) -> Outcome:
        """Complete a contract; the row then has its times only. Raises StoreUnavailable."""
        return await self._change(
            COMPLETE, task_id, [self._leases(task_id)], [task_id, grip.attempt, grip.request, result]
        )

    async def cancel(self, task_id: str, acting: Acting) -> Outcome:
        """Call a contract off. Raises StoreUnavailable."""
        return await self._change(
            CANCEL,
            task_id,
            [self._leases(task_id), self._replay(acting.replay_id, task_id)],
            [task_id, int(acting.has_publisher_token), acting.signer, REPLAY_MS if acting.replay_id else 0],
        )

    async def extend(self, task_id: str, grip: Grip) -> Outcome:
        """Start the lease of a claim again. Raises StoreUnavailable."""
        return await self._change(EXTEND, task_id, [self._leases(task_id)], [task_id, grip.attempt, grip.request])

    async def release(self, task_id: str, grip: Grip) -> Outcome:
        """Give a claim up. Raises StoreUnavailable."""
        return await self._change(RELEASE, task_id, [self._leases(task_id)], [task_id, grip.attempt, grip.request])

    async def lapse(self, task_id: str) -> str:
        """End the claim of a contract if its lease has; the status after. Raises StoreUnavailable."""
        keys_ = [keys.task(task_id), self._leases(task_id), self._events(task_id)]
        return code_of(await self._store.run(LAPSE, keys_, [task_id]))

    async def due(self, partition: int, limit: int) -> list[str]:
        """Contracts of a partition whose lease has ended. Raises StoreUnavailable."""
        reply = cast("list[bytes]", await self._store.run(DUE, [keys.leases(partition)], [limit]))
        return [name.decode() for name in reply]

    async def read(self, task_id: str, names: Sequence[str] = WHOLE) -> Row:
        """Fields of a contract; none for an unknown id. Raises StoreUnavailable."""
        reply = await self._store.run(READ, [keys.task(task_id)], names)
        now, values = cast("tuple[int, list[bytes | None]]", tuple(cast("list[object]", reply)))
        found = zip(names, values, strict=True)
        return Row(now, {name.encode(): value for name, value in found if value is not None})

    async def list(self, status: str, limit: int, offset: int) -> tuple[list[tuple[str, Row]], int]:
        """Contracts that are listed under a status, the newest first, and how many are. Raises StoreUnavailable."""
        listed = keys.tasks_with(status)
        ids, total = await gather(
            self._store.command("ZREVRANGE", listed, offset, offset + limit - 1), self._store.command("ZCARD", listed)
        )
        names = [name.decode() for name in cast("list[bytes]", ids)]
        rows = await gather(*(self.read(name, LISTED) for name in names))
        return list(zip(names, rows, strict=True)), cast("int", total)

    async def place(self, task_id: str, status: str | None, created_at: int = 0) -> None:
        """List a contract under its status and nowhere else; None takes it off all lists. Again, it changes nothing."""
        steps = [
            self._store.command("ZADD", keys.tasks_with(each), created_at, task_id)
            if each == status
            else self._store.command("ZREM", keys.tasks_with(each), task_id)
            for each in STATUSES
        ]
        await gather(*steps)

    async def _change(self, step: Script, task_id: str, between: Sequence[str], args: Sequence[Arg]) -> Outcome:
        """Run a step whose keys are the contract, those `between`, and the outbox."""
        keys_ = [keys.task(task_id), *between, self._events(task_id)]
        match code_of(reply := await self._store.run(step, keys_, args)), reply:
            case "refused", [_, bytes(code), bytes(status)]:
                return Outcome("refused", task_id, refusal=code.decode(), status=status.decode())
            case kind, [_, bytes(original)]:
                return Outcome(kind, original.decode())
            case kind, [_, int(now), fields]:
                return Outcome(kind, task_id, Row(now, fields_of(fields)))
            case _:
                raise TypeError(f"{step.name} answered {reply!r}")

    def _times(self, once: Once | None, replay_id: str) -> tuple[str, int, int]:
        """digest, idem_ttl and replay_ttl of a step."""
        return once.digest if once else "", self._idempotency_ms, REPLAY_MS if replay_id else 0

    def _idempotency(self, once: Once | None, task_id: str) -> str:
        return keys.idempotency(keys.partition_of_id(task_id), once.scope) if once else keys.task(task_id)

    def _replay(self, replay_id: str, task_id: str) -> str:
        return keys.replay(keys.partition_of_id(task_id), replay_id) if replay_id else keys.task(task_id)

    def _leases(self, task_id: str) -> str:
        return keys.leases(keys.partition_of_id(task_id))

    def _events(self, task_id: str) -> str:
        return keys.events(keys.partition_of_id(task_id))
