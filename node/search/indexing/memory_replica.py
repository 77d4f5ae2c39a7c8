"""Keeps a search index in this worker's memory equal to the documents in Redis, where there is no query engine.

It loads all documents once and then follows the stream of changes. Any number of workers may each have such an index;
any of them can answer.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from node.search.corpus import EVERY
from node.search.engines.memory import MemoryIndex
from node.search.index_versions import IndexVersion
from node.search.indexing.changes import BEGINNING
from node.search.indexing.memory_reading import EntityDocuments, read_documents
from node.search.ranking import RankedEntities, SearchRequest
from node.search.store import SearchStore
from node.search.worker_loop import unless, until_woken
from node.store import StoreUnavailable

log = structlog.get_logger()

POLL_SECONDS = 5.0
"""Between looks at the stream without a wake-up."""

LOADED_AT_ONCE = 50
"""Entities loaded together: each may be a megabyte."""


class MemoryReplica:
    """The index in the memory of one worker."""

    def __init__(self, store: SearchStore) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(1, "search")
        self._turn = asyncio.Lock()
        self._index: MemoryIndex | None = None
        self._version = ""
        self._seen = BEGINNING
        """The last change that the index includes."""

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self._index is not None

    @property
    def version(self) -> str:
        """The index version of its vectors; empty if there are none."""
        return self._version

    async def run(self, stop: asyncio.Event) -> None:
        """Have an index as long as there is no query engine, until `stop` is set."""
        with await self._store.wakeups.listen(self._store.keys.changes) as listener:
            while not stop.is_set():
                try:
                    if await self._store.choice.query_engine():
                        self._index = None
                    else:
                        await unless(stop, self.follow())
                except StoreUnavailable:
                    pass  # what is in memory still holds
                except Exception:
                    log.exception("search index in memory not kept up to date")
                await until_woken(listener, POLL_SECONDS, stop)

    def close(self) -> None:
        """End its thread; it can be asked no more. Not part of `run`: those who asked before the stop are answered."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def find(self, request: SearchRequest, vector: bytes | None) -> RankedEntities:
        """The matches, with every change that Redis had when the request came. Raises StoreUnavailable."""
        await self.follow()
        index = self._index
        if index is None:
            return RankedEntities([], "text")
        return await asyncio.get_running_loop().run_in_executor(self._executor, index.find, request, vector)

    async def follow(self) -> None:
        """Take in what has changed, or everything if it is not known what has. Raises StoreUnavailable."""
        async with self._turn:
            current = await self._store.versions.current()
            version = current.name if current else ""
            while True:
                is_complete, changes = await self._store.changes.after(self._seen)
                if self._index is None or version != self._version or not is_complete:
                    await self._load(current)
                elif changes:
                    changed: dict[str, set[int]] = {}
                    for change in changes:
                        changed.setdefault(change.place.entity_id, set()).add(change.place.seq)
                    await self._read_into(self._index, current, changed)
                    self._seen = changes[-1].entry
                else:
                    return

    async def _load(self, current: IndexVersion | None) -> None:
        last = await self._store.changes.last()
        index = MemoryIndex()
        entities = await self._store.corpus.source.newest_open()
        for start in range(0, len(entities), LOADED_AT_ONCE):
            await self._read_into(index, current, {each: {EVERY} for each in entities[start : start + LOADED_AT_ONCE]})
        version = current.name if current else ""
        self._index, self._version, self._seen = index, version, last
        log.info("search index loaded into memory", entities=len(index), index_version=version)

    async def _read_into(
        self, index: MemoryIndex, version: IndexVersion | None, changed: Mapping[str, Collection[int]]
    ) -> None:
        """Take in these posts of these entities, as they are now."""
        read = await read_documents(self._store, changed, version)
        await asyncio.get_running_loop().run_in_executor(self._executor, _put_all, index, read)


def _put_all(index: MemoryIndex, read: Sequence[EntityDocuments]) -> None:
    for entity in read:
        if entity.whole:
            index.remove(entity.entity_id)
        for document in entity.documents:
            index.put(document)
        index.put_reply_marks(entity.entity_id, entity.reply_marks)
