"""The rules of the board: what threads and replies must be, and who sees them (SPEC 4.4). Search is `node.search`."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from node.board.model import (
    NewReply,
    NewReport,
    NewThread,
    ReceivedReport,
    Reply,
    Thread,
    ThreadPage,
    ThreadPageQuery,
    ThreadQuery,
    ThreadStatus,
)
from node.board.moderation import Moderation
from node.board.record import StoredThread, Values, thread_of
from node.board.store import BoardStore
from node.callbacks.target_check import TargetCheck
from node.common.cohort import next_stage
from node.common.own_terms import NO_TERMS, TextIndex
from node.common.prepared_rows import PreparedRows
from node.common.refusal import Refused
from node.common.shared_reads import SharedReads
from node.common.timestamps import optional_timestamp, timestamp
from node.common.unreadable import show_each
from node.config import Settings
from node.sign.signed import Signed
from node.store import ids
from node.store.errors import StoreUnavailable, after_write
from node.store.idempotency import IdempotencyKey
from node.store.limits import QuotaLimit, RateLimit
from node.text.faults import require_all
from node.text.lines import require_name, require_text, require_title
from node.text.readable import readable


class Board:
    """The service behind /api/v1/board. Every method raises StoreUnavailable."""

    def __init__(
        self,
        store: BoardStore,
        moderation: Moderation,
        settings: Settings,
        targets: TargetCheck,
        index: TextIndex,
    ) -> None:
        """`index`: the search index for new threads."""
        self._store = store
        self.moderation = moderation
        self._report_threshold = settings.report_threshold
        self._index = index
        self._targets = targets
        self._pages_url = f"{settings.public_url}/board/"
        self._threads_url = f"{settings.public_url}/api/v1/board/threads/"
        self._rows = PreparedRows(self._of_row)
        self._pages = SharedReads(self._page_json)

    async def post(
        self, rate: QuotaLimit, new: NewThread, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[Thread, bool]:
        """Open a thread. Returns it, and whether the same request had opened it before.

        Raises Invalid, Refused `language.not_english`, `limit.exceeded`, `quota.board`, `idempotency.conflict`,
        `signature.replayed`; `thread.unknown` if the thread opened before was hidden or removed.
        """
        title, body = new.title, readable(new.body)
        require_all(
            lambda: require_title("title", title),
            lambda: require_text("title", title),
            lambda: require_text("body", body),
            lambda: require_name("author", new.author or ""),
            title=title,
            body=body,
        )
        await next_stage()
        fields = {"title": title, "body": body, "status": "open", "source": "board"} | _attribution(new.author, signed)
        if new.callback_url is not None:
            fields |= await self._targets.accept(new.callback_url, rate.client, idempotency)
        own = self._index.own_terms(title, body)
        thread_id, created_at, replayed = await self._store.post(rate, idempotency, signed.replay_id, fields, own)
        if replayed:
            return await self._original(thread_id), True
        self._store.touch(thread_id, created_at)
        if own is NO_TERMS:
            with suppress(StoreUnavailable):  # the thread is kept anyway, and the worker indexes it soon
                await self._index.note(thread_id, title, body)
        stored = StoredThread(
            id=thread_id,
            status="open",
            source="board",
            title=title,
            body=body,
            author=new.author or None,
            signature=signed.signature or None,
            created_at=created_at,
        )
        return self._thread(stored), False

    async def reply(
        self, rate: RateLimit, thread_id: str, new: NewReply, signed: Signed, idempotency: IdempotencyKey | None
    ) -> tuple[Reply, bool]:
        """Reply to a thread. Returns the reply, and whether the same request had added it before.

        Raises Invalid, Refused `language.not_english`, `thread.unknown`, `thread.closed`, `limit.exceeded`,
        `idempotency.conflict`, `signature.replayed`.
        """
        ids.require_id(thread_id, "thread.unknown")
        body = readable(new.body)
        require_all(lambda: require_text("body", body), lambda: require_name("author", new.author or ""), body=body)
        fields = {"body": body} | _attribution(new.author, signed)
        reply_id, seq, created_at, replayed = await self._store.reply(
            rate, thread_id, idempotency, signed.replay_id, fields
        )
        if replayed:
            return await self._original_reply(thread_id, seq), True
        self._store.touch(thread_id, created_at)
        reply = Reply(
            id=reply_id,
            seq=seq,
            thread_id=thread_id,
            body=body,
            author=new.author or None,
            is_signed=bool(signed.signer),
            signature=msgspec.json.decode(signed.signature) if signed.signer else None,
            created_at=timestamp(created_at),
        )
        return reply, False

    async def report(self, thread_id: str, new: NewReport, client: str) -> tuple[ReceivedReport, bool]:
        """Report to the operator a post that nobody should read. Each address or IPv6 /48 counts once for a post.

        The second value says whether the report is kept now. It is not if the client has reported the post before, or
        if there are enough reports. Raises Invalid, Refused `thread.unknown`.
        """
        ids.require_id(thread_id, "thread.unknown")
        reason = readable(new.reason)
        require_text("reason", reason)
        seq = new.reply_seq or 0
        is_kept = await self.moderation.report(thread_id, seq, client, reason, self._report_threshold)
        return ReceivedReport("received"), is_kept

    async def close(self, thread_id: str, signed: Signed) -> Thread:
        """Close a thread for the key that signed it. Idempotent.

        Raises Refused `thread.unknown`, `thread.signer`, `signature.replayed`.
        """
        ids.require_id(thread_id, "thread.unknown")
        if not signed.signer:
            raise Refused("thread.signer")
        await self._store.close(thread_id, "closed", signed.signer, signed.replay_id)
        # The thread is closed even if the lists cannot be changed now; the worker changes them soon.
        with suppress(StoreUnavailable):
            await self.project(thread_id)
        with after_write("the thread is closed"):
            return await self.read(thread_id, ThreadQuery())

    async def require_signer(self, thread_id: str, signer: str) -> None:
        """Raise unless the key that signed the thread has also signed the request.

        Raises Refused `thread.unknown`, `thread.signer`.
        """
        ids.require_id(thread_id, "thread.unknown")
        thread = _shown(await self._store.thread(thread_id))
        if not signer or thread.signer != signer:
            raise Refused("thread.signer")

    async def read(self, thread_id: str, query: ThreadQuery) -> Thread:
        """Return a thread with its replies, after waiting for one if the query asks for that.

        Raises Refused `thread.unknown`.
        """
        ids.require_id(thread_id, "thread.unknown")
        stored, replies = await self._store.wait(thread_id, query.wait, query.since_seq, query.limit)
        shown = _shown(stored)
        thread = self._thread(shown)
        thread.replies = [reply for reply in replies if reply.seq not in shown.hidden_replies]
        # Never beyond the last reply: otherwise a reader that asked for later ones would miss replies to come.
        seen = replies[-1].seq if replies else min(query.since_seq, shown.last_seq)
        while not replies and seen + 1 in shown.hidden_replies:  # the next reply was hidden or removed
            seen += 1
        thread.next_since_seq = seen
        return thread

    async def posts(self, refs: Sequence[tuple[str, int]]) -> list[Thread | Reply | None]:
        """Return a thread (number 0) or reply for each thread id and number; None if it is hidden or cannot be read."""
        found = await self._store.posts(refs)
        posts = show_each(found.items(), lambda _, post: self._thread(post) if isinstance(post, StoredThread) else post)
        return [posts.get(ref) for ref in refs]

    async def page(self, query: ThreadPageQuery, status: ThreadStatus = "open") -> ThreadPage:
        """Return a page of threads of one status, newest activity first."""
        return await self._page(query, status, self._of_row)

    async def page_json(self, query: ThreadPageQuery) -> bytes:
        """Return a page of the open threads as JSON.

        Simultaneous requests for the same page share a read, and rows that have not changed are not encoded again.
        """
        return await self._pages.get(query)

    async def project(self, *thread_ids: str) -> None:
        """Put threads into the lists of their status, as the worker does after every event."""
        await self._store.project(thread_ids)

    def address_of(self, reply: Reply) -> str:
        """Return the URL at which a reply can be read as JSON."""
        return f"{self._threads_url}{reply.thread_id}?since_seq={reply.seq - 1}"

    async def _page_json(self, query: ThreadPageQuery) -> bytes:
        return msgspec.json.encode(await self._page(query, "open", self._rows.of))

    async def _page(
        self, query: ThreadPageQuery, status: ThreadStatus, show: Callable[[str, Values], Thread | msgspec.Raw]
    ) -> ThreadPage:
        found, total, is_incomplete = await self._store.rows(status, query.limit, query.offset)
        threads = cast("list[Thread]", list(show_each(found, show).values()))
        total -= len(found) - len(threads)
        return ThreadPage(threads, total, query.limit, query.offset, is_incomplete or msgspec.UNSET)

    async def _original(self, thread_id: str) -> Thread:
        """Return a thread as it was when it was posted, with its signature."""
        first = msgspec.structs.replace(
            _shown(await self._store.thread(thread_id)),
            status="open",
            last_reply_at=None,
            last_seq=0,
            hidden_replies=frozenset(),
            closed_at=None,
        )
        return self._thread(first)

    async def _original_reply(self, thread_id: str, seq: int) -> Reply:
        stored, reply = await self._store.with_reply(thread_id, seq)
        if reply is None or seq in _shown(stored).hidden_replies:
            raise Refused("thread.unknown")
        return reply

    def _of_row(self, thread_id: str, values: Values) -> Thread:
        return self._thread(cast("StoredThread", thread_of(thread_id, values)))

    def _thread(self, stored: StoredThread) -> Thread:
        return Thread(
            id=stored.id,
            title=stored.title,
            body=stored.body,
            author=stored.author,
            status="open" if stored.status == "open" else "closed",
            is_signed=stored.signature is not None,
            signature=msgspec.json.decode(stored.signature) if stored.signature else None,
            created_at=timestamp(stored.created_at),
            last_reply_at=optional_timestamp(stored.last_reply_at),
            reply_count=stored.reply_count,
            source=stored.source,
            url=self._pages_url + stored.id,
            closed_at=timestamp(stored.closed_at) if stored.closed_at else msgspec.UNSET,
        )


def _shown(stored: StoredThread | None) -> StoredThread:
    """Return the thread if readers may see it. Raises Refused `thread.unknown`."""
    if stored is None or stored.status == "hidden":
        raise Refused("thread.unknown")
    return stored


def _attribution(author: str | None, signed: Signed) -> dict[str, str | bytes]:
    return ({"author": author} if author else {}) | signed.fields
