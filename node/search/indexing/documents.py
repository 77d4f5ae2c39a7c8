"""The documents of search in Redis: the terms of each post, and the vectors of its passages.

A projection: whatever is here can be made again from the threads. A post is indexed by itself, so that a reply costs
what it weighs, however long its thread is; of a thread's replies the newest are kept. Query engines that index hashes
find documents by the prefix of their keys; an index in memory is told by a stream of changes. Who makes vectors, and
when, is in `indexer`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import cast

from node.search.engines.choice import EngineChoice
from node.search.generations import IndexVersion
from node.search.passages import MOST
from node.search.threads import EVERY, OWN, REPLIES, Place, Post
from node.store import Arg, RedisReply, Store, keys
from node.store.bulk import bulk, bulk_runs
from node.store.scripts import script
from node.text.terms import MARK, marks_of, terms_of

PUT = script("doc_put")
PUT_REPLY = script("reply_put")

NOTED = 5_000
"""Characters of a new thread that the posting request makes terms of, within a millisecond; a worker does the rest."""

TERMS = 1_200
"""Distinct terms that a post is found by, the first ones: English of 20,000 characters has 600 to 1,100. A new one
takes a query engine some 280 bytes, fifty times what a short word weighs."""

REPLY_MARKS = 4096
"""Terms of a thread's replies that count for its share of a query: those of the newest, some 50,000 characters."""

WRITES = {"flat": 32, "hnsw": 4}
"""Vectors sent at a time. Together they cost one flush of Redis' log, and hold Redis up for two or three
milliseconds: an insertion takes 0.03 or 0.7 of one.
"""

CHANGES = 10_000
"""Entries kept in the stream of changes; an index in memory that is further behind loads everything anew."""


