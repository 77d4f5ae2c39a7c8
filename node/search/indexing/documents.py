"""The search documents in Redis: the terms of each post and the vectors of its passages.

Documents are a projection: they can be rebuilt from the features' entities. Each post is indexed by itself, so that the
cost of a reply depends on its own length only. Only the newest replies of an entity are kept. A query engine finds
documents by their key prefix; indexes in memory follow `changes`. `indexer` decides when vectors are made, and makes
them.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import cast

from node.common.own_terms import OwnTerms
from node.search.corpus import EVERY, INDEXED_REPLIES, OWN, Post, PostRef
from node.search.engines.choice import EngineChoice
from node.search.index_versions import IndexVersion
from node.search.indexing.changes import DocumentChanges
from node.search.passages import MAX_PASSAGES, kept, seq_and_piece
from node.store import Arg, Store
from node.store.decoding import names_of
from node.store.search_keys import SearchKeys
from node.store.steps import Key, Rest, Step, step
from node.text.terms import MARK, marks_of, terms_of

NOTED_CHARACTERS = 5_000
"""Characters of a new entity's text that the request indexes, within a millisecond. A worker adds the rest later."""

TERMS = 1_200
"""Distinct terms of a post that are indexed: the first ones. 20,000 characters of English have 600 to 1,100. Each new
term takes some 280 bytes in a query engine, fifty times the size of a short word."""

REPLY_MARKS = 4096
"""Marks of an entity's newest replies that count for its share of a query: those of some 50,000 characters."""

VECTORS_AT_ONCE = {"flat": 32, "hnsw": 4}
"""Vectors written in one batch. A batch needs one flush of Redis' log, and blocks Redis for up to three milliseconds:
an insertion takes 0.03 ms (flat) or 0.7 ms (hnsw)."""

ASIDE_MS = 86_400_000
"""Milliseconds for which the vectors of a closed entity are kept in case it is opened again."""

NEXT_MARKS_MS = 86_400_000
"""TTL, in milliseconds, of the new marks of an entity that is being reindexed, in case this never ends."""

Passages = Sequence[tuple[str, str]]
"""Passages, each as the id of its entity and its name."""


@step
def doc_put(*, doc: Key, own: OwnTerms, forced: int) -> None:
    """Index the own text of an entity."""


@step
def reply_put(
    *,
    doc: Key,
    docs: Key,
    marks: Key,
    next_marks: Key,
    seq: int,
    forced: int,
    most: int,
    terms: str,
    added: bytes,
    passages: int,
) -> None:
    """Index a reply."""


@step
def reindex_start(*, next_marks: Key, docs: Key, life: int) -> None:
    """Begin to reindex an entity."""


@step
def reindex_end(*, marks: Key, next_marks: Key) -> None:
    """Replace the marks of replies by the new ones."""


@step
def reply_remove(*, doc: Key, docs: Key, seq: int) -> None:
    """Remove a reply from the index."""


@step
def vector_put(*, vector: Key, passages: Key, name: str, fields: Rest) -> None:
    """Add the vector of a passage to the index."""


@step
def vector_remove(*, vector: Key, aside: Key, passages: Key, name: str) -> None:
    """Remove the vector of a passage."""


@step
def vector_move(*, source: Key, target: Key, life: int) -> None:
    """Put a vector aside, out of the index, or put it back."""


