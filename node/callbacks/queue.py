"""The queue of callbacks, in Redis with all of their state, so that nothing is lost when a worker ends.

A callback is enqueued in the partition of the entity that it tells of. Once it is due, one worker takes it, attempts it
and settles it: it is then over, or due again later. If the worker dies in between, the callback becomes due again by
itself (HIDDEN_MS).
"""

# Parameters are named as in the headers of the scripts.
# ruff: noqa: A002

import math
from asyncio import get_running_loop
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec.structs import asdict

from node.callbacks.owners import publisher_of_url, site_part
from node.common.unreadable import show_each
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.decoding import entries_of, fields_of, number
from node.store.due import take_due
from node.store.lists import total_of
from node.store.outbox import Event
from node.store.partition_schedule import PartitionSchedule
from node.store.steps import Key, Rest, step
from node.store.unreadable import reached

log = structlog.get_logger()

HIDDEN_MS = 30_000
"""Visibility timeout of a taken callback, in milliseconds: three times the longest attempt."""

REMEMBER_MS = 10 * 60_000
"""Milliseconds for which a delivered message is remembered. An event that a dead worker had already handled comes again
within that time, and its message is then recognised."""

POLL_SECONDS = 5.0
"""Seconds between two reads of a partition for callbacks that other processes have enqueued there."""

DEAD_LETTERS_KEPT = 1000
DEAD_LETTERS_OF_A_SITE = 100
"""Dead letters kept in each partition, approximately, and the maximum of one site of publishers among them."""

RECEIVER = (b"callback_url", b"callback_by")
"""Fields of an entity: the URL of its callbacks, and the publisher that gave it (`node.callbacks.owners`)."""

ENTITIES: Mapping[str, Callable[[str], Key]] = {
    "task_id": keys.task,
    "session_id": keys.session,
    "address": keys.inbox,
    "thread_id": keys.thread,
}
"""Keys of the entities that callbacks tell of, by the name of the entity's id in `data`."""

Ending = Literal["delivered", "dropped", "dead", "retry", "postpone"]
"""How an attempt ended. After `retry` and `postpone` the callback is still in the queue; `postpone` means that no
attempt was made."""


@step
def callback_enqueue(
    *,
    callback: Key,
    due: Key,
    record: Key,
    name: str,
    id: str,
    pause: int,
    happened: int,
    about: str,
    after: int | str,
    fields: Rest,
) -> None:
    """Enqueue a message, or replace the older message of its name that has not been sent yet."""


@step
def callback_settle(
    *,
    callback: Key,
    due: Key,
    dead: Key,
    record: Key,
    of_site: Key,
    name: str,
    id: str,
    attempt: int,
    ending: Ending,
    pause: int,
    reason: str,
    misses: int,
    keep: int,
    keep_of_site: int,
    remember: int,
    about: str,
    told: int | str,
) -> None:
    """Record how an attempt ended."""


@step
def callback_discard(*, callback: Key, due: Key, name: str) -> None:
    """Remove a callback from the queue, whatever it contains."""


@step
def callback_forget(*, entity: Key, field: str, value: str | bytes) -> None:
    """Remove the field of an entity that names a receiver, if the field still has this value."""


class CallbackMessage(msgspec.Struct, frozen=True):
    """A message for a receiver."""

    name: str
    """The subject. Between two messages of one name there is a pause, in which newer ones replace older ones."""
    id: str
    """The webhook-id."""
    url: str
    type: str
    at: int
    """When the event happened, in milliseconds since 1970."""
    data: Mapping[str, object]
    after: int | None = None
    """For replies: the number before the first reply that the message is about. Several replies in quick succession
    make one message, which must lead to all of them."""

    @property
    def about(self) -> str:
        """The part of the message's delivery record (`delivery.py`) that no attempt changes."""
        return f"{self.at} {self.type} {urlsplit(self.url).hostname}"


def id_of_message(event: Event) -> str:
    """Return the webhook-id of the message about an event. It is the same however often the event is handled."""
    return f"msg_{event.partition:02x}_{event.id.replace('-', '_')}"


class Callback(CallbackMessage, frozen=True, kw_only=True):
    """A message that a worker has taken from the queue."""

    partition: int
    attempt: int
    """Attempts made so far."""
    misses: int = 0
    """How many of these attempts were answered with 404."""
    waited: int = 0
    """Milliseconds that it was told to wait for a turn or a breaker. Time in which no worker ran does not count."""
    ours_until: float = math.inf
    """Loop time from which another worker may have taken the message as well."""


class DeadLetter(CallbackMessage, frozen=True, kw_only=True):
    """A message that was given up."""

    entry: str
    """Id of the stream entry."""
    partition: int
    attempts: int
    reason: str


