"""The Redis side of search: documents and vectors, the index queue, and requests to workers."""

import msgspec
import structlog

from node.common.own_terms import NO_TERMS, OwnTerms
from node.search.corpus import Corpus
from node.search.engines.choice import EngineChoice
from node.search.index_versions import IndexVersion, IndexVersions
from node.search.indexing.changes import DocumentChanges
from node.search.indexing.documents import NOTED_CHARACTERS, Documents, own_terms
from node.search.indexing.queue import IndexQueue
from node.search.ranking import RankedEntities, SearchRequest
from node.search.retrieval import EngineRetriever, WorkerMemoryRetriever
from node.search.rpc.client import WorkerClient
from node.search.work import SearchWork
from node.store import CommandFailed, Store, WakeUps

log = structlog.get_logger()


class SearchState(msgspec.Struct, frozen=True):
    """The index of a corpus. `relay-node admin status --json` shows the two versions as `live` and `target`."""

    current: IndexVersion | None = msgspec.field(name="live")
    """The version that queries use."""
    built: IndexVersion | None = msgspec.field(name="target")
    """The version that is being built to replace it."""
    pending: int
    backlog: int
    meaning: bool
    """Whether a worker can embed queries at the moment."""


class SearchStore:
    """The parts of search that web processes and workers share. Every method raises StoreUnavailable.

    `searched` is the Redis that holds the documents: RELAY_SEARCH_URL if set, else `store`.
    """

    def __init__(self, store: Store, searched: Store, corpus: Corpus) -> None:
        self.main = store
        self.corpus = corpus
        self.keys = keys = corpus.keys
        self.searched = searched
        self.choice = EngineChoice(searched, corpus)
        self.changes = DocumentChanges(store, keys, self.choice)
        self.documents = Documents(searched, keys, self.choice, self.changes)
        self.versions = IndexVersions(store, keys)
        self.queue = IndexQueue(store, keys)
        self.workers = WorkerClient(store, keys)

    @property
    def wakeups(self) -> WakeUps:
        """Wake-ups for the loops of a worker."""
        return self.main.wakeups

    @property
    def reconnects(self) -> tuple[int, int]:
        """Numbers of reconnections to `main` and to `searched`. Data may have been lost before each reconnection."""
        return self.main.stats.reconnects, self.searched.stats.reconnects

    async def find(self, request: SearchRequest, work: SearchWork) -> RankedEntities:
        """Return the entities that match. Raises QueueFull, CommandFailed."""
        try:
            return await (await self._retriever()).find(request, work)
        except CommandFailed:  # another server, with or without a query engine, may have taken its place
            self.choice.forget()
            return await (await self._retriever()).find(request, work)

    def own_terms(self, title: str, body: str) -> OwnTerms:
        """Return the terms that the step which keeps a new entity can keep too.

        Returns NO_TERMS if the documents are in another Redis, or if workers must be told about new documents.
        """
        if self.searched is self.main and self.choice.has_engine:
            return own_terms(f"{title}\n{body}", NOTED_CHARACTERS)
        return NO_TERMS

    async def note(self, entity_id: str, title: str, body: str) -> None:
        """Index a new entity by text at once."""
        try:
            await self.documents.note(entity_id, title, body)
        except CommandFailed:  # a failure to index an entity must not fail the request that posts it
            self.choice.forget()
            log.exception("entity not noted for search", entity=entity_id)

    async def embeds_queries(self) -> bool:
        """Return whether a worker can embed queries at the moment."""
        return bool(await self.main.command("EXISTS", self.keys.workers("vectors")))

    async def state(self) -> SearchState:
        """Return the versions of the index and the amount of work left."""
        return SearchState(*await self.versions.both(), *await self.queue.lengths(), await self.embeds_queries())

    async def _retriever(self) -> EngineRetriever | WorkerMemoryRetriever:
        engine = await self.choice.query_engine()
        if engine:
            return EngineRetriever(engine, self.keys, self.searched, self.workers)
        return WorkerMemoryRetriever(self.corpus, self.searched, self.workers)
