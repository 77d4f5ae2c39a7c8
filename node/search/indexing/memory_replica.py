"""Keeps a search index in this worker's memory true to the documents in Redis, where no query engine does.

It loads all documents once and then follows the stream of changes. Any number of workers may each
have such an index; any of them can answer.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import structlog

from node.search.engines.choice import EngineChoice
from node.search.engines.memory import MemoryIndex
from node.search.generations import IndexVersions
from node.search.indexing.memory_reading import Loaded
from node.search.ranking import RankedThread, SearchRequest
from node.search.threads import EVERY, Place
from node.search.worker_loop import unless, until_news
from node.store import Store, StoreUnavailable, keys
from node.store.bulk import bulk
from node.store.decoding import fields_of

log = structlog.get_logger()

LOOK = 5.0
"""Seconds between looks at the stream without news of it."""

CHUNK = 200
"""Changes taken in together."""

LOADED = 50
"""Threads loaded together: each may be a megabyte."""

BEGINNING = b"0-0"

Change = tuple[tuple[int, int], bytes, Place]
"""The number of an entry in the stream, its id, and what changed."""


class MemoryReplica:
    """One worker's index."""

    def __init__(self, store: Store, documents: Store, choice: EngineChoice) -> None:
        self._store = store
        self._documents = documents
        self._choice = choice
        self._generations = IndexVersions(store)
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
        with await self._store.wakeups.listen(keys.SEARCH_CHANGES) as listener:
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

    async def find(self, question: SearchRequest, vector: bytes | None) -> list[RankedThread]:
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
                await self._apply(self._index_to_change(), _by_thread(place for _, _, place in changes))
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
        for start in range(0, len(threads), LOADED):
            await self._apply(index, {thread: {EVERY} for thread in threads[start : start + LOADED]})
        self._index = index
        self._seen = newest[0][0] if newest else BEGINNING
        log.info("search index loaded into memory", threads=len(index), generation=generation)

    async def _apply(self, index: MemoryIndex, changed: Mapping[str, set[int]]) -> None:
        """Take in these posts of these threads, as they are now."""
        loaded = [Loaded(thread, numbers) for thread, numbers in changed.items()]
        for step in (Loaded.names, Loaded.contents):
            reads = [read for each in loaded for read in step(each, self._generation)]
            replies = await bulk(self._documents, [command for command, _ in reads])
            for (_, take), reply in zip(reads, replies, strict=True):
                take(reply)
        await asyncio.get_running_loop().run_in_executor(self._thread, _put_all, index, loaded)

    async def _news(self) -> list[Change]:
        return await self._changes(f"({self._seen.decode()}", CHUNK)

    async def _changes(self, start: str, most: int) -> list[Change]:
        """Changes from `start`, oldest first."""
        reply = await self._store.command("XRANGE", keys.SEARCH_CHANGES, start, "+", "COUNT", most)
        entries = cast("list[tuple[bytes, list[bytes]]]", reply)
        return [(_number(entry), entry, _place(fields_of(fields))) for entry, fields in entries]

    def _index_to_change(self) -> MemoryIndex:
        if self._index is None:
            raise LookupError("no index is loaded")
        return self._index


def _put_all(index: MemoryIndex, loaded: Sequence[Loaded]) -> None:
    for each in loaded:
        each.put_into(index)


def _by_thread(places: Iterable[Place]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for place in places:
        found.setdefault(place.thread_id, set()).add(place.seq)
    return found


def _place(fields: Mapping[bytes, bytes]) -> Place:
    return Place(fields[b"id"].decode(), int(fields.get(b"seq", EVERY)))


def _number(entry: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = entry.partition(b"-")
    return int(milliseconds), int(sequence)
