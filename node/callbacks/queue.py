"""Callbacks under way, in Redis: nothing about them is in a worker's memory.

A callback is enqueued in the partition of what it tells of, becomes due, is taken by one worker,
and is over or due again. A worker that dies holding one loses nothing: it becomes due again.
"""

from collections.abc import Callable, Mapping
from typing import Literal, cast

import msgspec

from node.callbacks.partition_schedule import PartitionSchedule
from node.callbacks.publisher import publisher_of_url
from node.store import Store, keys
from node.store.decoding import fields_of
from node.store.scripts import script

ENQUEUE = script("callback_enqueue")
TAKE = script("callback_take")
SETTLE = script("callback_settle")

HIDDEN_MS = 30_000
"""How long a taken callback is not due: three times the longest attempt."""

REMEMBER_MS = 10 * 60_000
"""How long a delivered message is known as such: an event that a dead worker had handled comes again within that."""

LOOK = 5.0
"""Seconds between looks into a partition for what other processes put under way there."""

TAKEN = 16
"""Callbacks that one look takes from a partition."""

DEAD_KEPT = 1000
"""Dead letters kept in each partition, about."""

RECEIVER = (b"callback_url", b"callback_by")
"""Fields of an entity: where its callbacks go, and whose they are."""

Ending = Literal["delivered", "dropped", "dead", "retry", "postpone"]


class Callback(msgspec.Struct, frozen=True):
    """One message on its way."""

    partition: int
    name: str
    """What it tells of: messages of one name follow each other at a distance."""
    id: str
    """webhook-id."""
    url: str
    type: str
    at: int
    """When it happened, ms."""
    data: dict[str, object]
    attempt: int
    """Attempts made so far."""
    misses: int = 0
    """How many of them were answered 404."""
    since: int = 0
    """When it was put under way, ms."""


class DeadLetter(msgspec.Struct, frozen=True):
    """A callback that was given up."""

    entry: str
    partition: int
    name: str
    id: str
    url: str
    type: str
    at: int
    data: dict[str, object]
    attempts: int
    reason: str


