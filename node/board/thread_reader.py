"""Threads as the search reads them (`CorpusSource`): many at once, and only the fields that it needs."""

from collections.abc import Sequence
from typing import cast

from node.board.record import hidden_in
from node.store import RedisReply, Store, StoreUnavailable, keys
from node.store.decoding import entries_of
from node.store.lists import UNREACHABLE, ListedEntities


class ThreadReader(ListedEntities):
    """Reads posts by their numbers in the search: 0 is the thread's own text, replies are numbered from 1.

    Every method raises StoreUnavailable.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, keys.OPEN_THREADS)

    async def statuses(self, thread_ids: Sequence[str]) -> list[str]:
        """Return `open`, `closed` or `hidden` for each thread; empty if there is no such thread."""
        found = await self._store.run_all([("HGET", keys.thread(each), "status") for each in thread_ids])
        return [status.decode() if status else "" for status in cast("list[bytes | None]", found)]

    async def posts(self, refs: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        """Return the status of the thread, the title and the body of each post; empty if there is none.

        The status is `unreachable` if the server of a thread cannot be read but others can.
        """
        thread_ids = list(dict.fromkeys(thread_id for thread_id, _ in refs))
        with_text = {thread_id for thread_id, seq in refs if not seq}
        replies = [(thread_id, seq) for thread_id, seq in refs if seq]
        texts = ("title", "body")
        found = await self._store.run_reachable(
            [
                *(
                    ("HMGET", keys.thread(each), "status", "hidden_replies", *(texts if each in with_text else ()))
                    for each in thread_ids
                ),
                *(("XRANGE", keys.replies(each), f"0-{seq}", f"0-{seq}") for each, seq in replies),
            ]
        )
        threads = dict(zip(thread_ids, found, strict=False))
        entries = dict(zip(replies, found[len(thread_ids) :], strict=True))
        return [_post(seq, threads[thread_id], entries.get((thread_id, seq))) for thread_id, seq in refs]

    async def newest_replies(self, thread_id: str, most: int) -> list[tuple[int, str]]:
        """Return numbers and bodies of a thread's newest replies, oldest first, without hidden ones."""
        reply, hidden = await self._store.run_all(
            [
                ("XREVRANGE", keys.replies(thread_id), "+", "-", "COUNT", most),
                ("HGET", keys.thread(thread_id), "hidden_replies"),
            ]
        )
        unseen = hidden_in(cast("bytes | None", hidden))
        return [(seq, body) for seq, body in _replies(reply)[::-1] if seq not in unseen]


def _post(
    seq: int, thread: RedisReply | StoreUnavailable, entries: RedisReply | StoreUnavailable
) -> tuple[str, str, str]:
    """Return status, title and body of the thread itself (number 0), or of the reply in `entries`, if there is one."""
    if isinstance(thread, StoreUnavailable) or isinstance(entries, StoreUnavailable):
        return UNREACHABLE, "", ""
    status, hidden, *texts = [value or b"" for value in cast("list[bytes | None]", thread)]
    if not seq:
        title, body = texts
        return status.decode(), title.decode(), body.decode()
    bodies = [body for _, body in _replies(entries)]
    return status.decode(), "", bodies[0] if bodies and seq not in hidden_in(hidden) else ""


def _replies(reply: RedisReply) -> list[tuple[int, str]]:
    return [(int(entry[2:]), fields[b"body"].decode()) for entry, fields in entries_of(reply)]
