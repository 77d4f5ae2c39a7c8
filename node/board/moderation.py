"""What an operator does to threads: closes, hides and removes them, and sees those that nobody else sees."""

from collections.abc import Sequence
from typing import Literal

from node.board.model import ModeratedThread, ThreadStatus
from node.board.store import BoardStore, Fields
from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.store import ids
from node.store.decoding import text


class Moderation:
    """Works on single threads; every step may be repeated."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store

    async def find(self, thread_id: str) -> ModeratedThread:
        """A thread. Raises Refused `thread.unknown`, StoreUnavailable."""
        if not ids.is_id(thread_id):
            raise Refused("thread.unknown")
        fields, _ = await self._store.read(thread_id, 0, 1)
        return _moderated(thread_id, fields)

    async def list(self, status: ThreadStatus, limit: int, offset: int) -> tuple[Sequence[ModeratedThread], int]:
        """Threads of one status by newest activity, and how many there are. Raises StoreUnavailable."""
        found, total = await self._store.list(status, limit, offset)
        # The list may be a moment behind the threads.
        shown = [
            _moderated(thread_id, fields) for thread_id, fields in found if fields.get(b"status") == status.encode()
        ]
        return shown, total

    async def set_status(self, thread_id: str, status: Literal["closed", "hidden"]) -> None:
        """Take no more replies; of a hidden thread, show nothing either. A hidden one stays so.

        Raises Refused `thread.unknown`, StoreUnavailable.
        """
        await self.find(thread_id)
        await self._store.close(thread_id, status)
        await self._project(thread_id)

    async def purge(self, thread_id: str) -> None:
        """Remove a thread with its replies from the board, and by an event from the search.

        Raises Refused `thread.unknown`, StoreUnavailable.
        """
        await self.find(thread_id)
        await self._store.purge(thread_id)
        await self._project(thread_id)

    async def _project(self, thread_id: str) -> None:
        fields, _ = await self._store.read(thread_id, 0, 1)
        await self._store.project(thread_id, fields)


def _moderated(thread_id: str, fields: Fields) -> ModeratedThread:
    if b"title" not in fields:
        raise Refused("thread.unknown")
    replied = fields.get(b"last_reply_at")
    return ModeratedThread(
        id=thread_id,
        status=fields[b"status"].decode(),
        title=fields[b"title"].decode(),
        author=text(fields.get(b"author")),
        source=fields[b"source"].decode(),
        is_signed=b"signature" in fields,
        reply_count=int(fields.get(b"reply_count", 0)),
        created_at=timestamp(int(fields[b"created_at"])),
        last_reply_at=timestamp(int(replied)) if replied else None,
    )