class RawDeadLetter(NamedTuple):
    """A dead letter as it is stored. Fields may be missing."""

    partition: int
    entry: str
    """Id of the stream entry."""
    fields: Mapping[bytes, bytes]

    @property
    def id(self) -> str:
        """The webhook-id; without one, the partition and the id of the stream entry."""
        return self.text(b"id", f"{self.partition:02x}-{self.entry}")

    @property
    def url(self) -> str:
        """The URL to which the message was sent."""
        return self.text(b"url")

    def text(self, field: bytes, default: str = "-") -> str:
        """Return a field in a form that can be shown."""
        return self.fields.get(field, default.encode()).decode(errors="replace")


class CallbackQueue:
    """Enqueues, takes and settles callbacks, and keeps the dead letters."""

    def __init__(self, store: Store, unpack: Callable[[bytes], Mapping[bytes, bytes]]) -> None:
        """`unpack` returns the fields of a compacted contract."""
        self._store = store
        self._unpack = unpack
        self.schedule = PartitionSchedule(POLL_SECONDS)
        """When something is due in each partition, as far as this process knows."""

    async def enqueue(self, partition: int, messages: Sequence[CallbackMessage], pause_ms: int = 0) -> None:
        """Enqueue messages, each to be sent at least `pause_ms` after the last message of its name.

        A message changes nothing if it, or a newer one of its name, is in the queue or was just delivered. Raises
        StoreUnavailable.
        """
        enqueuing = [
            callback_enqueue(
                callback=keys.callback(partition, message.name),
                due=keys.callbacks_due(partition),
                record=_record(partition, message),
                name=message.name,
                id=message.id,
                pause=pause_ms,
                happened=message.at,
                about=message.about,
                after="" if message.after is None else message.after,
                fields=("url", message.url, "type", message.type, "data", msgspec.json.encode(message.data)),
            )
            for message in messages
        ]
        await self._store.run_all(enqueuing)
        self.schedule.due_in(partition)

    async def take(self, partitions: Sequence[int]) -> list[Callback]:
        """Take the due callbacks of some partitions for this worker alone. Partitions out of reach are left for later.

        Raises StoreUnavailable if all are out of reach.
        """
        ours_until = get_running_loop().time() + HIDDEN_MS / 1000
        due = {partition: keys.callbacks_due(partition) for partition in partitions}
        taken: list[tuple[int, str]] = []
        for partition, found in (await take_due(self._store, due, HIDDEN_MS)).items():
            if found.next_seconds is not None:
                self.schedule.due_in(partition, found.next_seconds)
            taken += [(partition, name) for name in found.names]
        replies = await self._store.run_reachable([("HGETALL", keys.callback(*each)) for each in taken])
        rows = [(*each, fields_of(reply)) for each, reply in reached(taken, replies)]
        # A callback without `attempt` is over: the worker that had it before, and was too slow, has just settled it.
        read = [_read(*row, ours_until) for row in rows if b"attempt" in row[-1]]
        return [callback for callback in read if callback]

    async def settle(
        self, callback: Callback, ending: Ending, pause_ms: int, reason: str = "", publisher: str = ""
    ) -> None:
        """Record how an attempt ended. Safe to repeat. Raises StoreUnavailable."""
        partition = callback.partition
        await self._store.run(
            callback_settle(
                callback=keys.callback(partition, callback.name),
                due=keys.callbacks_due(partition),
                dead=keys.callbacks_dead(partition),
                record=_record(partition, callback),
                of_site=keys.callbacks_dead_of(partition, site_part(publisher)),
                name=callback.name,
                id=callback.id,
                attempt=callback.attempt,
                ending=ending,
                pause=pause_ms,
                reason=reason,
                misses=callback.misses,
                keep=DEAD_LETTERS_KEPT,
                keep_of_site=DEAD_LETTERS_OF_A_SITE,
                remember=REMEMBER_MS,
                about=callback.about,
                told="" if callback.after is None else cast("int", callback.data["seq"]),
            )
        )
        self.schedule.due_in(partition, pause_ms / 1000)

    async def raw_dead(self) -> list[RawDeadLetter]:
        """Return all dead letters as they are stored, oldest first. Raises StoreUnavailable."""
        streams = (keys.callbacks_dead(partition) for partition in range(ids.PARTITIONS))
        found = await self._store.run_all(("XRANGE", stream, "-", "+") for stream in streams)
        kept = [
            RawDeadLetter(partition, entry, fields)
            for partition, entries in enumerate(found)
            for entry, fields in entries_of(entries)
        ]
        return sorted(kept, key=lambda each: int(each.entry.partition("-")[0]))

    async def dead(self) -> list[DeadLetter]:
        """Return the dead letters that can be read, oldest first. Raises StoreUnavailable."""
        return readable_letters(await self.raw_dead())

    async def drop(self, letter: DeadLetter | RawDeadLetter) -> None:
        """Delete a dead letter. Raises StoreUnavailable."""
        await self._store.command("XDEL", keys.callbacks_dead(letter.partition), letter.entry)

    async def discard(self, partition: int, name: str) -> None:
        """Remove a callback from the queue, even one that cannot be read. Raises StoreUnavailable."""
        await self._store.run(
            callback_discard(callback=keys.callback(partition, name), due=keys.callbacks_due(partition), name=name)
        )

    async def redrive(self, letter: DeadLetter) -> None:
        """Enqueue a dead letter again, from the first attempt on. Raises StoreUnavailable."""
        await self.enqueue(letter.partition, [letter])
        await self.drop(letter)

    async def publisher(self, callback: Callback) -> str | None:
        """Return the publisher that gave the URL (`node.callbacks.owners`).

        None if the entity is gone, or no longer names this receiver. Raises StoreUnavailable.
        """
        found = await self._store.command("HMGET", _entity(callback), *RECEIVER)
        url, publisher = cast("list[bytes | None]", found)
        if url is None and (task_id := callback.data.get("task_id")):
            # The contract may have been compacted: a dead letter can be sent again long after the contract has ended.
            packed = await self._store.command("GET", keys.packed(str(task_id)))
            fields: Mapping[bytes, bytes] = self._unpack(cast("bytes", packed)) if packed else {}
            url, publisher = (fields.get(name) for name in RECEIVER)
        if url != callback.url.encode():
            return None
        return publisher.decode() if publisher else publisher_of_url(callback.url)

    async def forget_target(self, callback: Callback) -> None:
        """Remove the callback_url from the entity, whose receiver wants no more callbacks. Another URL that the entity
        has by now stays. Raises StoreUnavailable.
        """
        await self._store.run(callback_forget(entity=_entity(callback), field="callback_url", value=callback.url))


