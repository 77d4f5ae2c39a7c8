"""Threads and replies in Redis, and the lists of threads: one for each status, across all partitions."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Literal, cast

from node.board.model import Reply, ThreadStatus
from node.board.record import THREAD_FIELDS, Row, StoredThread, has_status, hidden_in, reply_of, thread_of
from node.common.own_terms import OwnTerms
from node.common.refusal import Refused
from node.common.unreadable import show_each
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import Arg, RedisReply, Store, StoreUnavailable, ids, keys
from node.store.batcher import Batcher
from node.store.decoding import code_of, entries_of, flat_of
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import QuotaArguments, QuotaLimit, RateLimit, counted
from node.store.lists import Listing, page_of, project
from node.store.long_poll import wait_for_next
from node.store.replay import FirstUse, unrecorded
from node.store.search_keys import BOARD_KEYS
from node.store.steps import Key, Rest, step
from node.store.unreadable import read_each, read_reachable

LISTS: dict[ThreadStatus, Key] = {
    "open": keys.OPEN_THREADS,
    "closed": keys.CLOSED_THREADS,
    "hidden": keys.HIDDEN_THREADS,
}

LISTED_BY = ("status", "created_at", "last_reply_at")
"""Fields of a thread that decide where it is listed: the status decides the list, the times the position in it."""

REFUSALS = {
    b"unknown": "thread.unknown",
    b"closed": "thread.closed",
    b"signer": "thread.signer",
    b"conflict": "idempotency.conflict",
    b"signature": "signature.replayed",
}
"""Codes for the refusals of the scripts."""

Fields = Mapping[str, str | bytes]


@step
def thread_post(
    *,
    rate: Key,
    quota: QuotaArguments,
    thread: Key,
    once: Once,
    first_use: FirstUse,
    events: Key,
    doc: Key,
    limit: Limit,
    thread_id: str,
    client: str,
    own: OwnTerms,
    fields: Rest,
) -> None:
    """Count and keep a new thread of a client, once."""


@step
def reply_add(
    *,
    thread: Key,
    replies: Key,
    rate: Key,
    once: Once,
    first_use: FirstUse,
    events: Key,
    site: Key,
    limit: Limit,
    thread_id: str,
    reply_id: str,
    client: str,
    site_count: int,
    fields: Rest,
) -> None:
    """Count and keep a reply of a client, once."""


@step
def thread_close(*, thread: Key, first_use: FirstUse, events: Key, thread_id: str, status: str, signer: str) -> None:
    """Close a thread, so that it takes no more replies, or open it again."""


@step
def thread_purge(
    *, thread: Key, replies: Key, callback: Key, due: Key, events: Key, reports: Key, thread_id: str, idle_since: int
) -> None:
    """Remove a thread with everything that belongs to it."""


class BoardStore:
    """Posts, replies, closes, reads and lists. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._touched = Batcher(store, _moved_up)

    async def post(
        self, rate: QuotaLimit, idempotency: IdempotencyKey | None, replay_id: str, fields: Fields, own: OwnTerms
    ) -> tuple[str, int, bool]:
        """Post a thread. Returns its id, when it was created (ms), and whether the same request had posted it before.

        `own`: the terms of its text, kept with it.

        Raises Refused `limit.exceeded`, `quota.board`, `idempotency.conflict`, `signature.replayed`.
        """
        partition = ids.home_of(rate.client)
        replay_id = await unrecorded(self._store, idempotency, replay_id, partition)
        thread_id = ids.new_id(partition)
        thread = keys.thread(thread_id)
        reply = await self._store.run(
            thread_post(
                rate=keys.rate(partition, "board", rate.client),
                quota=QuotaArguments.of("board", rate.client, rate.most),
                thread=thread,
                once=Once.of(idempotency, partition, thread, self._idempotency_ms),
                first_use=FirstUse.of(replay_id, partition, thread),
                events=keys.events(partition),
                doc=BOARD_KEYS.doc(thread_id),
                limit=rate.limit,
                thread_id=thread_id,
                client=rate.client,
                own=own,
                fields=flat_of(fields),
            )
        )
        kind, outcome = counted(rate, reply)
        match kind, outcome:
            case b"posted", [created_at]:
                return thread_id, created_at, False
            case b"replayed", [original, created_at]:
                return original.decode(), created_at, True
            case b"quota", [wait]:
                raise Refused("quota.board", retry_after=wait / 1000, most=rate.most)
            case _:
                raise Refused(REFUSALS[kind])

    async def reply(
        self, rate: RateLimit, thread_id: str, idempotency: IdempotencyKey | None, replay_id: str, fields: Fields
    ) -> tuple[str, int, int, bool]:
        """Add a reply. Returns its id, its sequence number, when it was created (ms), and whether the same request had
        added it before.

        Raises Refused `thread.unknown`, `thread.closed`, `limit.exceeded`, `idempotency.conflict`,
        `signature.replayed`.
        """
        partition = ids.partition_of_id(thread_id)
        thread, kind = keys.thread(thread_id), f"reply:{thread_id}"
        reply_id = ids.new_id(partition)
        reply = await self._store.run(
            reply_add(
                thread=thread,
                replies=keys.replies(thread_id),
                rate=keys.rate(partition, kind, rate.client),
                once=Once.of(idempotency, partition, thread, self._idempotency_ms),
                first_use=FirstUse.of(replay_id, partition, thread),
                events=keys.events(partition),
                site=keys.rate(partition, kind, site_of(rate.client)),
                limit=rate.limit,
                thread_id=thread_id,
                reply_id=reply_id,
                client=rate.client,
                site_count=rate.limit.count * SITE_SHARE,
                fields=flat_of(fields),
            )
        )
        kind, outcome = counted(rate, reply)
        match kind, outcome:
            case b"added", [seq, created_at]:
                return reply_id, seq, created_at, False
            case b"replayed", [seq, created_at, original]:
                return original.decode(), seq, created_at, True
            case _:
                raise Refused(REFUSALS[kind])

    async def close(
        self, thread_id: str, status: Literal["closed", "open"] = "closed", signer: str = "", replay_id: str = ""
    ) -> None:
        """Close a thread as its `signer`. If `signer` is empty, close it or open it again as the operator.

        Raises Refused `thread.unknown`, `thread.signer`, `signature.replayed`.
        """
        partition = ids.partition_of_id(thread_id)
        thread = keys.thread(thread_id)
        reply = await self._store.run(
            thread_close(
                thread=thread,
                first_use=FirstUse.of(replay_id, partition, thread),
                events=keys.events(partition),
                thread_id=thread_id,
                status=status,
                signer=signer,
            )
        )
        (kind,) = cast("list[bytes]", reply)
        if kind != b"closed":
            raise Refused(REFUSALS[kind])

    async def purge(self, thread_ids: Sequence[str], idle_since: int = 0) -> list[str]:
        """Remove threads with their replies. Returns the ids of those removed.

        `idle_since`: only threads in which nothing happened after this time (ms) are removed; 0 = all.
        """
        steps = [
            thread_purge(
                thread=keys.thread(thread_id),
                replies=keys.replies(thread_id),
                callback=keys.callback(partition, thread_id),
                due=keys.callbacks_due(partition),
                events=keys.events(partition),
                reports=keys.reports(partition),
                thread_id=thread_id,
                idle_since=idle_since,
            )
            for thread_id in thread_ids
            for partition in [ids.partition_of_id(thread_id)]
        ]
        replies = await self._store.run_all(steps)
        return [thread_id for thread_id, reply in zip(thread_ids, replies, strict=True) if code_of(reply) == "purged"]

    async def sources(self, thread_ids: Sequence[str]) -> list[str]:
        """Return where each thread comes from: `board` or `relay`; empty if the thread is unknown."""
        found = await self._store.run_all([("HGET", keys.thread(each), "source") for each in thread_ids])
        return [source.decode() if source else "" for source in cast("list[bytes | None]", found)]

    async def thread(self, thread_id: str) -> StoredThread | None:
        """Return a thread without its replies; None if it is unknown."""
        return thread_of(thread_id, await self._store.command("HMGET", keys.thread(thread_id), *THREAD_FIELDS))

    async def read(self, thread_id: str, since_seq: int, limit: int) -> tuple[StoredThread | None, list[Reply]]:
        """Return a thread, or None if it is unknown, and its replies after `since_seq`, including hidden ones."""
        # Replies are read first, so that `reply_count` may be ahead of them but never behind. This is not a script,
        # since turning a hundred replies into Lua tables and back takes Redis five times as long as reading them.
        replies, thread = await self._store.run_all(
            [
                ("XRANGE", keys.replies(thread_id), f"(0-{since_seq}", "+", "COUNT", limit),
                ("HMGET", keys.thread(thread_id), *THREAD_FIELDS),
            ]
        )
        return thread_of(thread_id, thread), [reply_of(thread_id, *entry) for entry in entries_of(replies)]

    async def with_reply(self, thread_id: str, seq: int) -> tuple[StoredThread | None, Reply | None]:
        """Return a thread, and its reply with that number, hidden or not; None for either that does not exist."""
        thread, replies = await self.read(thread_id, max(seq - 1, 0), 1)
        return thread, next((each for each in replies if each.seq == seq), None)

    async def posts(self, refs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], StoredThread | Reply | None]:
        """Return a thread (number 0) or reply for each thread id and number; None if it is hidden or does not exist.

        Posts that cannot be read are left out.
        """
        return await read_each(refs, self._posts)

    async def _posts(self, refs: Sequence[tuple[str, int]]) -> list[StoredThread | Reply | None]:
        rows = await self._store.run_all(
            [
                command
                for thread_id, seq in refs
                for command in (
                    ("HMGET", keys.thread(thread_id), *(("status", "hidden_replies") if seq else THREAD_FIELDS)),
                    ("XRANGE", keys.replies(thread_id), f"0-{seq}", f"0-{seq}"),
                )
            ],
        )
        found: list[StoredThread | Reply | None] = []
        for (thread_id, seq), post, entries in zip(refs, rows[::2], rows[1::2], strict=True):
            if not seq:
                thread = thread_of(thread_id, post)
                found.append(thread if thread and thread.status != "hidden" else None)
                continue
            status, hidden = cast("tuple[bytes | None, bytes | None]", post)
            replies = [reply_of(thread_id, *entry) for entry in entries_of(entries)]
            is_seen = status not in (None, b"hidden") and seq not in hidden_in(hidden)
            found.append(replies[0] if replies and is_seen else None)
        return found

    async def wait(
        self, thread_id: str, seconds: float, since_seq: int, limit: int
    ) -> tuple[StoredThread | None, list[Reply]]:
        """Read as `read` does, once there is a reply or none can come, or after `seconds`."""
        return await wait_for_next(
            self._store.wakeups,
            keys.thread(thread_id),
            seconds,
            since_seq,
            lambda since: self.read(thread_id, since, limit),
            last_of=lambda found: found[0] and found[0].last_seq,
            is_new=lambda found: (
                found[0] is None
                or found[0].status != "open"
                or len(found[1]) == limit  # all of them may be hidden, and others follow
                or any(each.seq not in found[0].hidden_replies for each in found[1])
            ),
        )

    async def rows(self, status: ThreadStatus, limit: int, offset: int) -> tuple[list[Row], int, bool]:
        """Return rows of threads of a status, newest activity first; how many there are; and whether some are missing
        because they are out of reach.

        A list may lag behind the threads: a thread that has left the status is taken off the list and not counted.
        """
        thread_ids, total = await page_of(self._store, LISTS[status], limit, offset)
        known, lacking = await read_reachable(thread_ids, self._values)
        named = status.encode()
        threads = [row for row in cast("Iterable[Row]", known.items()) if has_status(row, named)]
        if stale := known.keys() - {thread_id for thread_id, _ in threads}:
            with suppress(StoreUnavailable):
                await self.project(list(stale))
        return threads, total - (len(thread_ids) - len(lacking) - len(threads)), bool(lacking)

    async def list(self, status: ThreadStatus, limit: int, offset: int) -> tuple[list[StoredThread], int, bool]:
        """Return `rows` as records, without those that cannot be read."""
        rows, total, is_incomplete = await self.rows(status, limit, offset)
        threads = [thread for thread in show_each(rows, thread_of).values() if thread]
        return threads, total - (len(rows) - len(threads)), is_incomplete

    async def _values(self, thread_ids: Sequence[str]) -> Sequence[RedisReply | StoreUnavailable]:
        """Return the THREAD_FIELDS of each thread, or the error of a server that is out of reach if others are not."""
        return await self._store.run_reachable(("HMGET", keys.thread(each), *THREAD_FIELDS) for each in thread_ids)

    async def project(self, thread_ids: Sequence[str]) -> None:
        """Put each thread into the list of its status, and into no other."""
        await project(self._store, thread_ids, keys.thread, LISTED_BY, self._put, deciding=1)

    async def _put(self, rows: Listing) -> None:
        changes: list[list[str | bytes]] = []
        for name, listed in LISTS.items():
            here = [
                part
                for thread_id, (status, created, replied) in rows.items()
                if status == name.encode()
                for part in (replied or created or b"0", thread_id)
            ]
            elsewhere = [thread_id for thread_id, (status, *_) in rows.items() if status != name.encode()]
            if here:
                changes.append(["ZADD", listed, "GT", *here])  # GT: a late change never moves a thread back in time
            if elsewhere:
                changes.append(["ZREM", listed, *elsewhere])
        await self._store.run_all(changes)

    def touch(self, thread_id: str, active: int) -> None:
        """Move a new or answered thread to the top of the list of open ones, together with those of other requests.

        The answer does not wait for this. When this process reads the list later, the list has the change. When
        another process reads it within milliseconds, it may not: Redis keeps the order of commands of one connection,
        but not of several. If Redis is out of reach, the worker does the same soon.
        """
        self._touched.add((active, thread_id))


def _moved_up(touched: Sequence[tuple[int, str]]) -> list[tuple[Arg, ...]]:
    """Return the command that moves threads up in the list of open ones."""
    return [("ZADD", keys.OPEN_THREADS, "GT", *chain.from_iterable(touched))]
