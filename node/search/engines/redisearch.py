"""The query engine of Redis (`FT.*`): its indexes over the documents, and the queries on them.

One index holds the terms of threads, one those of replies, one per index version the vectors of passages. Threads and
replies have an index each, so that no number of replies keeps a thread from being found by its own text. Terms are
made of a-z and 0-9 only (`node.text.terms`) and ids have been checked, so nothing a client writes is ever syntax. In a
cluster the engine must be cluster-wide: asked at one primary, it answers for all.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

from node.search.index_versions import IndexVersion
from node.search.ranking import CANDIDATES, REPLY_CANDIDATES, Candidate, NearThread, meaning_of
from node.store import CommandFailed, RedisReply, Store, keys
from node.store.decoding import fields_of

TERMS = "relay-terms-1"
"""The index of threads' terms. The number is that of their format: another one makes another index."""

REPLY_TERMS = "relay-replies-1"
"""That of replies' terms."""

TEXT_QUERY_MS = 25
"""Milliseconds that Redis may spend on each of the two queries by text; then it answers with what it has found. It does
nothing else meanwhile."""

PASSAGES_LOOKED_AT = 1000
"""When it is asked how near given threads are."""

_VECTOR_OPTIONS = {"flat": ("BLOCK_SIZE", 1024), "hnsw": ("M", 16, "EF_CONSTRUCTION", 200, "EF_RUNTIME", 200)}
_BARE = ("NOOFFSETS", "NOHL", "NOFIELDS")
"""No positions, no highlighting, no field masks: nothing of that is asked for, and it costs memory."""


