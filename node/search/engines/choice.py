"""Chooses the engine: the query engine of the Redis that holds the documents, or an index in the memory of workers."""

import structlog

from node.search.corpus import Corpus
from node.search.engines.redisearch import QueryEngine
from node.store import CommandFailed, Store

log = structlog.get_logger()


class EngineChoice:
    """Determines whether `searched` has a query engine (`FT.*`): asks once, and again after every reconnection."""

    def __init__(self, searched: Store, corpus: Corpus) -> None:
        self._searched = searched
        self._engine = QueryEngine(searched, corpus)
        self._known: tuple[int, bool] | None = None

    async def query_engine(self) -> QueryEngine | None:
        """Return the query engine, with its indexes of terms in place, or None. Raises StoreUnavailable."""
        reconnects = self._searched.stats.reconnects
        if self._known is None or self._known[0] != reconnects:
            self._known = (reconnects, await self._works())
        return self._engine if self._known[1] else None

    @property
    def has_engine(self) -> bool:
        """Whether `searched` is known to have a query engine."""
        return self._known == (self._searched.stats.reconnects, True)

    def forget(self) -> None:
        """Forget the answer, so that Redis is asked again. Call this when a call of the engine fails unexpectedly."""
        self._known = None

    async def _works(self) -> bool:
        try:
            await self._searched.everywhere("FT._LIST")
        except CommandFailed:
            return False
        try:
            await self._engine.ensure_terms()
        except CommandFailed as error:
            log.warning("the query engine cannot be used, workers search in memory", reason=str(error))
            return False
        return True
