"""Makes the documents of search: terms as soon as a thread changes, vectors as the model gets to it.

Events put a thread's terms in place and the thread into the queue; a loop takes threads from the queue
and adds the vectors that are missing. Both derive everything from the thread as it is, so doing it
again, or in another order, comes to the same.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from node.board.generation import Generation, Generations, kind_of
from node.board.index import Index
from node.board.queue import Leased, Queue
from node.board.search_source import Source, is_open, read_sources
from node.board.workloop import unless, until_news
from node.store import Store, StoreUnavailable, keys
from node.store.events import Event
from node.text.embed import Embedder

log = structlog.get_logger()

THREADS = 16
"""Taken from the queue at a time."""

PASSAGES = 64
"""Of them in one round, about five seconds of work; at least one thread."""

LOOK = 5.0
"""Seconds between looks at the queue without news of it."""


class Indexing:
    """One worker's part in it."""

    def __init__(self, store: Store, index: Index, generations: Generations, queue: Queue, embedder: Embedder) -> None:
        self._store = store
        self._index = index
        self._generations = generations
        self._queue = queue
        self._embedder = embedder
        self._leased: Leased | None = None
        self.text_only = False
        """Whether this worker has no model and will have none."""

    async def handle(self, events: Sequence[Event]) -> None:
        """Bring the terms of every thread that changed up to date, and have its vectors made. Raises
        StoreUnavailable: the events come again, and again changes nothing."""
        changed = {event.entity for event in events if event.kind.startswith(("thread.", "reply."))}
        opened = [source for source in await read_sources(self._store, list(changed)) if source]
        closed = changed - {source.thread_id for source in opened}
        if opened:
            # Both at once, so that Redis flushes its log once for it.
            await asyncio.gather(self._index.put(opened), self._queue.changed([source.thread_id for source in opened]))
        if closed:
            generations = await self._generations.known()
            await asyncio.gather(*(self._index.remove(thread, generations) for thread in closed))

    async def run(self, stop: asyncio.Event) -> None:
        """Make vectors until `stop` is set. What is under way then is for another worker."""
        with await self._store.news.listen(keys.SEARCH_PENDING) as listener:
            while not stop.is_set():
                worked = None
                try:
                    await self._return_unfinished()
                    worked = await unless(stop, self._round())
                except StoreUnavailable:
                    pass  # what was taken is given back as soon as that can be done
                except Exception:
                    # What was taken is due again when its lease ends; the rest must not wait for it.
                    log.exception("threads not indexed", threads=self._leased and self._leased.threads)
                    self._leased = None
                if not worked:
                    await until_news(listener, LOOK, stop)
        with suppress(StoreUnavailable):
            await self._return_unfinished()

    async def _round(self) -> bool:
        """Do some of what is due; whether there was anything."""
        generations = await self._ours()
        if not generations and not await self._nobody_embeds():
            return False
        leased = await self._queue.take(THREADS)
        if not leased.threads:
            return False
        self._leased = leased
        found = await read_sources(self._store, leased.threads)
        begun: list[str] = []
        passages = 0
        for thread, source in zip(leased.threads, found, strict=True):
            passages += len(source.passages()) if source else 0
            if begun and passages > PASSAGES:
                break
            begun.append(thread)
        await self._queue.give_back(leased, leased.threads[len(begun) :])
        sources = [source for source in found[: len(begun)] if source]
        if leased.queue == keys.SEARCH_BACKLOG:
            await self._index.put(sources, forced=True)
        for generation in generations:
            await self._embed(generation, generations[0], sources)
        await self._settle(leased, begun, found)
        return True

    async def _ours(self) -> list[Generation]:
        """The generations that this worker's model can make vectors for, the one in use first."""
        model = self._embedder.model
        if model is None:
            return []
        known = await asyncio.gather(self._generations.live(), self._generations.target())
        return [generation for generation in known if generation and generation.model == kind_of(model)]

    async def _nobody_embeds(self) -> bool:
        return self.text_only and not await self._store.command("EXISTS", keys.search_alive("vectors"))

    async def _embed(self, generation: Generation, other: Generation, sources: Sequence[Source]) -> None:
        """Add the vectors that a generation lacks, and remove those that it should not have."""
        had = await asyncio.gather(*(self._index.passages(generation.name, source.thread_id) for source in sources))
        lacking: list[tuple[str, str, str]] = []
        vectors: dict[str, dict[str, bytes]] = {source.thread_id: {} for source in sources}
        for source, names in zip(sources, had, strict=True):
            wanted = source.passages()
            for passage in wanted:
                if passage.name in names:
                    continue
                known = await self._known(generation, other, source.thread_id, passage.name)
                if known is None:
                    lacking.append((source.thread_id, passage.name, passage.text))
                else:
                    vectors[source.thread_id][passage.name] = known
            if gone := names - {passage.name for passage in wanted}:
                await self._index.remove_vectors(generation.name, source.thread_id, gone)
        made = await self._embedder.passages([text for _, _, text in lacking])
        for (thread, name, _), vector in zip(lacking, made, strict=True):
            vectors[thread][name] = vector
        await self._index.put_vectors(generation, vectors)

    async def _known(self, generation: Generation, other: Generation, thread_id: str, passage: str) -> bytes | None:
        """The vector of a passage in another generation of the same model, unless all is to be made anew."""
        if other.name == generation.name or other.epoch != generation.epoch:
            return None
        return await self._index.vector(other.name, thread_id, passage)

    async def _settle(self, leased: Leased, begun: Sequence[str], found: Sequence[Source | None]) -> None:
        """Undo what was made for threads that are no longer open, and take all out of the queue."""
        still_open = await asyncio.gather(*(is_open(self._store, thread) for thread in begun))
        for thread, opened, source in zip(begun, still_open, found, strict=False):
            if not opened:
                await self._index.remove(thread, await self._generations.known())
            elif source:
                await self._index.tell(thread)
        await self._queue.done(leased, begun)
        self._leased = None

    async def _return_unfinished(self) -> None:
        if self._leased:
            await self._queue.give_back(self._leased, self._leased.threads)
            self._leased = None
