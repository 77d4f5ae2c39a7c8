"""Callbacks under way, in Redis, with all of their state: a worker that ends takes nothing with it.

A callback is enqueued in the partition of the entity that it tells of. Once it is due, one worker takes it, and settles
it after the attempt: it is over, or due again later. A worker that dies in between loses nothing, since what was taken
becomes due again by itself (HIDDEN_MS).
"""

# The parameters have the names that the scripts' headers give them.
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
"""How long a callback that was taken is not due: three times as long as an attempt may last."""

REMEMBER_MS = 10 * 60_000
"""How long a delivered message is known as such: an event that a dead worker had handled comes again within that
time."""

POLL_SECONDS = 5.0
"""Between two reads of a partition for what other processes have enqueued there."""

DEAD_LETTERS_KEPT = 1000
DEAD_LETTERS_OF_A_SITE = 100
"""Dead letters that are kept in each partition, about; and how many of them, at most, of one site of publishers."""

RECEIVER = (b"callback_url", b"callback_by")
"""Fields of an entity: where its callbacks go, and who gave that URL (`node.callbacks.owners`)."""

ENTITIES: Mapping[str, Callable[[str], Key]] = {
    "task_id": keys.task,
    "session_id": keys.session,
    "address": keys.inbox,
    "thread_id": keys.thread,
}
"""Keys of the entities that callbacks tell of, by the name that the id of each has in `data`."""

Ending = Literal["delivered", "dropped", "dead", "retry", "postpone"]
"""How an attempt ended. The last two are not the end of the callback; `postpone` was no attempt at all."""


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
    """Puts a message under way, or replaces the older one of its name that has not been sent."""


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
    """Records how an attempt ended."""


@step
def callback_discard(*, callback: Key, due: Key, name: str) -> None:
    """Removes a callback under way, whatever it holds."""


@step
def callback_forget(*, entity: Key, field: str, value: str | bytes) -> None:
    """Removes the field of an entity that names a receiver, if it still has this value."""


class CallbackMessage(msgspec.Struct, frozen=True):
    """A message for a receiver."""

    name: str
    """What it is about. Between messages of one name there is a pause, in which a newer one replaces an older one."""
    id: str
    """webhook-id."""
    url: str
    type: str
    at: int
    """When it happened, ms."""
    data: Mapping[str, object]
    after: int | None = None
    """Of replies: the number before the first one that it is about. Several in quick succession make one message, which
    must lead to all of them."""

    @property
    def about(self) -> str:
        """The part of what its owner sees of it (`delivery.py`) that no attempt changes."""
        return f"{self.at} {self.type} {urlsplit(self.url).hostname}"


def id_of_message(event: Event) -> str:
    """The webhook-id of the message about an event: the same however often the event is handled."""
    return f"msg_{event.partition:02x}_{event.id.replace('-', '_')}"


class Callback(CallbackMessage, frozen=True, kw_only=True):
    """A message on its way."""

    partition: int
    attempt: int
    """Attempts made so far."""
    misses: int = 0
    """How many of them were answered 404."""
    waited: int = 0
    """For how long it was told to wait for its turn or a breaker, ms. Time in which no worker ran does not count."""
    ours_until: float = math.inf
    """Loop time from which another worker may have taken it, too."""


class DeadLetter(CallbackMessage, frozen=True, kw_only=True):
    """A message that was given up."""

    entry: str
    """Id of the stream entry."""
    partition: int
    attempts: int
    reason: str


class RawDeadLetter(NamedTuple):
    """A dead letter as it is stored; it may lack fields."""

    partition: int
    entry: str
    """Id of the stream entry."""
    fields: Mapping[bytes, bytes]

    @property
    def id(self) -> str:
        """webhook-id; without one, its partition and the id of its stream entry."""
        return self.text(b"id", f"{self.partition:02x}-{self.entry}")

    @property
    def url(self) -> str:
        """Where it was sent."""
        return self.text(b"url")

    def text(self, field: bytes, default: str = "-") -> str:
        """A field as it can be shown."""
        return self.fields.get(field, default.encode()).decode(errors="replace")


