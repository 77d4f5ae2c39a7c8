"""A searchable board without HTTP: the web side and the worker, on a real Redis of either kind."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast
from zlib import crc32

from node.board.model import NewReply, NewThread
from node.config import Settings
from node.run.corpora import corpora_of
from node.run.embedded_redis import find_search
from node.search.index_versions import IndexVersions
from node.search.indexing.queue import IndexQueue
from node.search.model import Hit, Hits, SearchQuery
from node.search.rpc.client import Service
from node.search.rpc.server import search_beat
from node.search.service import Search, SearchTurns
from node.search.store import SearchStore
from node.search.worker import SearchWorker
from node.sign.signed import UNSIGNED
from node.store import Store, StoreUnavailable, connect, ids, keys
from node.store.decoding import fields_of
from node.store.outbox import Consumer
from node.store.search_keys import BOARD_KEYS
from node.store.wakeups import Listener
from tests.board.board_on import board_on
from tests.support.node_under_test import settings_for, until
from tests.support.rates import Unlimited
from tests.support.servers import PATIENCE

CLIENT = "203.0.113.7"
ANYTHING = 0.0  # a threshold that everything reaches

MODULE = find_search()
ENGINE_OPTIONS = ("--loadmodule", str(MODULE))
"""Options of a Redis with the query engine."""


class SearchableBoard:
    """A board with its search, as a web process has them."""

    def __init__(self, store: Store, documents: Store, settings: Settings) -> None:
        self.store = store
        self.documents = documents
        self.settings = settings
        self.corpora = corpora_of(store)
        self.searched = SearchStore(store, documents, self.corpora[0])
        self.search = Search(self.searched, SearchTurns())
        self.looked: list[int] = []
        """Number of characters that each search has looked at."""
        self.board = board_on(store, settings)
        """The board's service without notes to the search about new threads."""
        self._telling = board_on(store, settings, index=self.search)

    async def post(self, title: str, body: str, *, noted: bool = True) -> str:
        """Post a thread, and return its id. `noted`: the thread can be found by text at once, as when a web process
        posts it. Otherwise it has to be indexed first, as if that had failed.
        """
        # Many clients, so that the threads are on different primaries.
        author = f"198.51.100.{crc32(title.encode()) % 256}"
        board = self._telling if noted else self.board
        thread, _ = await board.post(Unlimited(author), NewThread(title, body), UNSIGNED, None)
        return thread.id

    async def reply(self, thread_id: str, body: str) -> None:
        await self.board.reply(Unlimited(CLIENT), thread_id, NewReply(body), UNSIGNED, None)

    async def close(self, thread_id: str) -> None:
        """Close a thread, as an operator."""
        await self.board.moderation.set_status(thread_id, "closed")

    async def hide(self, thread_id: str) -> None:
        """Hide a thread, as an operator."""
        await self.board.moderation.hide(thread_id)

    async def find(self, query: str, threshold: float = 0.7, limit: int = 5) -> Hits:
        found = await self.search.search(SearchQuery(query, limit, threshold), CLIENT, self.looked.append)
        return Hits.of(found, f"{self.settings.public_url}/board/")

    async def ids(self, query: str, threshold: float = 0.7) -> list[str]:
        return [hit.thread_id for hit in (await self.find(query, threshold)).hits]

    async def found(self, query: str, thread_id: str, threshold: float = 0.7) -> Hit:
        """Return the hit for this thread, once there is one."""
        hits: list[Hit] = []

        async def there() -> bool:
            hits[:] = [hit for hit in (await self.find(query, threshold)).hits if hit.thread_id == thread_id]
            return bool(hits)

        await until(there, PATIENCE)
        return hits[0]

    async def event(self, thread_id: str, kind: str) -> None:
        """Announce an event of a thread to the workers."""
        outbox = keys.events(ids.partition_of_id(thread_id))
        await self.store.command("XADD", outbox, "*", "type", kind, "id", thread_id)
        await self.store.command("SPUBLISH", outbox, kind)

    async def settled(self) -> None:
        """Return once queries are embedded, every event is handled, and nothing waits to be indexed."""

        async def done() -> bool:
            return (await self.find("anything at all", ANYTHING)).mode == "both"

        await until(done, PATIENCE)
        await self.emptied()

    async def emptied(self) -> None:
        """Return once every event is handled, and nothing waits to be indexed."""

        async def done() -> bool:
            lags = await asyncio.gather(*(self.lag(keys.events(number)) for number in range(ids.PARTITIONS)))
            return not any(lags) and await IndexQueue(self.store, BOARD_KEYS).lengths() == (0, 0)

        await until(done, PATIENCE)

    async def search_by_memory(self) -> bool:
        """Return whether the Redis has no query engine."""
        return await self.searched.choice.query_engine() is None

    async def vectors(self) -> set[tuple[str, str]]:
        """Return thread and name of every passage that has a vector in the current index."""
        live = await IndexVersions(self.store, BOARD_KEYS).current()
        pattern = f"{BOARD_KEYS.vectors_prefix(live.name)}*" if live else "none"
        replies = cast("list[list[bytes]]", await self.documents.everywhere("KEYS", pattern))
        parts = [name.decode().split(":") for names in replies for name in names]
        return {(part[-2], part[-1]) for part in parts}

    @asynccontextmanager
    async def silent_worker(self, service: Service = "vectors", name: str = "silent") -> AsyncGenerator[Listener]:
        """A worker that announces itself, and receives requests without answering them."""
        channel = BOARD_KEYS.requests(service, name)
        with await self.store.wakeups.listen(channel) as listener:
            alive = search_beat(workers=BOARD_KEYS.workers(service), channel=channel, holds=60_000)
            await self.store.run(alive)
            yield listener

    async def is_leased(self) -> bool:
        """Return whether any worker holds a lease on a thread."""
        queues = (BOARD_KEYS.pending, BOARD_KEYS.backlog)
        return any(await self.store.run_all([("ZRANGE", queue, 1, "+inf", "BYSCORE") for queue in queues]))

    async def expire_leases(self) -> None:
        """Make everything due that a dead worker had leased, as would happen after a minute."""
        for queue in (BOARD_KEYS.pending, BOARD_KEYS.backlog):
            members = await self.store.command("ZRANGE", queue, 0, -1)
            for member in cast("list[bytes]", members):
                await self.store.command("ZADD", queue, "XX", 0, member)
        for number in range(ids.PARTITIONS):
            await self._release(keys.events(number))

    async def _release(self, outbox: str) -> None:
        """Let the next reader take over the events that were delivered to a dead reader."""
        if not await self.store.command("XLEN", outbox):
            return
        pending = await self.store.command("XPENDING", outbox, "index", "-", "+", 1000)
        for entry in cast("list[list[bytes]]", pending):
            await self.store.command("XCLAIM", outbox, "index", entry[1], 0, entry[0], "IDLE", 600_000, "JUSTID")

    async def reachable(self) -> None:
        """Return once Redis answers again, and make workers look at once."""

        async def answers() -> bool:
            try:
                await asyncio.gather(self.store.everywhere("PING"), self.documents.everywhere("PING"))
            except StoreUnavailable:
                return False
            return True

        await until(answers, PATIENCE)
        await self.store.command("SPUBLISH", BOARD_KEYS.current, "")

    async def gone(self, thread_id: str) -> None:
        """Return once the index has nothing left of a thread."""

        async def nothing() -> bool:
            live = await IndexVersions(self.store, BOARD_KEYS).current()
            left = [BOARD_KEYS.doc(thread_id), *([BOARD_KEYS.passages(live.name, thread_id)] if live else [])]
            return not any([await self.documents.command("EXISTS", key) for key in left])

        await until(nothing, PATIENCE)

    async def lag(self, outbox: str) -> int:
        """Return how many events the index group has not acknowledged."""
        if not await self.store.command("XLEN", outbox):
            return 0
        groups = await self.store.command("XINFO", "GROUPS", outbox, key=outbox)
        facts = [fields_of(group) for group in cast("list[list[bytes]]", groups)]
        return (
            sum(int(fact[b"pending"] or 0) + int(fact[b"lag"] or 0) for fact in facts if fact[b"name"] == b"index")
            if facts
            else 1
        )

    @asynccontextmanager
    async def worker(self, **changed: Any) -> AsyncGenerator[SearchWorker]:
        """A worker for as long as the context lasts."""
        worker = SearchWorker(
            self.store, self.documents, self.corpora, settings_for(self.settings.redis_url, **changed)
        )
        stop = asyncio.Event()
        running = asyncio.gather(worker.run(stop), Consumer(self.store, "index", worker.handle).run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await running
            worker.close()


@asynccontextmanager
async def searchable(
    redis_url: str, search_url: str = "", timeout: float = 5.0, max_in_flight: int = 4096, **settings: Any
) -> AsyncGenerator[SearchableBoard]:
    options: dict[str, Any] = {"timeout": timeout, "max_in_flight": max_in_flight, "required": True}
    store = await connect(redis_url, **options)
    documents = await connect(search_url, **options) if search_url else store
    try:
        yield SearchableBoard(store, documents, settings_for(redis_url, search_url=search_url, **settings))
    finally:
        await store.close()
        if documents is not store:
            await documents.close()
