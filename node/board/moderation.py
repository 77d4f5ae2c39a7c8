"""What an operator does to threads: closes, hides and removes them, and sees those that nobody else sees."""

from collections.abc import Sequence
from typing import Literal

from node.board.model import ModeratedThread, ThreadStatus
from node.board.store import BoardStore, StoredThread
from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.store import ids


class Moderation:
    """Each operation changes one thread; doing it again changes nothing more."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store

    async def find(self, thread_id: str) -> ModeratedThread:
        """A thread. Raises Refused `thread.unknown`, StoreUnavailable."""
        thread = (await self._store.read(thread_id, 0, 1))[0] if ids.is_id(thread_id) else None
        if thread is None:
            raise Refused("thread.unknown")
        return _moderated(thread)

    async def list(self, status: ThreadStatus, limit: int, offset: int) -> tuple[Sequence[ModeratedThread], int]:
        """Threads of one status by newest activity, and how many there are. Raises StoreUnavailable."""
        found, total = await self._store.list(status, limit, offset)
        return list(map(_moderated, found)), total

    async def set_status(self, thread_id: str, status: Literal["closed", "hidden"]) -> None:
        """Take no more replies; of a hidden thread, show nothing either. A hidden one stays so.

        Raises Refused `thread.unknown`, StoreUnavailable.
        """
        await self.find(thread_id)
        await self._store.close(thread_id, status)
        await self._store.project([thread_id])

    async def purge(self, thread_id: str) -> None:
        """Remove a thread with its replies from the board, and by an event from the search.

        Raises Refused `thread.unknown`, StoreUnavailable.
        """
        await self.find(thread_id)
        await self._store.purge({thread_id: 0})
        await self._store.project([thread_id])


def _moderated(thread: StoredThread) -> ModeratedThread:
    return ModeratedThread(
        id=thread.id,
        status=thread.status,
        title=thread.title,
        author=thread.author,
        source=thread.source,
        is_signed=thread.signature is not None,
        reply_count=thread.reply_count,
        created_at=timestamp(thread.created_at),
        last_reply_at=timestamp(thread.last_reply_at) if thread.last_reply_at else None,
    )