class QueryEngine:
    """Indexes and queries of one Redis deployment."""

    def __init__(self, documents: Store) -> None:
        self._documents = documents

    async def ensure_terms(self) -> None:
        """Make the indexes of terms, unless they are there. Redis then indexes the documents that there are already.

        Raises StoreUnavailable.
        """
        schema = ("SCHEMA", "terms", "TEXT", "NOSTEM")
        for name, prefix in ((TERMS, keys.DOCS), (REPLY_TERMS, keys.REPLY_DOCS)):
            await self._create(name, "ON", "HASH", "PREFIX", 1, prefix, "STOPWORDS", 0, *_BARE, *schema)

    async def ensure_vectors(self, version: IndexVersion) -> None:
        """Make the index of a version's vectors, unless it is there. Raises StoreUnavailable."""
        options = ("TYPE", "FLOAT32", "DIM", version.dimension, "DISTANCE_METRIC", "COSINE")
        options += _VECTOR_OPTIONS[version.algorithm]
        schema = ("SCHEMA", "thread", "TAG", "vector", "VECTOR", version.algorithm.upper(), len(options), *options)
        prefix = keys.vectors_prefix(version.name)
        await self._create(_vectors(version.name), "ON", "HASH", "PREFIX", 1, prefix, *_BARE, *schema)

    async def drop_vectors(self, version: str) -> None:
        """Forget the index of a version; its vectors stay. Raises StoreUnavailable."""
        await self._tolerant("FT.DROPINDEX", _vectors(version))

    async def count_terms(self) -> int:
        """Threads that can be found by text. Raises StoreUnavailable, CommandFailed without the index."""
        return await self._count(TERMS)

    async def count_vectors(self, version: str) -> int:
        """Passages that can be found by meaning. Raises StoreUnavailable, CommandFailed without the index."""
        return await self._count(_vectors(version))

    async def by_text(self, terms: Sequence[str]) -> tuple[list[Candidate], list[Candidate], dict[str, bytes]]:
        """The threads and the replies that match best with any of the terms, and the marks of these threads' own texts.

        Raises StoreUnavailable, CommandFailed without the indexes.
        """
        own, replies = await asyncio.gather(
            self._matching(TERMS, terms, CANDIDATES, "RETURN", 1, "marks", width=3),
            self._matching(REPLY_TERMS, terms, REPLY_CANDIDATES, "NOCONTENT", width=2),
        )
        marks = {_post(key)[0]: fields_of(fields).get(b"marks", b"") for key, _, fields in own}
        return [_candidate(*row) for row in own], [_candidate(*row) for row in replies], marks

    async def by_meaning(self, version: str, vector: bytes) -> list[NearThread]:
        """Threads nearest to a vector, best first. Raises StoreUnavailable, CommandFailed without the index."""
        return await self._nearest(version, "*", vector, CANDIDATES)

    async def meanings(self, version: str, vector: bytes, threads: Iterable[str]) -> list[NearThread]:
        """How near these threads are. Raises StoreUnavailable, CommandFailed without the index."""
        tags = "|".join(thread.replace("-", "\\-") for thread in threads)
        return await self._nearest(version, f"(@thread:{{{tags}}})", vector, PASSAGES_LOOKED_AT) if tags else []

    async def _matching(self, index: str, terms: Sequence[str], most: int, *content: Any, width: int) -> list[Any]:
        scored = ("VERBATIM", "SCORER", "BM25STD", "WITHSCORES", "TIMEOUT", TEXT_QUERY_MS, "LIMIT", 0, most)
        return await self._search(index, f"@terms:({'|'.join(terms)})", *scored, *content, width=width)

    async def _nearest(self, version: str, among: str, vector: bytes, most: int) -> list[NearThread]:
        rows = await self._search(
            _vectors(version),
            f"{among}=>[KNN {most} @vector $vector AS distance]",
            *("PARAMS", 2, "vector", vector, "SORTBY", "distance", "LIMIT", 0, most, "RETURN", 1, "distance"),
            width=2,
        )
        nearest: dict[str, NearThread] = {}
        for key, fields in rows:
            *_, thread, passage = key.decode().split(":")
            near = NearThread(thread, passage, meaning_of(1 - float(fields_of(fields)[b"distance"])))
            known = nearest.get(thread)
            if known is None or near.meaning > known.meaning:
                nearest[thread] = near
        return sorted(nearest.values(), key=lambda near: (near.meaning, near.thread_id), reverse=True)

    async def _search(self, index: str, query: str, *options: Any, width: int) -> list[Any]:
        """The rows found: `width` values each, the key first."""
        reply = await self._documents.command("FT.SEARCH", index, query, *options, "DIALECT", 2)
        _total, *flat = cast("list[RedisReply]", reply)
        return list(zip(*(flat[part::width] for part in range(width)), strict=True))

    async def _create(self, index: str, *definition: Any) -> None:
        if not await self._has(index):
            await self._tolerant("FT.CREATE", index, *definition)
        if not await self._has(index):
            await self._tolerant("FT.DROPINDEX", index)
            raise CommandFailed(f"{index} exists on one primary only: the query engine is not cluster-wide")

    async def _has(self, index: str) -> bool:
        lists = cast("list[list[bytes]]", await self._documents.everywhere("FT._LIST"))
        return all(index.encode() in names for names in lists)

    async def _tolerant(self, *command: Any) -> None:
        """For what another process may have done already."""
        try:
            await self._documents.command(*command)
        except CommandFailed as error:
            if not any(words in str(error).lower() for words in ("already exists", "unknown index", "no such index")):
                raise

    async def _count(self, index: str) -> int:
        facts = cast("list[RedisReply]", await self._documents.command("FT.INFO", index))
        return int(float(cast("bytes", facts[facts.index(b"num_docs") + 1])))


def _vectors(version: str) -> str:
    return f"relay-vectors-{version}"


def _candidate(key: bytes, score: bytes, *_: object) -> Candidate:
    return Candidate(round(float(score), 6), *_post(key))


def _post(key: bytes) -> tuple[str, int]:
    """The thread and the number of the post that a document is of (`keys.doc`, `keys.reply_doc`)."""
    *_, last, seq = key.decode().split(":")
    return (last, int(seq)) if seq.isdigit() else (seq, 0)
