"""Makes the search documents: the terms of a post at once, its vectors when the model gets to it.

The handler of an event writes the post's terms and puts the post into the queue. A loop takes posts from the queue and
adds the missing vectors. Both read only the post itself, and give the same documents if they are repeated or run in
another order. An entity to be reindexed is queued as a whole, and all of its documents are made from its present state.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import structlog

from node.embedding.embedder import Embedder
from node.search.corpus import EVERY, OWN, Post, PostRef
from node.search.index_versions import IndexVersion, is_made_by
from node.search.indexing.queue import LeasedPosts
from node.search.passages import PASSAGE_CHARACTERS, Passage, kept, seq_and_piece
from node.search.store import SearchStore
from node.search.vectors import converted
from node.search.worker_loop import unless, until_woken
from node.store import StoreUnavailable
from node.store.outbox import Event

log = structlog.get_logger()

LEASED_AT_ONCE = 32
"""Maximum number of posts or entities taken from the queue in one round."""

PASSAGES_A_ROUND = 64
"""Maximum number of passages embedded in one round, about five seconds of work. One post or entity may have more."""

POLL_SECONDS = 5.0
"""Time between two reads of the queue when there is no wake-up."""


class EntityWork:
    """The work to do for one entity in one round."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """Texts of the passages that need vectors, by the name of the passage."""
        self.whole = False
        """Whether `texts` has all passages of the entity, so that vectors of other passages are removed."""
        self.changed: set[int] = set()
        """Numbers of the posts whose vectors are added or removed."""
        self.needs_reindex = False
        """Whether the entity must be reindexed: there may be terms of a post that is gone or must not be found, or a
        vector is missing although there is room for it."""

    @property
    def read(self) -> set[int]:
        """Numbers of the posts to which the passages in `texts` belong."""
        return {seq_and_piece(name)[0] for name in self.texts}

    @property
    def later(self) -> set[int]:
        """Numbers of posts whose vectors were removed although they may be newer than the posts that were read."""
        return {seq for seq in self.changed if self.whole and seq > max(self.read, default=OWN)}

    def add(self, seq: int, passages: Sequence[Passage]) -> None:
        """Add the passages of a post. Those of EVERY post of the entity replace what was added before."""
        if self.whole and seq != EVERY:
            return
        if seq == EVERY:
            self.whole, self.texts, self.changed, self.needs_reindex = True, {}, set(), False
        elif not passages:
            self.needs_reindex = True
        self.texts |= {passage.name: passage.text for passage in passages}
        self.changed.add(seq)


class Indexer:
    """Makes the documents of one corpus in one worker."""

    def __init__(self, store: SearchStore, embedder: Embedder) -> None:
        self._store = store
        self._documents = store.documents
        self._corpus = store.corpus
        self._embedder = embedder
        self._leased: LeasedPosts | None = None
        self._leasing: asyncio.Task[None] | None = None
        self._singly = 0
        """Number of posts or entities that are still to be leased one by one."""
        self.text_only = False
        """Whether this worker has no model and will never have one."""

    async def handle(self, events: Sequence[Event]) -> None:
        """Index the terms of all posts that the events name, and queue the posts for embedding.

        Raises StoreUnavailable; then the events are delivered again. Handling is idempotent.
        """
        sites = self._corpus.to_index(events)
        posts, closed = await self._corpus.read_posts([ref for ref in sites if ref.seq != EVERY])
        weighed = [(sites[ref], ref.name, _weight([post])) for ref, post in posts.items()]
        for ref in sites.keys() - posts.keys():
            if ref.seq == EVERY:
                if every := await self._reindex(ref.entity_id):
                    weighed.append((sites[ref], ref.name, _weight(every)))
                else:
                    closed[ref.entity_id] = ""
        if weighed:
            await self._documents.put(list(posts.values()))
            # After `put`: the worker that takes a post from the queue removes these terms again if the post is gone.
            await self._store.queue.add(weighed)
        await self._remove(closed)

    async def run(self, stop: asyncio.Event) -> None:
        """Make vectors until `stop` is set. Unfinished work is given back to the queue."""
        with await self._store.wakeups.listen(self._store.keys.pending) as listener:
            while not stop.is_set():
                worked = None
                try:
                    await self._return_unfinished()
                    worked = await unless(stop, self._round())
                except StoreUnavailable:
                    pass  # the leased items are given back as soon as Redis can be reached
                except Exception:
                    log.exception("posts not indexed", posts=self._leased and self._leased.names)
                    self._part()
                if not worked:
                    await until_woken(listener, POLL_SECONDS, stop)
        with suppress(StoreUnavailable):
            await self._return_unfinished()

    async def _round(self) -> bool:
        """Do a part of the work that is due. Return whether there was any."""
        model, both = self._embedder.model, await self._store.versions.both()
        # The versions that this worker's model can make vectors for, the version in use first.
        versions = [version for version in both if version and is_made_by(model, version)]
        if not versions and (not self.text_only or await self._store.embeds_queries()):
            return False  # another worker makes the vectors, or this one does when its model is loaded
        # Not cancelled with the round, because this worker must know which items it has leased to give them back.
        self._leasing = asyncio.create_task(self._lease())
        await asyncio.shield(self._leasing)
        leased = self._leased
        if leased is None:
            return False
        begun, works = await self._begin([PostRef.named(name) for name in leased.names])
        await self._store.queue.give_back(leased, leased.names[begun:])
        for version in versions:
            await self._embed(version, versions[0], works)
        await self._finish(works)
        await self._store.queue.done(leased, leased.names[:begun])
        self._leased = None
        return True

    async def _lease(self) -> None:
        self._leased = await self._store.queue.lease(1 if self._singly else LEASED_AT_ONCE)
        self._singly = max(0, self._singly - 1)

    def _part(self) -> None:
        """After a failure, lease the items of the failed batch one by one, so that one bad item does not hold up the
        others. The bad item is due again when its lease ends.
        """
        if self._leased and len(self._leased.names) > 1:
            self._singly = len(self._leased.names)  # the items are given back before the next round
        else:
            self._leased = None

    async def _begin(self, refs: Sequence[PostRef]) -> tuple[int, dict[str, EntityWork]]:
        """Return how many of the first `refs` one round has time for, and the work to do for them, by entity."""
        posts, _ = await self._corpus.read_posts([ref for ref in refs if ref.seq != EVERY])
        works: dict[str, EntityWork] = {}
        total = 0
        for number, ref in enumerate(refs):
            passages = await self._passages(ref, posts.get(ref))
            total += len(passages)
            if number and total > PASSAGES_A_ROUND:
                return number, works
            works.setdefault(ref.entity_id, EntityWork()).add(ref.seq, passages)
        return len(refs), works

    async def _passages(self, ref: PostRef, post: Post | None) -> list[Passage]:
        """Return the passages of a post. For a whole entity, reindex the terms of all its posts first."""
        if ref.seq != EVERY:
            return post.passages() if post else []
        passages = [passage for each in await self._reindex(ref.entity_id) for passage in each.passages()]
        names = kept(passage.name for passage in passages)
        return [passage for passage in passages if passage.name in names]

    async def _reindex(self, entity_id: str) -> list[Post]:
        """Reindex the terms of all posts of an entity. Return the posts."""
        replies = await self._documents.start_reindex(entity_id)
        posts = await self._corpus.read_entity(entity_id)
        await self._documents.reindex(entity_id, posts, replies)
        return posts

    async def _embed(self, version: IndexVersion, current: IndexVersion, works: dict[str, EntityWork]) -> None:
        """Add the vectors that an index version lacks, and remove those that it should not have.

        `current` is the version in use, whose vectors can be copied.
        """
        had = await self._documents.passages(version.name, works)
        if self._corpus.returning:
            await self._documents.bring_back(version.name, [(each, name) for each in works for name in had[each]])
        wanted = {each: await self._wanted(each, work, had[each]) for each, work in works.items()}
        gone = {each: had[each] - wanted[each] for each in works}
        for each, work in works.items():
            work.changed |= {seq_and_piece(name)[0] for name in gone[each]}
        await self._documents.remove_vectors(version.name, gone)
        texts = {
            (each, name): text
            for each, work in works.items()
            for name, text in work.texts.items()
            if name in wanted[each]
        }
        named = {(each, name): text for (each, name), text in texts.items() if name in had[each]}
        there = await self._documents.with_vector(version.name, named)
        lacking = {passage: text for passage, text in texts.items() if passage not in there}
        changing = {(each, name): text for (each, name), text in lacking.items() if works[each].whole}
        await self._documents.put_vectors(version, await self._vectors(version, current, lacking), changing)
        await self._make_room(version.name, works, had)

    async def _make_room(self, version: str, works: Mapping[str, EntityWork], had: Mapping[str, set[str]]) -> None:
        """Remove vectors in excess of MAX_PASSAGES, now that the vectors of this round are written.

        Workers that index the same entity at the same time decide what fits without knowing each other's vectors. So
        each worker checks again after it has written and removed vectors. The last worker to check sees the final
        state: either too many vectors, or room for one that was removed or not written in favour of another vector
        that has gone since. In the latter case the entity is reindexed.
        """
        seen = {each: work.texts.keys() | had[each] for each, work in works.items()}
        while True:
            now = await self._documents.passages(version, works)
            surplus = {
                each: now[each] - await self._fitting(each, work, now[each] | work.texts.keys())
                for each, work in works.items()
            }
            if not any(surplus.values()):
                break
            await self._documents.remove_vectors(version, surplus)
            for each, names in surplus.items():
                seen[each] |= names
                works[each].changed |= {seq_and_piece(name)[0] for name in names}
        for each, work in works.items():
            if lacking := seen[each] - now[each]:
                work.needs_reindex |= not lacking.isdisjoint(await self._fitting(each, work, seen[each] | now[each]))

    async def _wanted(self, entity_id: str, work: EntityWork, had: set[str]) -> set[str]:
        """Return the names of the passages of an entity that should have a vector."""
        return kept(work.texts) if work.whole else await self._fitting(entity_id, work, work.texts.keys() | had)

    async def _fitting(self, entity_id: str, work: EntityWork, names: set[str]) -> set[str]:
        """Return those of the passages that fit beside each other and beside the passages of later replies.

        Later replies count even if they have no vectors yet. Otherwise an older reply would get vectors, only to lose
        them as soon as the later replies have theirs.
        """
        replies = work.changed - {OWN}
        newer = await self._documents.newer(entity_id, min(replies)) if replies else set[str]()
        return kept(names | newer)

    async def _vectors(
        self, version: IndexVersion, current: IndexVersion, texts: Mapping[tuple[str, str], str]
    ) -> dict[tuple[str, str], bytes]:
        """Return vectors of passages: copies from the version in use if it has them, else made by the model."""
        vectors: dict[tuple[str, str], bytes] = {}
        if version.name != current.name and version.epoch == current.epoch:
            found = await self._documents.vectors(current.name, list(texts))
            vectors = {each: converted(raw, current.scalar, version.scalar) for each, raw in found.items()}
        unknown = [each for each in texts if each not in vectors]
        made = await self._embedder.passages([texts[each] for each in unknown])
        packed = (converted(vector, "float32", version.scalar) for vector in made)
        return vectors | dict(zip(unknown, packed, strict=True))

    async def _finish(self, works: dict[str, EntityWork]) -> None:
        """Remove entities that are no longer open, and publish the changes of the others.

        If a post of an entity was added, changed or removed meanwhile, the entity is reindexed: another worker may
        already have indexed the newer state, and this worker has just overwritten it with what it had read earlier.
        """
        statuses, (posts, _) = await asyncio.gather(
            self._corpus.source.statuses(list(works)),
            self._corpus.read_posts(
                [PostRef(each, seq) for each, work in works.items() for seq in work.read | work.later]
            ),
        )
        status_of = dict(zip(works, statuses, strict=True))
        await self._remove({each: status for each, status in status_of.items() if status != "open"})
        still_open = {each: work for each, work in works.items() if status_of[each] == "open"}
        now = {(ref.entity_id, each.name): each.text for ref, post in posts.items() for each in post.passages()}
        await self._store.queue.add_to_backlog(
            [
                each
                for each, work in still_open.items()
                if work.needs_reindex
                or any(PostRef(each, seq) in posts for seq in work.later)
                or any(now.get((each, name)) != text for name, text in work.texts.items())
            ]
        )
        await self._store.changes.publish(
            [PostRef(each, seq) for each, work in still_open.items() for seq in work.changed]
        )

    async def _remove(self, statuses: Mapping[str, str]) -> None:
        """Remove entities that are not open from the index."""
        if statuses:
            versions = await self._store.versions.names()
            returning = self._corpus.returning
            await asyncio.gather(
                *(self._documents.remove(each, versions, aside=statuses[each] in returning) for each in statuses)
            )
            # An entity that was opened again meanwhile may have been indexed before it was removed here.
            now = zip(statuses, await self._corpus.source.statuses(list(statuses)), strict=True)
            await self._store.queue.add_to_backlog([each for each, status in now if status == "open"])

    async def _return_unfinished(self) -> None:
        if self._leasing:
            await asyncio.wait([self._leasing])
        if self._leased:
            await self._store.queue.give_back(self._leased, self._leased.names)
            self._leased = None


def _weight(posts: Iterable[Post]) -> int:
    """Return about how many passages the posts have, at PASSAGE_CHARACTERS each."""
    return sum(1 + len(post.text) // PASSAGE_CHARACTERS for post in posts)
