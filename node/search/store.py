"""All that search keeps in Redis: documents and vectors, the queue of what is to be embedded, requests to workers."""

import msgspec
import structlog

from node.search.effort import Effort
from node.search.engines.choice import EngineChoice
from node.search.index_versions import IndexVersion, IndexVersions
from node.search.indexing.changes import Changes
from node.search.indexing.documents import Documents
from node.search.indexing.queue import Queue
from node.search.ranking import RankedThreads, SearchRequest
from node.search.retrieval import EngineRetriever, WorkerMemoryRetriever
from node.search.rpc.client import WorkerClient
from node.search.threads import Threads
from node.store import CommandFailed, Store, WakeUps, keys

log = structlog.get_logger()


class SearchState(msgspec.Struct, frozen=True):
    """The index of the board."""

    live: IndexVersion | None
    """The version that queries use."""
    target: IndexVersion | None
    """The version that is built to take its place."""
    pending: int
    backlog: int
    meaning: bool
    """Whether a worker embeds queries now."""


class SearchStore:
    """The parts of the search that web processes and workers share. Every method raises StoreUnavailable.

    `documents` is the Redis that is searched: RELAY_SEARCH_URL, else `store`.
    """

    def __init__(self, store: Store, documents: Store) -> None:
        self._store = store
        self.searched = documents
        self.choice = EngineChoice(documents)
        self.changes = Changes(store, self.choice)
        self.documents = Documents(documents, self.choice, self.changes)
        self.versions = IndexVersions(store)
        self.queue = Queue(store)
        self.workers = WorkerClient(store)

    @property
    def wakeups(self) -> WakeUps:
        """Where the loops of a worker are woken."""
        return self._store.wakeups

    @property
    def reconnects(self) -> tuple[int, int]:
        """How often the connections to both have been made anew: data may have been lost meanwhile."""
        return self._store.stats.reconnects, self.searched.stats.reconnects

    async def find(self, request: SearchRequest, threads: Threads, effort: Effort) -> RankedThreads:
        """The threads that match. Raises Crowded, CommandFailed."""
        try:
            return await (await self._retriever(threads)).find(request, effort)
        except CommandFailed:  # the server may have come back as another, with or without a query engine
            self.choice.forget()
            return await (await self._retriever(threads)).find(request, effort)

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once."""
        try:
            await self.documents.note(thread_id, title, body)
        except CommandFailed:  # a thread is posted whether or not it can be searched for
            self.choice.forget()
            log.exception("thread not noted for search", thread=thread_id)

    async def embeds_queries(self) -> bool:
        """Whether a worker embeds queries now."""
        return bool(await self._store.command("EXISTS", keys.search_alive("vectors")))

    async def wake_reconcilers(self) -> None:
        """Have all workers look after the index now."""
        await self._store.command("SPUBLISH", keys.SEARCH_LIVE, "")

    async def state(self) -> SearchState:
        """What there is of the index, and what is still to be done."""
        return SearchState(*await self.versions.both(), *await self.queue.lengths(), await self.embeds_queries())

    async def _retriever(self, threads: Threads) -> EngineRetriever | WorkerMemoryRetriever:
        engine = await self.choice.query_engine()
        if engine:
            return EngineRetriever(engine, self.searched, self.workers)
        return WorkerMemoryRetriever(threads, self.searched, self.workers)
