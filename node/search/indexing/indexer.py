"""Makes the documents of search: terms as soon as a post is there, vectors as the model gets to it.

Events put a post's terms in place and the post into the queue; a loop takes posts from the queue and adds the vectors
that are missing. Both read the post and nothing else of its thread. Doing it again, or in another order, comes to the
same. A thread that is indexed anew is in the queue as a whole, and everything is derived from the thread as it is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from node.search.generations import IndexVersion, IndexVersions, kind_of
from node.search.indexing.documents import Documents
from node.search.indexing.queue import Leased, Queue
from node.search.passages import LENGTH, MOST, Passage, kept, passages_of, place_of
from node.search.threads import EVERY, OWN, Place, Post, open_ones, read_posts, read_thread
from node.search.worker_loop import unless, until_news
from node.store import Store, StoreUnavailable, keys
from node.store.outbox import Event
from node.text.embed import Embedder

log = structlog.get_logger()

TOGETHER = 32
"""Posts or threads taken from the queue at a time."""

PASSAGES = 64
"""Of them in one round, about five seconds of work; at least one post or thread."""

LOOK = 5.0
"""Seconds between looks at the queue without news of it."""


class IndexingStep:
    """What is to be done for one thread in one round."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.passages: dict[str, Passage] = {}
        """Those that the vectors are wanted of, by name."""
        self.whole = False
        """Whether the thread is to have no others."""
        self.changed: set[int] = set()
        """Numbers of the posts whose vectors came or went."""

    def add(self, posts: Sequence[Post]) -> None:
        """Single posts."""
        for post in posts:
            self.changed.add(post.seq)
            self.passages |= {passage.name: passage for passage in post.passages()}

    def add_whole(self, posts: Sequence[Post]) -> None:
        """All posts of the thread, its own text first; none if it is not open."""
        self.whole = True
        self.changed.add(EVERY)
        if posts:
            own, *replies = posts
            wanted = passages_of(own.title, own.body, [(reply.seq, reply.body) for reply in replies])
            self.passages = {passage.name: passage for passage in wanted}

    @property
    def most(self) -> int:
        """How many vectors will have to be made, at most."""
        return min(MOST, len(self.passages))

    def joined(self, other: "IndexingStep") -> "IndexingStep":
        """Both in one; the whole of the thread includes all else."""
        if self.whole or other.whole:
            return self if self.whole else other
        both = IndexingStep(self.thread_id)
        both.passages = self.passages | other.passages
        both.changed = self.changed | other.changed
        return both


