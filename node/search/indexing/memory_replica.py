"""Keeps a search index in this worker's memory in step with the documents in Redis, if there is no query engine.

The replica loads all documents once and then follows the stream of changes. Any number of workers may have a replica,
and each of them can answer requests.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, cast

import structlog

from node.search.corpus import EVERY, OWN, PostRef
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.index_versions import IndexVersion
from node.search.indexing.changes import BEGINNING
from node.search.indexing.documents import doc_of, marks_of_replies
from node.search.passages import seq_and_piece
from node.search.ranking import RankedEntities, SearchRequest
from node.search.store import SearchStore
from node.search.vectors import converted
from node.search.worker_loop import unless, until_woken
from node.store import StoreUnavailable

log = structlog.get_logger()

POLL_SECONDS = 5.0
"""Time between two reads of the stream when there is no wake-up."""

LOADED_AT_ONCE = 50
"""Entities loaded in one batch. An entity may have a megabyte of documents."""


class EntityDocuments(NamedTuple):
    """The documents of some posts of an entity, as Redis holds them."""

    entity_id: str
    whole: bool
    """Whether these are the documents of all posts of the entity."""
    reply_marks: bytes
    documents: list[PostDocument]


class MemoryReplica:
    """The search index in the memory of one worker."""

    def __init__(self, store: SearchStore) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(1, "search")
        self._turn = asyncio.Lock()
        self._index: MemoryIndex | None = None
        self._current: IndexVersion | None = None
        """The index version of the vectors in the index."""
        self._seen = BEGINNING
        """Stream entry of the last change that the index includes."""

    @property
    def ready(self) -> bool:
        """Whether the index can answer."""
        return self._index is not None

    @property
    def version(self) -> str:
        """Name of the index version of the vectors in the index; empty if there are none."""
        return self._current.name if self._current else ""

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the index up to date while there is no query engine, until `stop` is set."""
        with await self._store.wakeups.listen(self._store.keys.changes) as listener:
            while not stop.is_set():
                try:
                    if await self._store.choice.query_engine():
                        self._index = None
                    else:
                        await unless(stop, self.follow())
                except StoreUnavailable:
                    pass  # the index in memory can still be used
                except Exception:
                    log.exception("search index in memory not kept up to date")
                await until_woken(listener, POLL_SECONDS, stop)

    def close(self) -> None:
        """Shut down the thread of the index. After this, the index cannot answer. `run` does not do this, because
        requests that came before `stop` are still answered."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def find(self, request: SearchRequest, vector: bytes | None) -> RankedEntities:
        """Return the matches, after following all changes that are in Redis by now. Raises StoreUnavailable."""
        await self.follow()
        index = self._index
        if index is None:
            return RankedEntities([], "text")
        return await asyncio.get_running_loop().run_in_executor(self._executor, index.find, request, vector)

    async def follow(self) -> None:
        """Read the changed documents, or all documents if the changes are not known. Raises StoreUnavailable."""
        async with self._turn:
            current = await self._store.versions.current()
            while True:
                is_complete, changes = await self._store.changes.after(self._seen)
                if self._index is None or current != self._current or not is_complete:
                    await self._load(current)
                elif changes:
                    changed: dict[str, set[int]] = {}
                    for change in changes:
                        changed.setdefault(change.ref.entity_id, set()).add(change.ref.seq)
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
        self._index, self._current, self._seen = index, current, last
        log.info("search index loaded into memory", entities=len(index), index_version=self.version)

    async def _read_into(
        self, index: MemoryIndex, version: IndexVersion | None, changed: Mapping[str, Collection[int]]
    ) -> None:
        """Read the present documents of these posts, by entity, into the index."""
        read = await read_documents(self._store, changed, version)
        await asyncio.get_running_loop().run_in_executor(self._executor, _put_all, index, read)


async def read_documents(
    store: SearchStore, changed: Mapping[str, Collection[int]], version: IndexVersion | None
) -> list[EntityDocuments]:
    """Return the documents of posts, given as post numbers by entity. EVERY stands for all posts of an entity.

    The names of all documents and vectors are read first, then the documents and vectors. Raises StoreUnavailable.
    """
    name, scalar = (version.name, version.scalar) if version else ("", "float32")
    passages = await store.documents.passages(name, changed)
    numbers = await store.searched.run_all([("SMEMBERS", store.keys.reply_docs(entity_id)) for entity_id in changed])
    reply_marks = cast(
        "list[bytes]", await store.searched.run_all(marks_of_replies(store.keys, each) for each in changed)
    )
    named: dict[PostRef, list[str]] = {}
    for (entity_id, seqs), replies in zip(changed.items(), cast("list[list[bytes]]", numbers), strict=True):
        every = (OWN, *map(int, replies))
        named |= {PostRef(entity_id, seq): [] for seq in (every if EVERY in seqs else seqs)}
        for passage in passages[entity_id]:
            named.get(PostRef(entity_id, seq_and_piece(passage)[0]), []).append(passage)
    texts = await store.searched.run_all([("HMGET", doc_of(store.keys, ref), "terms", "marks") for ref in named])
    vectors = await store.documents.vectors(
        name, [(ref.entity_id, passage) for ref, names in named.items() for passage in names]
    )
    documents: dict[str, list[PostDocument]] = {entity_id: [] for entity_id in changed}
    for (ref, names), (terms, marks) in zip(named.items(), cast("list[list[bytes | None]]", texts), strict=True):
        found = {
            passage: converted(vector, scalar, "float32")
            for passage in names
            if (vector := vectors.get((ref.entity_id, passage)))
        }
        documents[ref.entity_id].append(PostDocument(ref, (terms or b"").decode(), marks or b"", found))
    return [
        EntityDocuments(entity_id, EVERY in seqs, marks, documents[entity_id])
        for (entity_id, seqs), marks in zip(changed.items(), reply_marks, strict=True)
    ]


def _put_all(index: MemoryIndex, read: Sequence[EntityDocuments]) -> None:
    for entity in read:
        if entity.whole:
            index.remove(entity.entity_id)
        for document in entity.documents:
            index.put(document)
        index.put_reply_marks(entity.entity_id, entity.reply_marks)
