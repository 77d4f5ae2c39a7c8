"""Moderation for the operator: closes, hides and removes posts, and shows hidden ones and who posted each."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Literal

from node.board.model import ModeratedReply, ModeratedThread, ReportedPost, ThreadOrigin, ThreadStatus
from node.board.moderation_store import ModerationStore, StoredReports
from node.board.provenance import Provenance
from node.board.record import StoredThread
from node.board.store import BoardStore
from node.common.refusal import Refused
from node.common.timestamps import milliseconds, optional_timestamp, timestamp
from node.store import StoreUnavailable, ids
from node.store.errors import OutOfMemory

PAGE_SIZE = 100
"""Replies that are read together."""

EXCERPT_LENGTH = 400
"""Most characters of a reported post that the queue shows to the operator."""


class Moderation:
    """Each operation changes one post and is idempotent. Every method raises StoreUnavailable."""

    def __init__(self, store: BoardStore, posts: ModerationStore, provenance: Provenance) -> None:
        self._store = store
        self._posts = posts
        self._provenance = provenance

    async def find(self, thread_id: str, seq: int = 0) -> ModeratedThread:
        """Return the thread of a post. Raises Refused `thread.unknown` if there is no such post."""
        thread = await self._read(thread_id)
        if seq and (await self._store.with_reply(thread_id, seq))[1] is None:
            raise Refused("thread.unknown")
        return _moderated(thread)

    async def list(self, status: ThreadStatus, limit: int, offset: int) -> tuple[Sequence[ModeratedThread], int]:
        """Return threads of one status with the clients that posted them, newest activity first, and how many exist."""
        found, total, _ = await self._store.list(status, limit, offset)
        posters = await self._provenance.of_posts([(each.id, 0, each.created_at) for each in found])
        return [_moderated(each, by.client if by else None) for each, by in zip(found, posters, strict=True)], total

    async def origin(self, thread_id: str) -> ThreadOrigin:
        """Return a thread with its text and all its replies, and who posted each, as far as that is still recorded.

        Raises Refused `thread.unknown`.
        """
        thread = await self._read(thread_id)
        (by,) = await self._provenance.of_posts([(thread_id, 0, thread.created_at)])
        return ThreadOrigin(
            thread=_moderated(thread),
            client=by.client if by else None,
            signer=thread.signer,
            body=thread.body,
            replies=[reply async for reply in self._replies(thread)],
        )

    async def set_status(self, thread_id: str, status: Literal["closed", "open"]) -> None:
        """Close a thread, or open it again. A hidden thread stays hidden. Raises Refused `thread.unknown`."""
        ids.require_id(thread_id, "thread.unknown")
        await self._store.close(thread_id, status)
        await self._store.project([thread_id])

    async def hide(self, thread_id: str, seq: int = 0) -> None:
        """Hide a thread, or one reply, from everybody but the operator. Raises Refused `thread.unknown`."""
        await self._change(thread_id, seq, "hide")

    async def show(self, thread_id: str, seq: int = 0) -> None:
        """Undo `hide`. Raises Refused `thread.unknown`."""
        await self._change(thread_id, seq, "show")

    async def purge(self, thread_id: str, seq: int = 0) -> None:
        """Remove a thread with its replies, or one reply, from the board and, through an event, from the search.

        Raises Refused `thread.unknown`.
        """
        if seq:
            await self._change(thread_id, seq, "purge")
        else:
            await self.find(thread_id)
            await self._store.purge([thread_id])
            await self._store.project([thread_id])

    async def report(self, thread_id: str, seq: int, client: str, reason: str, threshold: int) -> bool:
        """Keep a client's report about a post. The post is hidden by `threshold` reports; 0 = never.

        Returns whether the report is kept now. It is not if the client has reported the post before, or if there are
        enough reports. Raises Refused `thread.unknown`.
        """
        outcome = await self._posts.report(thread_id, seq, client, reason, threshold)
        if outcome == "unknown":
            raise Refused("thread.unknown")
        if threshold:
            # If the post was hidden, it stays so even if the lists cannot be changed now; the worker changes them soon.
            with suppress(StoreUnavailable):
                await self._store.project([thread_id])
        return outcome == "kept"

    async def reported(self, limit: int) -> Sequence[ReportedPost]:
        """Return posts that the operator has not looked at since they were reported, those reported last first."""
        return [await self._reported(each) for each in await self._posts.waiting(limit)]

    async def reports_of(self, thread_id: str, seq: int) -> ReportedPost:
        """Return the reports about a post. Raises Refused `report.unknown`."""
        found = await self._posts.reported(thread_id, seq)
        if found is None:
            raise Refused("report.unknown")
        return await self._reported(found)

    async def settle(self, thread_id: str, seq: int, action: Literal["hide", "dismiss"]) -> None:
        """Take a reported post off the queue, and hide it or, if its reports have hidden it, show it again.

        Raises Refused `report.unknown`.
        """
        if not await self._posts.settle(thread_id, seq, action):
            raise Refused("report.unknown")
        await self._project(thread_id)

    async def _replies(self, thread: StoredThread) -> AsyncIterator[ModeratedReply]:
        """Yield all replies of a thread, with the clients that posted them."""
        last_seq = 0
        while page := (await self._store.read(thread.id, last_seq, PAGE_SIZE))[1]:
            known = await self._provenance.of_posts(
                [(thread.id, each.seq, milliseconds(each.created_at)) for each in page]
            )
            for each, by in zip(page, known, strict=True):
                yield ModeratedReply(
                    seq=each.seq,
                    created_at=each.created_at,
                    client=by.client if by else None,
                    signer=by.signer if by else None,
                    is_signed=each.is_signed,
                    is_hidden=each.seq in thread.hidden_replies,
                    author=each.author,
                    body=each.body,
                )
            last_seq = page[-1].seq

    async def _change(self, thread_id: str, seq: int, action: Literal["hide", "show", "purge"]) -> None:
        ids.require_id(thread_id, "thread.unknown")
        if not await self._posts.change(thread_id, seq, action):
            raise Refused("thread.unknown")
        await self._project(thread_id)

    async def _project(self, thread_id: str) -> None:
        """Put a thread into the list of its status. If Redis has no memory for that, a worker does so later."""
        with suppress(OutOfMemory):
            await self._store.project([thread_id])

    async def _read(self, thread_id: str) -> StoredThread:
        ids.require_id(thread_id, "thread.unknown")
        thread = await self._store.thread(thread_id)
        if thread is None:
            raise Refused("thread.unknown")
        return thread

    async def _reported(self, stored: StoredReports) -> ReportedPost:
        thread, reply = await self._store.with_reply(stored.thread_id, stored.seq)
        body = reply.body if reply else thread.body if thread and not stored.seq else None
        return ReportedPost(
            thread_id=stored.thread_id,
            seq=stored.seq,
            waiting=stored.waiting,
            last_at=timestamp(stored.last_at),
            is_hidden=thread is not None
            and (thread.status == "hidden" if not stored.seq else stored.seq in thread.hidden_replies),
            hidden_by_reports=stored.has_hidden,
            title=thread.title if thread else None,
            excerpt=body[:EXCERPT_LENGTH] if body else None,
            reasons=[f"{timestamp(at)} {reason}" for at, reason in stored.reasons],
        )


def _moderated(thread: StoredThread, client: str | None = None) -> ModeratedThread:
    return ModeratedThread(
        id=thread.id,
        status=thread.status,
        title=thread.title,
        author=thread.author,
        source=thread.source,
        is_signed=thread.signature is not None,
        reply_count=thread.reply_count,
        created_at=timestamp(thread.created_at),
        last_reply_at=optional_timestamp(thread.last_reply_at),
        client=client,
    )
