"""A board that can be searched, without HTTP: the web side and the worker on a real Redis of either kind."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from node.board.model import Hit, Hits, NewReply, NewThread, SearchQuery
from node.board.search import Search
from node.board.search_worker import SearchWorker
from node.board.service import Board
from node.board.store import BoardStore
from node.config import Limit, Settings
from node.hooks.policy import policy_of
from node.store import Store, connect
from node.store.embedded import find_search
from node.store.events import Consumer
from tests.node_under_test import settings_for

PATIENCE = 30.0  # s until something must have happened, on a busy machine
NO_LIMIT = Limit(0, 1)
ANYTHING = 0.0  # the threshold that everything reaches

MODULE = find_search()
ENGINE_OPTIONS = ("--loadmodule", str(MODULE))
"""What makes a Redis one with a query engine."""


class SearchableBoard:
    """What a test needs of it."""

    def __init__(self, store: Store, documents: Store, settings: Settings) -> None:
        self.store = store
        self.documents = documents
        self.settings = settings
        self.search = Search(store, documents, settings)
        self.board = Board(BoardStore(store, settings.idempotency_ttl), settings, policy_of(settings))

    async def post(self, title: str, body: str, *, noted: bool = True) -> str:
        """The id of a new thread. `noted`: as by a web process, which makes it searchable by text at once."""
        thread, _ = await self.board.post(NewThread(title, body), None, None)
        if noted:
            await self.search.note(thread.id, title, body)
        return thread.id

    async def reply(self, thread_id: str, body: str) -> None:
        await self.board.reply(thread_id, "203.0.113.7", NO_LIMIT, NewReply(body), None, None)

    async def close(self, thread_id: str, status: str = "closed") -> None:
        """As an operator does."""
        store = BoardStore(self.store, self.settings.idempotency_ttl)
        await store.close(thread_id, status)
        await self.board.project(thread_id)

    async def find(self, query: str, threshold: float = 0.7, limit: int = 5) -> Hits:
        return await self.search.search(SearchQuery(query, limit, threshold))

    async def ids(self, query: str, threshold: float = 0.7, limit: int = 5) -> list[str]:
        return [hit.thread_id for hit in (await self.find(query, threshold, limit)).hits]

    async def found(self, query: str, thread_id: str, threshold: float = 0.7) -> Hit:
        """The hit of that thread for a query, once there is one."""
        hits: list[Hit] = []

        async def there() -> bool:
            hits[:] = [hit for hit in (await self.find(query, threshold)).hits if hit.thread_id == thread_id]
            return bool(hits)

        await until(there, f"{query!r} finds {thread_id}")
        return hits[0]

    async def settled(self) -> None:
        """Return once queries are embedded and nothing is left to be indexed."""

        async def done() -> bool:
            if (await self.find("anything at all", ANYTHING)).mode == "text":
                return False
            return not await self.store.command("EXISTS", "search:pending:{search}", key="") and not (
                await self.store.command("EXISTS", "search:backlog:{search}", key="")
            )

        await until(done, "the index is complete")

    @asynccontextmanager
    async def worker(self, **changed: Any) -> AsyncGenerator[SearchWorker]:
        """A worker for as long as the context lasts."""
        worker = SearchWorker(self.store, self.documents, settings_for(self.settings.redis_url, **changed))
        stop = asyncio.Event()
        running = asyncio.gather(worker.run(stop), Consumer(self.store, "index", worker.handle).run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await running


@asynccontextmanager
async def searchable(redis_url: str, search_url: str = "", **settings: Any) -> AsyncGenerator[SearchableBoard]:
    store = await connect(redis_url, timeout=5.0, max_in_flight=4096, required=True)
    documents = await connect(search_url, timeout=5.0, max_in_flight=4096, required=True) if search_url else store
    try:
        yield SearchableBoard(store, documents, settings_for(redis_url, search_url=search_url, **settings))
    finally:
        await store.close()
        if documents is not store:
            await documents.close()


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Return as soon as `condition` holds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.01)