async def pending_count(store: Store) -> int:
    """Return the number of callbacks in the queue. Raises StoreUnavailable."""
    return await total_of(store, (("ZCARD", keys.callbacks_due(partition)) for partition in range(ids.PARTITIONS)))


async def overdue_ms(store: Store) -> int:
    """Return by how many milliseconds the oldest callback that no worker has taken is overdue; 0 if there is none.

    Raises StoreUnavailable.
    """
    schedules = [keys.callbacks_due(partition) for partition in range(ids.PARTITIONS)]
    heads = cast("list[list[bytes]]", await store.run_all(("ZRANGE", each, 0, 0, "WITHSCORES") for each in schedules))
    due = [int(float(head[1])) for head in heads if head]
    return max(0, await now_ms(store) - min(due)) if due else 0


async def dead_count(store: Store) -> int:
    """Return the number of dead letters. Raises StoreUnavailable."""
    return await total_of(store, (("XLEN", keys.callbacks_dead(partition)) for partition in range(ids.PARTITIONS)))


def _record(partition: int, message: CallbackMessage) -> Key:
    """Return the key of the delivery record, which the owner of the entity sees."""
    names = (*ENTITIES, "inbox_task")
    return keys.callback_record(partition, next(str(message.data[name]) for name in names if name in message.data))


def _entity(callback: Callback) -> Key:
    """Return the key of the entity that a callback tells of."""
    return next(key(str(callback.data[name])) for name, key in ENTITIES.items() if name in callback.data)


def _read(partition: int, name: str, fields: dict[bytes, bytes], ours_until: float) -> Callback | None:
    """Return a callback that was taken; None if it cannot be read. The others that were taken do not wait for it. It
    becomes due again by itself: another version of the node may be able to read it.
    """
    try:
        return Callback(
            **asdict(_message(name, fields)),
            partition=partition,
            attempt=int(fields[b"attempt"]),
            misses=int(fields[b"misses"]),
            waited=int(fields.get(b"waited", 0)),  # version 1.0.0 did not count it
            ours_until=ours_until,
        )
    except Exception:
        log.exception("callback not read", partition=partition, callback=name)
        return None


def readable_letters(kept: Sequence[RawDeadLetter]) -> list[DeadLetter]:
    """Return the dead letters that can be read, oldest first."""
    letters = show_each((((each.partition, each.entry), each) for each in kept), lambda _, each: _letter(each))
    return sorted(letters.values(), key=lambda letter: letter.at)


def _letter(kept: RawDeadLetter) -> DeadLetter:
    return DeadLetter(
        **asdict(_message(kept.fields[b"name"].decode(), kept.fields)),
        partition=kept.partition,
        entry=kept.entry,
        attempts=int(kept.fields[b"attempts"]),
        reason=kept.fields[b"reason"].decode(),
    )


def _message(name: str, fields: Mapping[bytes, bytes]) -> CallbackMessage:
    return CallbackMessage(
        name=name,
        id=fields[b"id"].decode(),
        url=fields[b"url"].decode(),
        type=fields[b"type"].decode(),
        at=int(fields[b"at"]),
        data=msgspec.json.decode(fields[b"data"]),
        after=number(fields.get(b"after")),
    )
