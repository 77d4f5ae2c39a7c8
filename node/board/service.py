"""The board: threads that anybody may open, read and answer (SPEC 4.4)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from node.board.model import NewReply, NewThread, Reply, Thread, ThreadPage, ThreadPageQuery, ThreadQuery
from node.board.moderation import Moderation
from node.board.store import Added, BoardStore, Fields
from node.callbacks.policy import TargetPolicy
from node.common.refusal import Invalid, Refused
from node.common.timestamps import timestamp
from node.config import Limit, Settings
from node.sign.signed import Signed
from node.store import OutcomeUnknown, StoreUnavailable, ids, keys
from node.store.idempotency import IdempotencyKey
from node.store.long_poll import wait_for_change
from node.text.english import is_english
from node.text.lines import require_name, require_title
from node.text.readable import readable

Note = Callable[[str, str, str], Awaitable[None]]
"""Takes id, title and body of a new thread. Raises StoreUnavailable."""


class Board:
    """The service behind /api/v1/board."""

    def __init__(self, store: BoardStore, settings: Settings, targets: TargetPolicy, note: Note | None = None) -> None:
        """`note` tells the search of a new thread, so that it is found at once."""
        self._store = store
        self._note = note
        self._targets = targets
        self._base = f"{settings.public_url}/board/"
        self.moderation = Moderation(store)

    async def post(
        self, new: NewThread, signed: Signed | None, idempotency: IdempotencyKey | None, client: str = ""
    ) -> tuple[Thread, bool]:
        """Open a thread; the second value says whether it is an earlier one, answered again.

        `client`: whose its callbacks are.

        Raises Invalid, Refused `language.not_english`, `idempotency.conflict`,
        `signature.replayed`, StoreUnavailable.
        """
        title, body = new.title, readable(new.body)
        require_title("title", title)
        _require_text("title", title)
        _require_text("body", body)
        if not is_english(title) or not is_english(body):
            raise Refused("language.not_english")
        fields = {"title": title, "body": body, "status": "open", "source": "board"} | _attribution(new.author, signed)
        if new.callback_url is not None:
            fields |= await self._targets.accept(new.callback_url, client)
        posted = await self._store.post(client, idempotency, signed.replay_id if signed else "", flat(fields))
        if posted.kind == "conflict":
            raise Refused("idempotency.conflict")
        if posted.kind == "signature":
            raise Refused("signature.replayed")
        if posted.kind == "replayed":
            return await self._original(posted.id), True
        # The thread is kept whether or not the list can be told now: the worker will.
        with suppress(StoreUnavailable):
            await self._store.touch(posted.id, posted.created_at)
            if self._note:
                await self._note(posted.id, title, body)
        stored = {name.encode(): value.encode() if isinstance(value, str) else value for name, value in fields.items()}
        stored[b"created_at"] = str(posted.created_at).encode()
        return self._thread(posted.id, stored), False

    async def reply(
        self,
        thread_id: str,
        client: str,
        limit: Limit,
        new: NewReply,
        signed: Signed | None,
        idempotency: IdempotencyKey | None,
    ) -> tuple[Added, Reply]:
        """Answer a thread. Raises Invalid, Refused, StoreUnavailable.

        The caller settles the limit and acts on the outcome: all but `added` and `replayed` are refused.
        """
        require_id(thread_id)
        body = readable(new.body)
        _require_text("body", body)
        if not is_english(body):
            raise Refused("language.not_english")
        fields = {"body": body} | _attribution(new.author, signed)
        added = await self._store.reply(
            thread_id, client, limit, idempotency, signed.replay_id if signed else "", flat(fields)
        )
        if added.kind == "unknown":
            raise Refused("thread.unknown")
        if added.kind == "replayed":
            return added, await self._original_reply(thread_id, added.seq)
        if added.kind == "added":
            with suppress(StoreUnavailable):
                await self._store.touch(thread_id, added.created_at)
        reply = Reply(
            id=added.id,
            seq=added.seq,
            thread_id=thread_id,
            body=body,
            author=new.author or None,
            is_signed=signed is not None,
            signature=msgspec.json.decode(signed.signature) if signed else None,
            created_at=timestamp(added.created_at),
        )
        return added, reply

    async def close(self, thread_id: str, signed: Signed | None) -> Thread:
        """Close a thread for the key that signed it; again, it stays closed. Raises Refused, StoreUnavailable."""
        require_id(thread_id)
        if signed is None:
            raise Refused("thread.signer")
        outcome = await self._store.close(thread_id, "closed", signed.signer, signed.replay_id)
        if outcome != "closed":
            codes = {"unknown": "thread.unknown", "signer": "thread.signer", "signature": "signature.replayed"}
            raise Refused(codes[outcome])
        # It is closed, whether or not the lists can be told now: the worker will.
        with suppress(StoreUnavailable):
            await self.project(thread_id)
        try:
            return await self.read(thread_id, ThreadQuery())
        except StoreUnavailable as failure:
            raise OutcomeUnknown("the thread is closed and cannot be read") from failure

    async def read(self, thread_id: str, query: ThreadQuery) -> Thread:
        """A thread with its replies, waiting for one if asked to. Raises Refused `thread.unknown`, StoreUnavailable."""
        require_id(thread_id)

        async def read() -> tuple[Fields, list[tuple[int, Fields]]]:
            return await self._store.read(thread_id, query.since_seq, query.limit)

        fields, replies = await wait_for_change(
            self._store.wakeups, keys.thread(thread_id), query.wait, read, lambda found: not found[0] or bool(found[1])
        )
        if not is_shown(fields):
            raise Refused("thread.unknown")
        thread = self._thread(thread_id, fields)
        thread.replies = [_reply(thread_id, seq, reply) for seq, reply in replies]
        # Never beyond the last reply: a reader that is ahead would miss those to come.
        thread.next_since_seq = replies[-1][0] if replies else min(query.since_seq, thread.reply_count)
        return thread

    async def page(self, query: ThreadPageQuery, status: str = "open") -> ThreadPage:
        """Threads by newest activity. Raises StoreUnavailable."""
        found, total = await self._store.list(status, query.limit, query.offset)
        threads: list[Thread] = []
        for thread_id, fields in found:
            if is_shown(fields) and fields[b"status"] == status.encode():
                threads.append(self._thread(thread_id, fields))
            else:  # closed or purged since: the list is behind, and is put right where it is seen
                with suppress(StoreUnavailable):
                    await self._store.project(thread_id, fields)
        return ThreadPage(threads, total, query.limit, query.offset)

    async def project(self, *thread_ids: str) -> None:
        """Put threads into the lists their status asks for; the worker does so for every event."""
        await self._store.project_all(thread_ids)

    async def _original(self, thread_id: str) -> Thread:
        """A thread as it was when it was posted: signed by whoever signed it then."""
        fields, _ = await self._store.read(thread_id, 0, 1)
        if not is_shown(fields):
            raise Refused("thread.unknown")
        later = {b"last_reply_at", b"reply_count"}
        first = {name: value for name, value in fields.items() if name not in later}
        return self._thread(thread_id, first | {b"status": b"open"})

    async def _original_reply(self, thread_id: str, seq: int) -> Reply:
        _, replies = await self._store.read(thread_id, seq - 1, 1)
        if not replies:
            raise Refused("thread.unknown")
        return _reply(thread_id, *replies[0])

    def _thread(self, thread_id: str, fields: Fields) -> Thread:
        signature = fields.get(b"signature")
        replied = fields.get(b"last_reply_at")
        return Thread(
            id=thread_id,
            title=fields[b"title"].decode(),
            body=fields[b"body"].decode(),
            author=_author(fields),
            status="open" if fields[b"status"] == b"open" else "closed",
            is_signed=signature is not None,
            signature=msgspec.json.decode(signature) if signature else None,
            created_at=timestamp(int(fields[b"created_at"])),
            last_reply_at=timestamp(int(replied)) if replied else None,
            reply_count=int(fields.get(b"reply_count", 0)),
            source="relay" if fields[b"source"] == b"relay" else "board",
            url=self._base + thread_id,
        )


def require_id(thread_id: str) -> None:
    """Refuse what cannot be an id before the store is asked. Raises Refused `thread.unknown`."""
    if not ids.is_id(thread_id):
        raise Refused("thread.unknown")


def is_shown(fields: Fields) -> bool:
    """Whether the record is that of a thread which readers may see."""
    return b"title" in fields and fields[b"status"] != b"hidden"


def flat(fields: dict[str, Any]) -> Sequence[str | bytes]:
    """name, value, name, value: as HSET and XADD take them."""
    return [part for pair in fields.items() for part in pair]


def _reply(thread_id: str, seq: int, fields: Fields) -> Reply:
    signature = fields.get(b"signature")
    return Reply(
        id=fields[b"id"].decode(),
        seq=seq,
        thread_id=thread_id,
        body=fields[b"body"].decode(),
        author=_author(fields),
        is_signed=signature is not None,
        signature=msgspec.json.decode(signature) if signature else None,
        created_at=timestamp(int(fields[b"at"])),
    )


def _attribution(author: str | None, signed: Signed | None) -> dict[str, str | bytes]:
    fields: dict[str, str | bytes] = {}
    if author:
        require_name("author", author)
        fields["author"] = author
    if signed:
        fields |= {"signer": signed.signer, "signature": signed.signature}
    return fields


def _author(fields: Fields) -> str | None:
    author = fields.get(b"author")
    return author.decode() if author else None


def _require_text(name: str, value: str) -> None:
    if not value.strip():
        raise Invalid.field("body", name, msg="must hold more than white space")