class Documents:
    """Reads and writes the documents. `store` is the Redis that holds them. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys, choice: EngineChoice, changes: DocumentChanges) -> None:
        self._store = store
        self._keys = keys
        self._choice = choice
        self._changes = changes

    async def note(self, entity_id: str, title: str, body: str) -> None:
        """Index the beginning of a new entity's text at once, within the request that posts the entity."""
        post = Post(entity_id, OWN, body, title)
        step = doc_put(doc=doc_of(self._keys, post.ref), own=own_terms(post.text, NOTED_CHARACTERS), forced=0)
        if await self._choice.query_engine():
            self._store.send(step)
        else:
            await self._store.run(step)
            await self._changes.publish([post.ref])

    async def put(self, posts: Sequence[Post]) -> None:
        """Index posts by their text. Posts that are already indexed are not written again."""
        dropped = await self._put(posts)
        await self._changes.publish([*(post.ref for post in posts), *dropped])

    async def start_reindex(self, entity_id: str) -> set[int]:
        """Begin to reindex an entity, before its posts are read. Return the numbers of replies that have a document.

        A reply that comes after this call is indexed completely, whether or not it is among the posts that are read.
        """
        next_marks, docs = self._keys.next_marks(entity_id), self._keys.reply_docs(entity_id)
        numbers = await self._store.run(reindex_start(next_marks=next_marks, docs=docs, life=NEXT_MARKS_MS))
        return set(map(int, cast("list[bytes]", numbers)))

    async def reindex(self, entity_id: str, posts: Sequence[Post], replies: Collection[int]) -> None:
        """Reindex all posts of an entity, and remove those of `replies` that are not among the posts.

        Until this is done, the entity is found by its old terms.
        """
        await self._put(posts, forced=True)
        await self.remove_replies(entity_id, set(replies) - {post.seq for post in posts})
        marks, next_marks = self._keys.reply_marks(entity_id), self._keys.next_marks(entity_id)
        await self._store.run(reindex_end(marks=marks, next_marks=next_marks))
        if posts:  # otherwise the caller removes the entity, and `remove` publishes that
            await self._changes.publish([PostRef(entity_id, EVERY)])

    async def _put(self, posts: Sequence[Post], *, forced: bool = False) -> list[PostRef]:
        """Index posts by their text. Return the old replies that were removed because their entity had too many."""
        await self._choice.query_engine()  # creates the engine's indexes before any document
        steps: list[Step] = []
        for post in posts:
            steps.append(_put_step(self._keys, post, forced=forced))
            await asyncio.sleep(0)  # a long post takes some milliseconds; let waiting queries in between
        replies = cast("list[list[int]]", await self._store.run_all(steps))
        # For a reply, the step also returns the number of replies of the entity that have a document.
        full = {
            post.entity_id
            for post, (_, *count) in zip(posts, replies, strict=True)
            if count and count[0] > INDEXED_REPLIES
        }
        return [ref for entity_id in full for ref in await self._drop_oldest(entity_id)]

    async def reply_numbers(self, entity_id: str) -> set[int]:
        """Return the numbers of the replies that have a document."""
        numbers = await self._store.command("SMEMBERS", self._keys.reply_docs(entity_id))
        return set(map(int, cast("list[bytes]", numbers)))

    async def remove_replies(self, entity_id: str, numbers: Collection[int]) -> None:
        """Remove the documents of these replies."""
        doc, docs = self._keys.reply_doc, self._keys.reply_docs(entity_id)
        await self._store.run_all([reply_remove(doc=doc(entity_id, seq), docs=docs, seq=seq) for seq in numbers])

    async def remove(self, entity_id: str, versions: Collection[str], *, aside: bool = False) -> None:
        """Remove an entity from the index. With `aside`, keep its vectors for ASIDE_MS in case it is opened again."""
        await self.remove_replies(entity_id, await self.reply_numbers(entity_id))
        keys = self._keys.doc, self._keys.reply_marks, self._keys.next_marks
        await self._store.run_all([("UNLINK", key(entity_id)) for key in keys])
        for version in versions:
            if aside:
                await self._put_aside(version, entity_id)
            else:
                await self.remove_all_vectors(version, [entity_id])
        await self._changes.publish([PostRef(entity_id, EVERY)])

    async def bring_back(self, version: str, passages: Passages) -> None:
        """Put the vectors of these passages back into the index, if they were put aside."""
        vector, aside = self._keys.vector, self._keys.aside
        await self._store.run_all(
            [vector_move(source=aside(version, *each), target=vector(version, *each), life=0) for each in passages]
        )

    async def passages(self, version: str, entity_ids: Collection[str]) -> dict[str, set[str]]:
        """Return, by entity, the names of the passages that have a vector, in the index or aside."""
        found = await self._store.run_all([("SMEMBERS", self._keys.passages(version, each)) for each in entity_ids])
        return {each: set(names_of(names)) for each, names in zip(entity_ids, found, strict=True)}

    async def newer(self, entity_id: str, seq: int) -> set[str]:
        """Return the names of the passages of replies newer than `seq`, whether or not they have a vector yet.

        Only the newest MAX_PASSAGES replies are considered, because no more can have a vector.
        """
        return await self._named(entity_id, {each for each in await self.reply_numbers(entity_id) if each > seq})

    async def with_vector(self, version: str, passages: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
        """Return those of the passages that have a vector made from the given text. `passages`: texts by passage.

        A vector that was put aside may have expired. A vector that is stored with the digest of its text may have been
        made from an earlier text.
        """
        found = await self._store.run_all(
            [("HMGET", self._keys.vector(version, *each), "thread", "text") for each in passages]
        )
        has = zip(passages.items(), cast("list[tuple[bytes | None, bytes | None]]", found), strict=True)
        return {each for (each, text), (entity, digest) in has if entity and digest in (None, _text_digest(text))}

    async def vectors(self, version: str, passages: Passages) -> dict[tuple[str, str], bytes]:
        """Return the vectors of those passages that have one."""
        found = await self._store.run_all([("HGET", self._keys.vector(version, *each), "vector") for each in passages])
        return {each: vector for each, vector in zip(passages, cast("list[bytes]", found), strict=True) if vector}

    async def put_vectors(
        self,
        version: IndexVersion,
        vectors: Mapping[tuple[str, str], bytes],
        texts: Mapping[tuple[str, str], str],
    ) -> None:
        """Add vectors of passages. `texts`: texts of passages that may change, whose digests are stored too."""
        steps = [
            vector_put(
                vector=self._keys.vector(version.name, *each),
                passages=self._keys.passages(version.name, each[0]),
                name=each[1],
                fields=[
                    *("thread", each[0], "vector", vector),
                    *(("text", _text_digest(texts[each])) if each in texts else ()),
                ],
            )
            for each, vector in vectors.items()
        ]
        at_once = VECTORS_AT_ONCE[version.algorithm]
        for start in range(0, len(steps), at_once):
            await self._store.run_all(steps[start : start + at_once])

    async def remove_vectors(self, version: str, named: Mapping[str, Collection[str]]) -> None:
        """Remove the vectors of passages, given as names by entity."""
        keys = self._keys
        await self._store.run_all(
            [
                vector_remove(
                    vector=keys.vector(version, entity_id, name),
                    aside=keys.aside(version, entity_id, name),
                    passages=keys.passages(version, entity_id),
                    name=name,
                )
                for entity_id, names in named.items()
                for name in names
            ]
        )

    async def remove_all_vectors(self, version: str, entity_ids: Sequence[str]) -> None:
        """Remove all vectors of entities."""
        await self.remove_vectors(version, await self.passages(version, entity_ids))

    async def remove_version(self, version: str) -> None:
        """Remove all vectors of a version, including those of entities that are gone from all lists but not yet from
        the index. This makes Redis scan all of its keys, a part at a time."""
        async for names in self._store.names(f"{self._keys.passages_prefix(version)}*"):
            await self.remove_all_vectors(version, [name.rpartition(":")[2] for name in names])

    async def incomplete(self, entity_ids: Sequence[str], version: str | None) -> list[str]:
        """Return the entities that lack a document, or a vector that they should have in the version."""
        docs = await self._store.run_all([("EXISTS", self._keys.doc(each)) for each in entity_ids])
        if version is None:
            return [each for each, has_document in zip(entity_ids, docs, strict=True) if not has_document]
        found: list[str] = []
        replies = await self._store.run_all([("SMEMBERS", self._keys.reply_docs(each)) for each in entity_ids])
        passages = await self.passages(version, entity_ids)
        for each, doc, numbers in zip(entity_ids, docs, cast("list[list[bytes]]", replies), strict=True):
            names = passages[each]
            bare = set(map(int, numbers)) - {seq_and_piece(name)[0] for name in names}
            if not (doc and names) or (bare and not names >= kept(names | await self._named(each, bare))):
                found.append(each)
        return found

    async def _named(self, entity_id: str, replies: Collection[int]) -> set[str]:
        """Return the names of the passages of the newest MAX_PASSAGES of these replies; no more can have a vector."""
        newest = sorted(replies)[-MAX_PASSAGES:]
        commands = [("HGET", self._keys.reply_doc(entity_id, seq), "passages") for seq in newest]
        counts = cast("list[bytes | None]", await self._store.run_all(commands))
        return {f"{seq}.{n}" for seq, count in zip(newest, counts, strict=True) for n in range(int(count or 0))}

    async def _put_aside(self, version: str, entity_id: str) -> None:
        """Put the vectors of an entity aside, out of the index. They can be brought back within ASIDE_MS."""
        vector, aside = self._keys.vector, self._keys.aside
        found = await self.passages(version, [entity_id])
        passages = [(version, entity_id, name) for name in found[entity_id]]
        await self._store.run_all(
            [vector_move(source=vector(*each), target=aside(*each), life=ASIDE_MS) for each in passages]
        )

    async def _drop_oldest(self, entity_id: str) -> list[PostRef]:
        """Remove the documents of replies that are no longer among the newest. Return references to these replies."""
        dropped = sorted(await self.reply_numbers(entity_id))[:-INDEXED_REPLIES]
        await self.remove_replies(entity_id, dropped)
        return [PostRef(entity_id, seq) for seq in dropped]


def _text_digest(text: str) -> bytes:
    """Return a short digest that tells different texts of a passage apart."""
    return blake2b(text.encode(), digest_size=8).digest()


def marks_of_own(keys: SearchKeys, entity_id: str) -> tuple[Arg, ...]:
    """Return the command that reads the marks of an entity's own text. It replies None if there is no document."""
    return "HGET", keys.doc(entity_id), "marks"


def marks_of_replies(keys: SearchKeys, entity_id: str) -> tuple[Arg, ...]:
    """Return the command that reads the marks of an entity's replies, in any order. It replies b"" without any."""
    return "GETRANGE", keys.reply_marks(entity_id), -REPLY_MARKS * MARK, -1


def doc_of(keys: SearchKeys, ref: PostRef) -> Key:
    """Return the key of a post's document."""
    return keys.doc(ref.entity_id) if ref.seq == OWN else keys.reply_doc(ref.entity_id, ref.seq)


def own_terms(text: str, characters: int | None = None) -> OwnTerms:
    """Return the terms of an entity's own text, or of its first `characters` characters."""
    beginning = text[:characters]
    terms = _limited(terms_of(beginning))
    return OwnTerms(int(len(beginning) == len(text)), " ".join(terms), marks_of(terms))


def _put_step(keys: SearchKeys, post: Post, *, forced: bool) -> Step:
    """Return the step that indexes a post by its text."""
    if post.seq == OWN:
        return doc_put(doc=doc_of(keys, post.ref), own=own_terms(post.text), forced=int(forced))
    terms = _limited(terms_of(post.text))
    return reply_put(
        doc=doc_of(keys, post.ref),
        docs=keys.reply_docs(post.entity_id),
        marks=keys.reply_marks(post.entity_id),
        next_marks=keys.next_marks(post.entity_id),
        seq=post.seq,
        forced=int(forced),
        most=REPLY_MARKS * MARK,
        terms=" ".join(terms),
        added=marks_of(terms),
        passages=len(post.passages()),
    )


def _limited(terms: list[str]) -> list[str]:
    """Return those of the terms, with repetitions, that are among the first TERMS distinct ones."""
    if len(terms) <= TERMS:
        return terms
    first = set(islice(dict.fromkeys(terms), TERMS))
    return [term for term in terms if term in first]