class Indexer:
    """One worker's part in it."""

    def __init__(
        self, store: Store, index: Documents, generations: IndexVersions, queue: Queue, embedder: Embedder
    ) -> None:
        self._store = store
        self._index = index
        self._generations = generations
        self._queue = queue
        self._embedder = embedder
        self._leased: Leased | None = None
        self.text_only = False
        """Whether this worker has no model and will have none."""

    async def handle(self, events: Sequence[Event]) -> None:
        """Put the terms of every post that came in place, and have its vectors made. Raises StoreUnavailable: the
        events come again, and again changes nothing."""
        sites = {
            _place_of(event): event.fields.get("site", "")
            for event in events
            if event.kind.startswith(("thread.", "reply."))
        }
        posts, closed = await read_posts(self._store, list(sites))
        if posts:
            # Both at once, so that Redis flushes its log once for it.
            await asyncio.gather(self._index.put(posts), self._queue.changed([_queued(sites, post) for post in posts]))
        if closed:
            generations = await self._generations.known()
            await asyncio.gather(*(self._index.remove(thread, generations) for thread in closed))

    async def run(self, stop: asyncio.Event) -> None:
        """Make vectors until `stop` is set. What is under way then is for another worker."""
        with await self._store.wakeups.listen(keys.SEARCH_PENDING) as listener:
            while not stop.is_set():
                worked = None
                try:
                    await self._return_unfinished()
                    worked = await unless(stop, self._round())
                except StoreUnavailable:
                    pass  # what was taken is given back as soon as that can be done
                except Exception:
                    # What was taken is due again when its lease ends; the rest must not wait for it.
                    log.exception("posts not indexed", posts=self._leased and self._leased.names)
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
        leased = await self._queue.take(TOGETHER)
        if not leased.names:
            return False
        self._leased = leased
        begun, works = await self._begun([Place.named(name) for name in leased.names])
        await self._queue.give_back(leased, leased.names[begun:])
        for generation in generations:
            await self._embed(generation, generations[0], works)
        await self._settle(works)
        await self._queue.done(leased, leased.names[:begun])
        self._leased = None
        return True

    async def _ours(self) -> list[IndexVersion]:
        """The generations that this worker's model can make vectors for, the one in use first."""
        model = self._embedder.model
        if model is None:
            return []
        known = await asyncio.gather(self._generations.live(), self._generations.target())
        return [generation for generation in known if generation and generation.model == kind_of(model)]

    async def _nobody_embeds(self) -> bool:
        return self.text_only and not await self._store.command("EXISTS", keys.search_alive("vectors"))

    async def _begun(self, places: Sequence[Place]) -> tuple[int, list[IndexingStep]]:
        """As many of the places, from the first, as one round has time for, and what is to be done for them."""
        posts, _ = await read_posts(self._store, [place for place in places if place.seq != EVERY])
        single = {Place(post.thread_id, post.seq): post for post in posts}
        works: dict[str, IndexingStep] = {}
        for number, place in enumerate(places):
            work = IndexingStep(place.thread_id)
            if place.seq == EVERY:
                work.add_whole(await self._put_anew(place.thread_id))
            elif place in single:
                work.add([single[place]])
            known = works.get(place.thread_id)
            joined = known.joined(work) if known else work
            others = sum(other.most for thread, other in works.items() if thread != place.thread_id)
            if number and others + joined.most > PASSAGES:
                return number, list(works.values())
            works[place.thread_id] = joined
        return len(places), list(works.values())

    async def _put_anew(self, thread_id: str) -> list[Post]:
        """Put the terms of all posts of a thread, and give the posts."""
        # Before the thread is read: of a reply that comes meanwhile, nothing must be forgotten.
        await self._index.start_anew(thread_id)
        posts = await read_thread(self._store, thread_id)
        await self._index.put(posts, forced=True)
        return posts

    async def _embed(self, generation: IndexVersion, other: IndexVersion, works: Sequence[IndexingStep]) -> None:
        """Add the vectors that a generation lacks, and remove those that it should not have."""
        had = await self._index.passages(generation.name, [work.thread_id for work in works])
        lacking: list[tuple[str, Passage]] = []
        vectors: dict[str, dict[str, bytes]] = {work.thread_id: {} for work in works}
        for work, names in zip(works, had, strict=True):
            wanted = kept(work.passages if work.whole else {*names, *work.passages, *await self._newer(work)})
            there = await self._index.there(generation.name, work.thread_id, names & work.passages.keys())
            for passage in work.passages.values():
                if passage.name in there or passage.name not in wanted:
                    continue
                known = await self._known(generation, other, work.thread_id, passage.name)
                if known is None:
                    lacking.append((work.thread_id, passage))
                else:
                    vectors[work.thread_id][passage.name] = known
            gone = names - wanted
            await self._index.remove_vectors(generation.name, work.thread_id, gone)
            work.changed |= {place_of(name)[0] for name in gone}
        made = await self._embedder.passages([passage.text for _, passage in lacking])
        for (thread, passage), vector in zip(lacking, made, strict=True):
            vectors[thread][passage.name] = vector
        await self._index.put_vectors(generation, vectors)

    async def _newer(self, work: IndexingStep) -> set[str]:
        """Names of the passages of replies that came later. What does not fit beside them need not be embedded, so that
        of many replies that wait only those are that stay."""
        replies = work.changed - {OWN}
        return await self._index.newer(work.thread_id, min(replies)) if replies else set()

    async def _known(self, generation: IndexVersion, other: IndexVersion, thread_id: str, passage: str) -> bytes | None:
        """The vector of a passage in another generation of the same model, unless all is to be made anew."""
        if other.name == generation.name or other.epoch != generation.epoch:
            return None
        return await self._index.vector(other.name, thread_id, passage)

    async def _settle(self, works: Sequence[IndexingStep]) -> None:
        """Undo what was made for threads that are no longer open, and tell of the rest."""
        opened = await open_ones(self._store, [work.thread_id for work in works])
        for work in works:
            if work.thread_id not in opened:
                await self._index.remove(work.thread_id, await self._generations.known())
        await self._index.publish_changes(
            [Place(work.thread_id, seq) for work in works if work.thread_id in opened for seq in work.changed]
        )

    async def _return_unfinished(self) -> None:
        if self._leased:
            await self._queue.give_back(self._leased, self._leased.names)
            self._leased = None


def _place_of(event: Event) -> Place:
    """The post that an event is about."""
    return Place(event.entity, int(event.fields.get("seq", OWN)))


def _queued(sites: Mapping[Place, str], post: Post) -> tuple[str, str, int]:
    """The site that a post came from, its name, and how many passages it may have."""
    place = Place(post.thread_id, post.seq)
    return sites.get(place, ""), place.name, 1 + len(post.text) // LENGTH
