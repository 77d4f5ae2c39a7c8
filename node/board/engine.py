"""Which engine searches: the query engine of the Redis that holds the documents, or the workers' memory."""

from node.board.engine_redisearch import QueryEngine
from node.store import CommandFailed, Store


class EngineChoice:
    """Whether that Redis has a query engine (`FT.*`): asked once, and again after every reconnection."""

    def __init__(self, documents: Store) -> None:
        self._documents = documents
        self._engine = QueryEngine(documents)
        self._known: tuple[int, bool] | None = None

    async def query_engine(self) -> QueryEngine | None:
        """The query engine with its index of terms, or None if there is none. Raises StoreUnavailable."""
        era = self._documents.stats.reconnects
        if self._known is None or self._known[0] != era:
            try:
                await self._documents.everywhere("FT._LIST")
            except CommandFailed:
                self._known = (era, False)
            else:
                await self._engine.ensure_terms()
                self._known = (era, True)
        return self._engine if self._known[1] else None

    def forget(self) -> None:
        """Ask again next time: something did not go as it should."""
        self._known = None