class CallbackQueue:
    """Enqueues, takes and settles. `unpack` gives the fields of a contract that was compacted."""

    def __init__(self, store: Store, unpack: Callable[[bytes], Mapping[bytes, bytes]]) -> None:
        self._store = store
        self._unpack = unpack
        self.agenda = PartitionSchedule(LOOK)
        """Where something is due, as far as this process knows."""

    async def enqueue(
        self, partition: int, name: str, message_id: str, pause_ms: int, message: Mapping[str, str | int | bytes]
    ) -> None:
        """Put a message (url, type, at, data) under way, `pause_ms` after the last of its name.

        Nothing happens if it or a newer one of its name is under way or was just delivered. Raises StoreUnavailable.
        """
        fields = [part for field, value in message.items() if field != "at" for part in (field, value)]
        await self._store.run(
            ENQUEUE,
            [keys.callback(partition, name), keys.callbacks_due(partition)],
            [name, message_id, pause_ms, message["at"], *fields],
        )
        self.agenda.expect(partition)

    async def take(self, partition: int) -> list[Callback]:
        """What is due in a partition, for this worker alone. Raises StoreUnavailable."""
        reply = await self._store.run(TAKE, [keys.callbacks_due(partition)], [HIDDEN_MS, TAKEN])
        wait_ms, *raw = cast("tuple[int, *tuple[bytes, ...]]", tuple(cast("list[object]", reply)))
        if wait_ms >= 0:
            self.agenda.expect(partition, wait_ms / 1000)
        names = [name.decode() for name in raw]
        found = await self._store.commands([("HGETALL", keys.callback(partition, name)) for name in names])
        rows = zip(names, map(fields_of, found), strict=True)
        return [_callback(partition, name, fields) for name, fields in rows if b"attempt" in fields]  # else it is over

    async def settle(self, callback: Callback, ending: Ending, pause_ms: int, reason: str = "") -> None:
        """Say how an attempt ended; again changes nothing. Raises StoreUnavailable."""
        partition = callback.partition
        await self._store.run(
            SETTLE,
            [
                keys.callback(partition, callback.name),
                keys.callbacks_due(partition),
                keys.callbacks_dead(partition),
            ],
            [
                *(callback.name, callback.id, callback.attempt),
                *(ending, pause_ms, reason, callback.misses),
                *(DEAD_KEPT, REMEMBER_MS),
            ],
        )
        self.agenda.expect(partition, pause_ms / 1000)

    async def dead(self, partition: int) -> list[DeadLetter]:
        """Dead letters of a partition, oldest first. Raises StoreUnavailable."""
        entries = await self._store.command("XRANGE", keys.callbacks_dead(partition), "-", "+")
        return [_letter(partition, *entry) for entry in cast("list[tuple[bytes, object]]", entries or [])]

    async def bury(self, letter: DeadLetter) -> None:
        """Forget a dead letter. Raises StoreUnavailable."""
        await self._store.command("XDEL", keys.callbacks_dead(letter.partition), letter.entry)

    async def redrive(self, letter: DeadLetter) -> None:
        """Send a dead letter again, from the first attempt. Raises StoreUnavailable."""
        message: dict[str, str | int | bytes] = {
            "url": letter.url,
            "type": letter.type,
            "at": letter.at,
            "data": msgspec.json.encode(letter.data),
        }
        await self.enqueue(letter.partition, letter.name, letter.id, 0, message)
        await self.bury(letter)

    async def publisher(self, callback: Callback) -> str | None:
        """Who gave the URL (`node.callbacks.publisher`); None if the entity is gone, or names that receiver no more.

        Raises StoreUnavailable.
        """
        found = await self._store.command("HMGET", _entity(callback), *RECEIVER)
        url, publisher = cast("tuple[bytes | None, bytes | None]", tuple(cast("list[object]", found)))
        if url is None and (task_id := callback.data.get("task_id")):
            # A contract that is over is compacted some day; a dead letter about it may be sent again after that.
            packed = await self._store.command("GET", keys.packed(str(task_id)))
            fields: Mapping[bytes, bytes] = self._unpack(cast("bytes", packed)) if packed else {}
            url, publisher = (fields.get(name) for name in RECEIVER)
        if url != callback.url.encode():
            return None
        return publisher.decode() if publisher else publisher_of_url(callback.url)

    async def forget_target(self, callback: Callback) -> None:
        """Take the callback_url off the entity: its receiver wants no more. Raises StoreUnavailable."""
        await self._store.command("HDEL", _entity(callback), "callback_url")


def _entity(callback: Callback) -> str:
    """The key of what a callback tells of."""
    match callback.data:
        case {"task_id": str(task_id)}:
            return keys.task(task_id)
        case {"session_id": str(session_id)}:
            return keys.session(session_id)
        case _:
            return keys.thread(str(callback.data["thread_id"]))


def _callback(partition: int, name: str, fields: dict[bytes, bytes]) -> Callback:
    return Callback(
        partition,
        name,
        fields[b"id"].decode(),
        fields[b"url"].decode(),
        fields[b"type"].decode(),
        int(fields[b"at"]),
        msgspec.json.decode(fields[b"data"]),
        int(fields[b"attempt"]),
        int(fields[b"misses"]),
        int(fields[b"since"]),
    )


def _letter(partition: int, entry: bytes, flat: object) -> DeadLetter:
    fields = {name.decode(): value.decode() for name, value in fields_of(flat).items()}
    return DeadLetter(
        entry.decode(),
        partition,
        fields["name"],
        fields["id"],
        fields["url"],
        fields["type"],
        int(fields["at"]),
        msgspec.json.decode(fields["data"]),
        int(fields["attempts"]),
        fields["reason"],
    )
