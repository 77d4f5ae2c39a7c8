"""Threads and replies in Redis, and the lists of threads that span all partitions: one for each status."""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.config import Limit
from node.store import Store, WakeUps, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey, home_of
from node.store.limits import Taken, window
from node.store.replay import REPLAY_MS
from node.store.scripts import script

POST = script("thread_post")
ADD = script("reply_add")
CLOSE = script("thread_close")
PURGE = script("thread_purge")

LISTS = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}

Fields = dict[bytes, bytes]


class Posted(msgspec.Struct, frozen=True):
    """How a post ended."""

    kind: Literal["posted", "replayed", "conflict", "signature"]
    id: str
    created_at: int = 0


class Added(msgspec.Struct, frozen=True):
    """How a reply ended; `taken` is None when the thread is unknown."""

    kind: Literal["added", "replayed", "limited", "closed", "conflict", "signature", "unknown"]
    taken: Taken | None
    id: str
    seq: int = 0
    created_at: int = 0


class BoardStore:
    """Posts, replies, closes, reads and lists."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    @property
    def wakeups(self) -> WakeUps:
        """Where waiting readers are woken."""
        return self._store.wakeups

    async def post(
        self, client: str, idempotency: IdempotencyKey | None, replay_id: str, fields: Sequence[str | bytes]
    ) -> Posted:
        """Post a thread. A `replay_id` is refused when it was used before. Raises StoreUnavailable."""
        home = await home_of(self._store, idempotency, replay_id)
        if home is None:
            return Posted("signature", "")
        wanted, replay_id = home
        thread_id = ids.new_id(wanted)
        partition = ids.partition_of_id(thread_id)
        thread = keys.thread(thread_id)
        reply = await self._store.run(
            POST,
            [
                thread,
                keys.idempotency(partition, idempotency.scope) if idempotency else thread,
                keys.replay(partition, replay_id) if replay_id else thread,
                keys.events(partition),
            ],
            [
                idempotency.digest if idempotency else "",
                self._idempotency_ms,
                REPLAY_MS if replay_id else 0,
                thread_id,
                ids.site_name(client),
                *fields,
            ],
        )
        match code_of(reply), reply:
            case "posted", [_, int(at)]:
                return Posted("posted", thread_id, at)
            case "replayed", [_, bytes(original), int(at)]:
                return Posted("replayed", original.decode(), at)
            case kind, _:
                return Posted(cast("Literal['conflict']", kind), thread_id)

    async def reply(
        self,
        thread_id: str,
        client: str,
        limit: Limit,
        idempotency: IdempotencyKey | None,
        replay_id: str,
        fields: Sequence[str | bytes],
    ) -> Added:
        """Add a reply. Raises StoreUnavailable."""
        partition = ids.partition_of_id(thread_id)
        thread = keys.thread(thread_id)
        reply_id = ids.new_id(partition)
        reply = cast(
            "list[bytes | int]",
            await self._store.run(
                ADD,
                [
                    thread,
                    keys.replies(thread_id),
                    keys.rate(partition, f"reply:{thread_id}", client),
                    keys.idempotency(partition, idempotency.scope) if idempotency else thread,
                    keys.replay(partition, replay_id) if replay_id else thread,
                    keys.events(partition),
                ],
                [
                    *window(limit),
                    idempotency.digest if idempotency else "",
                    self._idempotency_ms,
                    REPLAY_MS if replay_id else 0,
                    thread_id,
                    reply_id,
                    ids.site_name(client),
                    *fields,
                ],
            ),
        )
        kind = cast("Literal['added']", code_of(reply))
        taken = Taken.of(*reply[1:4]) if len(reply) > 1 else None
        seq, at, *original = cast("tuple[int, int]", tuple(reply[4:])) or (0, 0)
        return Added(kind, taken, cast("list[bytes]", original)[0].decode() if original else reply_id, seq, at)

    async def close(self, thread_id: str, status: str, signer: str = "", replay_id: str = "") -> str:
        """Close or hide: `closed`, `unknown`, `signer` or `signature`. Raises StoreUnavailable."""
        partition = ids.partition_of_id(thread_id)
        thread = keys.thread(thread_id)
        replay = keys.replay(partition, replay_id) if replay_id else thread
        args = [thread_id, status, signer, REPLAY_MS if replay_id else 0]
        return code_of(await self._store.run(CLOSE, [thread, replay, keys.events(partition)], args))

    async def source(self, thread_id: str) -> str:
        """Where a thread comes from: `board` or `relay`; empty if it is unknown. Raises StoreUnavailable."""
        source = await self._store.command("HGET", keys.thread(thread_id), "source")
        return cast("bytes", source).decode() if source else ""

    async def purge(self, thread_id: str, idle_since: int | None = None) -> str:
        """Remove a thread with its replies: `purged` or `unknown`. Raises StoreUnavailable.

        `active` if something happened in it after `idle_since` (ms).
        """
        partition = ids.partition_of_id(thread_id)
        place = [
            keys.thread(thread_id),
            keys.replies(thread_id),
            keys.callback(partition, thread_id),
            keys.callbacks_due(partition),
            keys.events(partition),
        ]
        return code_of(await self._store.run(PURGE, place, [thread_id, "" if idle_since is None else idle_since]))

    async def read(self, thread_id: str, since: int, limit: int) -> tuple[Fields, list[tuple[int, Fields]]]:
        """A thread (empty if unknown) and its replies after `since`. Raises StoreUnavailable."""
        # Replies first: the thread's own count may be ahead of them, never behind. Not a script: turning a hundred
        # replies into Lua's tables and back takes Redis five times as long as reading them.
        replies, thread = await self._store.commands(
            [
                ("XRANGE", keys.replies(thread_id), f"(0-{since}", "+", "COUNT", limit),
                ("HGETALL", keys.thread(thread_id)),
            ]
        )
        entries = cast("list[tuple[bytes, object]]", replies)
        return fields_of(thread), [(int(entry[2:]), fields_of(fields)) for entry, fields in entries]

    async def list(self, status: str, limit: int, offset: int) -> tuple[list[tuple[str, Fields]], int]:
        """Threads by newest activity, and how many there are. Raises StoreUnavailable."""
        listed = LISTS[status]
        ids, total = await self._store.commands([("ZREVRANGE", listed, offset, offset + limit - 1), ("ZCARD", listed)])
        names = [name.decode() for name in cast("list[bytes]", ids)]
        found = await self._store.commands([("HGETALL", keys.thread(name)) for name in names])
        return list(zip(names, map(fields_of, found), strict=True)), cast("int", total)

    async def project(self, thread_id: str, fields: Fields) -> None:
        """Put a thread where its status says, and nowhere else; doing it again changes nothing."""
        active = fields.get(b"last_reply_at") or fields.get(b"created_at") or b"0"
        await self._place([(thread_id, fields.get(b"status", b""), active)])

    async def project_all(self, thread_ids: Sequence[str]) -> None:
        """Put threads where their statuses say, as they are now, and nowhere else. Raises StoreUnavailable."""
        rows = await self._store.commands(
            ("HMGET", keys.thread(each), "status", "created_at", "last_reply_at") for each in thread_ids
        )
        found = cast("list[tuple[bytes | None, bytes | None, bytes | None]]", rows)
        await self._place(
            [
                (thread_id, status or b"", replied or created or b"0")
                for thread_id, (status, created, replied) in zip(thread_ids, found, strict=True)
            ]
        )

    async def _place(self, threads: Sequence[tuple[str, bytes, bytes]]) -> None:
        """List threads, given their status and the time (ms) of their last activity."""
        changes: list[list[str | bytes]] = []
        for name, listed in LISTS.items():
            here = [
                part for thread_id, status, active in threads if status == name.encode() for part in (active, thread_id)
            ]
            elsewhere = [thread_id for thread_id, status, _ in threads if status != name.encode()]
            if here:
                changes.append(["ZADD", listed, "GT", *here])  # GT: a step that comes late never moves a thread back
            if elsewhere:
                changes.append(["ZREM", listed, *elsewhere])
        await self._store.commands(changes)

    async def touch(self, thread_id: str, active: int) -> None:
        """A new or answered thread goes to the top of the open list. Raises StoreUnavailable."""
        await self._store.command("ZADD", keys.OPEN_THREADS, "GT", active, thread_id)
