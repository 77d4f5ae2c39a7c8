"""All that a worker does for search, put together."""

import asyncio
from collections.abc import Sequence

import structlog

from node.common import process
from node.config import Settings
from node.search.engines.choice import EngineChoice
from node.search.generations import IndexVersions
from node.search.indexing.documents import Documents
from node.search.indexing.indexer import Indexer
from node.search.indexing.memory_replica import MemoryReplica
from node.search.indexing.queue import Queue
from node.search.indexing.reconcile import Reconciler
from node.search.rpc.server import WorkerServer
from node.store import Store
from node.store.outbox import Event
from node.text.embed import Embedder, ModelUnavailable

log = structlog.get_logger()


class SearchWorker:
    """Indexes threads, embeds queries, and searches where no query engine does.

    `documents` is the Redis that is searched: RELAY_SEARCH_URL, else `store`.
    """

    def __init__(self, store: Store, documents: Store, settings: Settings) -> None:
        choice = EngineChoice(documents)
        index = Documents(store, documents, choice)
        queue = Queue(store)
        self._embedder = Embedder(settings.embedding_model)
        self._indexing = Indexer(store, index, IndexVersions(store), queue, self._embedder)
        self._memory = MemoryReplica(store, documents, choice)
        self._answering = WorkerServer(store, self._embedder, self._memory)
        self._upkeep = Reconciler(store, documents, choice, index, queue, self._embedder, settings.vector_index)

    async def handle(self, events: Sequence[Event]) -> None:
        """For the consumer group `index`. Raises StoreUnavailable."""
        await self._indexing.handle(events)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        try:
            async with asyncio.TaskGroup() as work:
                work.create_task(self._memory.run(stop))
                work.create_task(self._answering.run(stop))
                work.create_task(self._indexing.run(stop))
                work.create_task(self._load_model(stop))
                work.create_task(self._upkeep.run(stop))
        finally:
            self._embedder.close()

    async def _load_model(self, stop: asyncio.Event) -> None:
        """The rest goes on meanwhile: by text at first, by meaning once the model is there."""
        loading = asyncio.ensure_future(self._embedder.load())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not loading.done():
            loading.cancel()
            return
        try:
            model = await loading
        except ModelUnavailable as error:
            self._indexing.text_only = True
            log.warning("search by text only", reason=str(error))
        else:
            process.freeze()
            log.info("embedding model loaded", model=model.fingerprint, dimension=model.dimension)
            await self._upkeep.look_soon()
