"""Keeps a search index in this worker's memory true to the documents in Redis, where no query engine does.

It loads all documents once and then follows the stream of changes. Any number of workers may each
have such an index; any of them can answer.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import structlog

from node.board.engine import EngineChoice
from node.board.engine_memory import MemoryIndex
from node.board.generation import Generations
from node.board.index import Index
from node.board.ranking import Match, Question
from node.board.workloop import unless, until_news
from node.store import Store, StoreUnavailable, keys
from node.store.reply import fields_of

log = structlog.get_logger()

LOOK = 5.0
"""Seconds between looks at the stream without news of it."""

CHUNK = 200
"""Threads loaded together."""

BEGINNING = b"0-0"

Change = tuple[tuple[int, int], bytes, str]
"""The number of an entry in the stream, its id, and the thread."""

Document = tuple[str, str, bytes, dict[str, bytes]]


class Memory:
    """One worker's index."""

    def __init__(self, store: Store, documents: Store, choice: EngineChoice, index: Index) -> None:
        self._store = store
        self._documents = documents
        self._choice = choice
        self._written = index
        self._generations = Generations(store)
        self._thread = ThreadPoolExecutor(1, "search")
        self._turn = asyncio.Lock()
        self._index: MemoryIndex | None = None
        self._generation = ""
        self._seen = BEGINNING
        """The last change that the index includes."""

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self._index is not None

    @property
    def generation(self) -> str:
        """The generation of its vectors; empty if there are none."""
        return self._generation

    async def run(self, stop: asyncio.Event) -> None:
        """Have an index as long as there is no query engine, until `stop` is set."""
        with await self._store.news.listen(keys.SEARCH_CHANGES) as listener:
            while not stop.is_set():
                try:
                    if await self._choice.query_engine():
                        self._index = None
                    else:
                        await unless(stop, self.follow())
                except StoreUnavailable:
                    pass  # what is in memory still holds
                await until_news(listener, LOOK, stop)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def find(self, question: Question, vector: bytes | None) -> list[Match]:
        """The matches, with every change that Redis had when the question came. Raises StoreUnavailable."""
        await self.follow()
        index = self._index
        if index is None:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._thread, index.find, question, vector)

    async def follow(self) -> None:
        """Take in what has changed, or everything where it is not known what has. Raises StoreUnavailable."""
        async with self._turn:
            live = await self._generations.live()
            generation = live.name if live else ""
            first, changes = await asyncio.gather(self._changes("-", 1), self._news())
            lost = self._seen != BEGINNING and (not first or first[0][0] > _number(self._seen))
            if self._index is None or generation != self._generation or lost:
                await self._load(generation)
                changes = await self._news()
            while changes:
                await self._apply(self._index_to_change(), {thread for _, _, thread in changes})
                self._seen = changes[-1][1]
                changes = await self._news()

    async def _load(self, generation: str) -> None:
        newest = cast(
            "list[tuple[bytes, list[bytes]]]",
            await self._store.command("XREVRANGE", keys.SEARCH_CHANGES, "+", "-", "COUNT", 1),
        )
        self._generation = generation
        index = MemoryIndex()
        listed = await self._store.command("ZRANGE", keys.OPEN_THREADS, 0, -1)
        threads = [name.decode() for name in cast("Sequence[bytes]", listed)]
        for start in range(0, len(threads), CHUNK):
            await self._apply(index, threads[start : start + CHUNK])
        self._index = index
        self._seen = newest[0][0] if newest else BEGINNING
        log.info("search index loaded into memory", threads=len(index), generation=generation)

    async def _apply(self, index: MemoryIndex, threads: Sequence[str] | set[str]) -> None:
        documents = await asyncio.gather(*(self._document(thread) for thread in threads))
        await asyncio.get_running_loop().run_in_executor(self._thread, _put_all, index, documents)

    async def _document(self, thread_id: str) -> Document:
        found, passages = await asyncio.gather(
            self._documents.command("HMGET", keys.doc(thread_id), "terms", "marks"),
            self._written.passages(self._generation, thread_id),
        )
        terms, marks = cast("list[bytes | None]", found)
        names = sorted(passages)
        vectors = await asyncio.gather(*(self._written.vector(self._generation, thread_id, name) for name in names))
        held = {name: vector for name, vector in zip(names, vectors, strict=True) if vector}
        return thread_id, (terms or b"").decode(), marks or b"", held

    async def _news(self) -> list[Change]:
        return await self._changes(f"({self._seen.decode()}", CHUNK)

    async def _changes(self, start: str, most: int) -> list[Change]:
        """Changes from `start`, oldest first."""
        reply = await self._store.command("XRANGE", keys.SEARCH_CHANGES, start, "+", "COUNT", most)
        entries = cast("list[tuple[bytes, list[bytes]]]", reply)
        return [(_number(entry), entry, fields_of(fields)[b"id"].decode()) for entry, fields in entries]

    def _index_to_change(self) -> MemoryIndex:
        if self._index is None:
            raise LookupError("no index is loaded")
        return self._index


def _put_all(index: MemoryIndex, documents: Sequence[Document]) -> None:
    for thread_id, terms, marks, vectors in documents:
        if terms or vectors:
            index.put(thread_id, terms, marks, vectors)
        else:
            index.remove(thread_id)


def _number(entry: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = entry.partition(b"-")
    return int(milliseconds), int(sequence)