class CallbackQueue:
    """Enqueues, takes and settles callbacks, and keeps the dead letters."""

    def __init__(self, store: Store, unpack: Callable[[bytes], Mapping[bytes, bytes]]) -> None:
        """`unpack` gives the fields of a contract that was compacted."""
        self._store = store
        self._unpack = unpack
        self.schedule = PartitionSchedule(POLL_SECONDS)
        """When something is due in which partition, as far as this process knows."""

    async def enqueue(self, partition: int, messages: Sequence[CallbackMessage], pause_ms: int = 0) -> None:
        """Put messages under way, each to be sent `pause_ms` after the last one of its name at the earliest.

        Nothing happens if a message or a newer one of its name is under way or was just delivered. Raises
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
        """Take what is due in some partitions, for this worker alone; those that are out of reach are left for later.

        Raises StoreUnavailable if all are.
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
        # Without `attempt` it is over: it was settled after its worker had been too slow.
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
        """All dead letters as they are stored, oldest first. Raises StoreUnavailable."""
        streams = (keys.callbacks_dead(partition) for partition in range(ids.PARTITIONS))
        found = await self._store.run_all(("XRANGE", stream, "-", "+") for stream in streams)
        kept = [
            RawDeadLetter(partition, entry, fields)
            for partition, entries in enumerate(found)
            for entry, fields in entries_of(entries)
        ]
        return sorted(kept, key=lambda each: int(each.entry.partition("-")[0]))

    async def dead(self) -> list[DeadLetter]:
        """The dead letters that can be read, oldest first. Raises StoreUnavailable."""
        return readable_letters(await self.raw_dead())

    async def drop(self, letter: DeadLetter | RawDeadLetter) -> None:
        """Forget a dead letter. Raises StoreUnavailable."""
        await self._store.command("XDEL", keys.callbacks_dead(letter.partition), letter.entry)

    async def discard(self, partition: int, name: str) -> None:
        """Forget a callback under way, even one that cannot be read. Raises StoreUnavailable."""
        await self._store.run(
            callback_discard(callback=keys.callback(partition, name), due=keys.callbacks_due(partition), name=name)
        )

    async def redrive(self, letter: DeadLetter) -> None:
        """Send a dead letter again, from the first attempt. Raises StoreUnavailable."""
        await self.enqueue(letter.partition, [letter])
        await self.drop(letter)

    async def publisher(self, callback: Callback) -> str | None:
        """Who gave the URL (`node.callbacks.owners`); None if the entity is gone, or no longer names that receiver.

        Raises StoreUnavailable.
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
        """Remove the callback_url from the entity, because its receiver has asked for nothing more; one that the entity
        has got meanwhile stays. Raises StoreUnavailable.
        """
        await self._store.run(callback_forget(entity=_entity(callback), field="callback_url", value=callback.url))


async def pending_count(store: Store) -> int:
    """How many callbacks are under way. Raises StoreUnavailable."""
    return await total_of(store, (("ZCARD", keys.callbacks_due(partition)) for partition in range(ids.PARTITIONS)))


async def overdue_ms(store: Store) -> int:
    """For how long the oldest callback is due that no worker has taken; 0 if all that are due were taken.

    Raises StoreUnavailable.
    """
    schedules = [keys.callbacks_due(partition) for partition in range(ids.PARTITIONS)]
    heads = cast("list[list[bytes]]", await store.run_all(("ZRANGE", each, 0, 0, "WITHSCORES") for each in schedules))
    due = [int(float(head[1])) for head in heads if head]
    return max(0, await now_ms(store) - min(due)) if due else 0


async def dead_count(store: Store) -> int:
    """How many callbacks were given up and are kept. Raises StoreUnavailable."""
    return await total_of(store, (("XLEN", keys.callbacks_dead(partition)) for partition in range(ids.PARTITIONS)))


def _record(partition: int, message: CallbackMessage) -> Key:
    """The key of what the owner of an entity sees of its callbacks."""
    names = (*ENTITIES, "inbox_task")
    return keys.callback_record(partition, next(str(message.data[name]) for name in names if name in message.data))


def _entity(callback: Callback) -> Key:
    """The key of what a callback tells of."""
    return next(key(str(callback.data[name])) for name, key in ENTITIES.items() if name in callback.data)


def _read(partition: int, name: str, fields: dict[bytes, bytes], ours_until: float) -> Callback | None:
    """A callback that was taken; None if it cannot be read. The others that were taken do not wait for it, and it is
    due again by itself: another version of the node may read it.
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
    """Those that can be read, oldest first."""
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