class Documents:
    """Writes documents. `documents` is the Redis that is searched, `store` the one with the threads."""

    def __init__(self, store: Store, documents: Store, engine: EngineChoice) -> None:
        self._store = store
        self._documents = documents
        self._engine = engine

    async def note(self, thread_id: str, title: str, body: str) -> None:
        """Have a new thread found by text at once; for the request that posted it. Raises StoreUnavailable."""
        text = f"{title}\n{body}"
        await self._engine.query_engine()
        await self._documents.run(PUT, *_own_step(thread_id, text[:NOTED], whole=len(text) <= NOTED))
        await self.publish_changes([Place(thread_id, OWN)])

    async def put(self, posts: Sequence[Post], *, forced: bool = False) -> None:
        """Have posts found by their text; the same again changes nothing unless `forced`. Raises StoreUnavailable."""
        await self._engine.query_engine()  # so that its index is there before what it indexes
        own: list[tuple[Sequence[str], list[Arg]]] = []
        replies: list[tuple[Sequence[str], list[Arg]]] = []
        for post in posts:
            if post.seq == OWN:
                own.append(_own_step(post.thread_id, post.text, whole=True, forced=forced))
            else:
                replies.append(_reply_step(post, forced=forced))
            await asyncio.sleep(0)  # a long one takes some milliseconds, and queries wait meanwhile
        _, counted = await asyncio.gather(
            bulk_runs(self._documents, PUT, own), bulk_runs(self._documents, PUT_REPLY, replies)
        )
        many = {
            post.thread_id
            for post, answer in zip((post for post in posts if post.seq != OWN), counted, strict=True)
            if cast("list[int]", answer)[1] > REPLIES
        }
        dropped = [place for thread in many for place in await self._drop_oldest(thread)]
        await self.publish_changes([*(Place(post.thread_id, post.seq) for post in posts), *dropped])

    async def start_anew(self, thread_id: str) -> None:
        """Forget what all replies of a thread say together, before each is `put` again. Raises StoreUnavailable."""
        await self._documents.command("UNLINK", keys.reply_marks(thread_id))

    async def remove(self, thread_id: str, generations: Collection[str]) -> None:
        """Have a thread found no more. Raises StoreUnavailable."""
        await self._documents.command("UNLINK", keys.doc(thread_id))
        await self._remove_replies(thread_id, await self._replies(thread_id))
        await self._documents.command("UNLINK", keys.reply_marks(thread_id))
        for generation in generations:
            await self.remove_all_vectors(generation, [thread_id])
        await self.publish_changes([Place(thread_id, EVERY)])

    async def passages(self, generation: str, thread_ids: Sequence[str]) -> list[set[str]]:
        """The passages of each of the threads that have a vector. Raises StoreUnavailable."""
        found = await bulk(
            self._documents, [("SMEMBERS", keys.passages(generation, thread_id)) for thread_id in thread_ids]
        )
        return [{name.decode() for name in cast("Sequence[bytes]", names)} for names in found]

    async def newer(self, thread_id: str, seq: int) -> set[str]:
        """Names of the passages that replies after that one have, whether or not they have a vector yet; of so many
        replies as can have one. Raises StoreUnavailable."""
        numbers = sorted(number for number in await self._replies(thread_id) if number > seq)[-MOST:]
        counts = await bulk(
            self._documents, [("HGET", keys.reply_doc(thread_id, number), "passages") for number in numbers]
        )
        return {
            f"{number}.{n}"
            for number, count in zip(numbers, counts, strict=True)
            for n in range(int(cast("bytes | None", count) or 0))
        }

    async def there(self, generation: str, thread_id: str, names: Collection[str]) -> set[str]:
        """Which of these passages really have one: a worker may have died between a name and its vector. Raises
        StoreUnavailable."""
        found = await bulk(self._documents, [("EXISTS", keys.vector(generation, thread_id, name)) for name in names])
        return {name for name, exists in zip(names, found, strict=True) if exists}

    async def vector(self, generation: str, thread_id: str, passage: str) -> bytes | None:
        """The vector of a passage. Raises StoreUnavailable."""
        key = keys.vector(generation, thread_id, passage)
        return cast("bytes | None", await self._documents.command("HGET", key, "vector"))

    async def put_vectors(self, generation: IndexVersion, vectors: Mapping[str, Mapping[str, bytes]]) -> None:
        """Add vectors of passages, by thread and name. Raises StoreUnavailable."""
        # The names first: what is written is always named, so it can be removed whatever happens.
        names = [("SADD", keys.passages(generation.name, thread), *named) for thread, named in vectors.items() if named]
        await bulk(self._documents, names)
        commands = [
            ("HSET", keys.vector(generation.name, thread, name), "thread", thread, "vector", vector)
            for thread, named in vectors.items()
            for name, vector in named.items()
        ]
        together = WRITES[generation.algorithm]
        for start in range(0, len(commands), together):
            await bulk(self._documents, commands[start : start + together])

    async def remove_vectors(self, generation: str, thread_id: str, names: Collection[str]) -> None:
        """Remove the vectors of some passages. Raises StoreUnavailable."""
        if names:
            await bulk(self._documents, [("UNLINK", keys.vector(generation, thread_id, name)) for name in names])
            await self._documents.command("SREM", keys.passages(generation, thread_id), *names)

    async def remove_all_vectors(self, generation: str, thread_ids: Sequence[str]) -> None:
        """Remove the vectors of threads. Raises StoreUnavailable."""
        held = await self.passages(generation, thread_ids)
        named = [(thread, names) for thread, names in zip(thread_ids, held, strict=True) if names]
        await bulk(
            self._documents,
            [("UNLINK", keys.vector(generation, thread, name)) for thread, names in named for name in names],
        )
        await bulk(self._documents, [("SREM", keys.passages(generation, thread), *names) for thread, names in named])

    async def lacking(self, thread_ids: Sequence[str], generation: str | None) -> list[str]:
        """The threads that have no document, or no vectors in that generation. Raises StoreUnavailable."""
        docs = await bulk(self._documents, [("EXISTS", keys.doc(thread)) for thread in thread_ids])
        vectors: Sequence[RedisReply] = docs
        if generation:
            vectors = await bulk(
                self._documents, [("EXISTS", keys.passages(generation, thread)) for thread in thread_ids]
            )
        return [thread for thread, *held in zip(thread_ids, docs, vectors, strict=True) if not all(held)]

    async def publish_changes(self, places: Sequence[Place]) -> None:
        """Tell indexes in memory of changes; a query engine sees them by itself. Raises StoreUnavailable."""
        if not places or await self._engine.query_engine():
            return
        stream = keys.SEARCH_CHANGES
        entry = ("XADD", stream, "MAXLEN", "~", CHANGES, "*")
        await bulk(self._store, [(*entry, "id", place.thread_id, "seq", place.seq) for place in places])
        await self._store.command("SPUBLISH", stream, "")

    async def _drop_oldest(self, thread_id: str) -> list[Place]:
        """Take the replies out that are no longer among the newest; which they were."""
        gone = sorted(await self._replies(thread_id))[:-REPLIES]
        await self._remove_replies(thread_id, gone)
        return [Place(thread_id, seq) for seq in gone]

    async def _replies(self, thread_id: str) -> list[int]:
        """Numbers of the replies that have a document."""
        numbers = await self._documents.command("SMEMBERS", keys.reply_docs(thread_id))
        return [int(number) for number in cast("Sequence[bytes]", numbers)]

    async def _remove_replies(self, thread_id: str, numbers: Sequence[int]) -> None:
        if numbers:
            await bulk(self._documents, [("UNLINK", keys.reply_doc(thread_id, number)) for number in numbers])
            await self._documents.command("SREM", keys.reply_docs(thread_id), *numbers)


def marks_of_own(thread_id: str) -> tuple[Arg, ...]:
    """The command that answers with the marks of a thread's own text; None without a document."""
    return "HGET", keys.doc(thread_id), "marks"


def marks_of_replies(thread_id: str) -> tuple[Arg, ...]:
    """The command that answers with the marks of its replies, in any order; empty without any."""
    return "GETRANGE", keys.reply_marks(thread_id), -REPLY_MARKS * MARK, -1


def _own_step(thread_id: str, text: str, *, whole: bool, forced: bool = False) -> tuple[Sequence[str], list[Arg]]:
    """The keys and arguments that put a thread's own text; `whole`: it is all of it."""
    terms = _terms(text)
    return [keys.doc(thread_id)], [int(whole), int(forced), " ".join(terms), marks_of(terms)]


def _reply_step(post: Post, *, forced: bool) -> tuple[Sequence[str], list[Arg]]:
    thread, terms = post.thread_id, _terms(post.text)
    places = [keys.reply_doc(thread, post.seq), keys.reply_docs(thread), keys.reply_marks(thread)]
    passages = len(post.passages())
    return places, [post.seq, int(forced), REPLY_MARKS * MARK, " ".join(terms), marks_of(terms), passages]


def _terms(text: str) -> list[str]:
    """The terms that a post is found by."""
    terms = terms_of(text)
    if len(terms) <= TERMS:
        return terms
    found = set(islice(dict.fromkeys(terms), TERMS))
    return [term for term in terms if term in found]
