"""The query engine of Redis (`FT.*`): its indexes over the documents, and the queries on them.

One index holds the terms of entities, one those of replies, one per index version the vectors of passages. Own texts
and replies have an index each, so that no number of replies keeps an entity from being found by its own text. Terms are
made of a-z and 0-9 only (`node.text.terms`) and ids have been checked, so nothing a client writes is ever syntax. In a
cluster the engine must be cluster-wide: asked at one primary, it answers for all.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from node.search.corpus import OWN, Corpus
from node.search.index_versions import IndexVersion
from node.search.ranking import CANDIDATES, REPLY_CANDIDATES, Candidate, MissingFacts, NearEntity, Nearness, meaning_of
from node.store import Arg, CommandFailed, RedisReply, Store

TERMS_FORMAT = 1
"""Version of the indexes of terms. A node with another version makes new ones."""

TEXT_QUERY_MS = 25
"""Milliseconds that Redis, which does nothing else meanwhile, may spend on each of the two queries by text before it
answers with what it has found."""

PASSAGES_LOOKED_AT = 1000
"""Passages that are compared with a query to find out how near given entities are."""

_VECTOR_OPTIONS = {"flat": ("BLOCK_SIZE", 1024), "hnsw": ("M", 16, "EF_CONSTRUCTION", 200, "EF_RUNTIME", 200)}
_BARE = ("NOOFFSETS", "NOHL", "NOFIELDS")
"""No positions, no highlighting, no field masks: none of them is used, and each costs memory."""


class QueryEngine:
    """Indexes and queries of one Redis deployment. Every method raises StoreUnavailable."""

    def __init__(self, searched: Store, corpus: Corpus) -> None:
        self._searched = searched
        self._keys = corpus.keys
        # The board was searched before there were other corpora, so its indexes do not have the name of one.
        self._prefix = "relay" if corpus.name == "board" else f"relay-{corpus.name}"
        self._keeps_float16: bool | None = None
        """None until the server was asked."""
        self._terms = f"{self._prefix}-terms-{TERMS_FORMAT}"
        self._reply_terms = f"{self._prefix}-replies-{TERMS_FORMAT}"

    async def ensure_terms(self) -> None:
        """Make the indexes of terms, unless they are there. Redis then indexes the documents that there are already."""
        schema = ("SCHEMA", "terms", "TEXT", "NOSTEM")
        for name, prefix in ((self._terms, self._keys.doc_prefix), (self._reply_terms, self._keys.reply_doc_prefix)):
            await self._create(name, "ON", "HASH", "PREFIX", 1, prefix, "STOPWORDS", 0, *_BARE, *schema)

    async def ensure_vectors(self, version: IndexVersion) -> None:
        """Make the index of a version's vectors, unless it is there."""
        options = ("TYPE", version.scalar.upper(), "DIM", version.dimension, "DISTANCE_METRIC", "COSINE")
        options += _VECTOR_OPTIONS[version.algorithm]
        schema = ("SCHEMA", "thread", "TAG", "vector", "VECTOR", version.algorithm.upper(), len(options), *options)
        prefix = self._keys.vectors_prefix(version.name)
        await self._create(self._vectors(version.name), "ON", "HASH", "PREFIX", 1, prefix, *_BARE, *schema)

    async def keeps_float16(self) -> bool:
        """Whether vectors may be 16-bit numbers, as since RediSearch 2.10."""
        probe, options = f"{self._prefix}-probe", ("TYPE", "FLOAT16", "DIM", 1, "DISTANCE_METRIC", "COSINE")
        if self._keeps_float16 is None:
            schema = ("SCHEMA", "vector", "VECTOR", "FLAT", len(options), *options)
            try:
                await self._tolerant("FT.CREATE", probe, "ON", "HASH", "PREFIX", 1, f"{probe}:", *schema)
                await self._tolerant("FT.DROPINDEX", probe)
                self._keeps_float16 = True
            except CommandFailed:
                self._keeps_float16 = False
        return self._keeps_float16

    async def drop_vectors(self, version: str) -> None:
        """Forget the index of a version; its vectors stay."""
        await self._tolerant("FT.DROPINDEX", self._vectors(version))

    async def count_terms(self) -> int:
        """Entities that can be found by text. Raises CommandFailed without the index."""
        return await self._count(self._terms)

    async def count_vectors(self, version: str) -> int:
        """Passages that can be found by meaning. Raises CommandFailed without the index."""
        return await self._count(self._vectors(version))

    async def by_text(self, terms: Sequence[str]) -> tuple[list[Candidate], list[Candidate], dict[str, bytes]]:
        """The entities and the replies that match best with any of the terms, and the marks of the entities' own texts.

        Raises CommandFailed without the indexes.
        """
        found_own, found_replies = await self._searched.run_all(
            [
                _matching(self._terms, terms, CANDIDATES, "RETURN", 1, "marks"),
                _matching(self._reply_terms, terms, REPLY_CANDIDATES, "NOCONTENT"),
            ]
        )
        own: list[Candidate] = []
        marks: dict[str, bytes] = {}
        for key, score, fields in _rows(found_own, 3):
            entity = key.decode().rpartition(":")[2]  # SearchKeys.doc
            own.append(Candidate(round(float(score), 6), entity, OWN))
            marks[entity] = fields[1] if fields else b""
        replies: list[Candidate] = []
        for key, score in _rows(found_replies, 2):
            _, entity, seq = key.decode().rsplit(":", 2)  # SearchKeys.reply_doc
            replies.append(Candidate(round(float(score), 6), entity, int(seq)))
        return own, replies, marks

    async def by_meaning(self, version: str, vector: bytes) -> list[NearEntity]:
        """Entities nearest to a vector, best first. Raises CommandFailed without the index."""
        found = await self._searched.command(*self._nearest(version, "*", vector, CANDIDATES))
        return sorted(_nearness(_rows(found, 2)).values(), reverse=True)

    async def read_missing(self, version: str, vector: bytes, missing: MissingFacts) -> tuple[Nearness, list[str]]:
        """How near entities are, and which of them have no vectors of what they were found by. Raises CommandFailed
        without the index.

        If they have more passages than are looked at, the result is silent about entities that are further away.
        """
        replies = ((entity, f"{seq}.0") for entity, seq in missing.replies.items())
        commands: list[tuple[Arg, ...]] = [("EXISTS", self._keys.vector(version, *reply)) for reply in replies]
        if missing.nearness:
            tags = "|".join(entity.replace("-", "\\-") for entity in missing.nearness)
            commands.append(self._nearest(version, f"(@thread:{{{tags}}})", vector, PASSAGES_LOOKED_AT))
        found = await self._searched.run_all(commands)
        without_vectors = [entity for entity, exists in zip(missing.replies, found, strict=False) if not exists]
        if not missing.nearness:
            return {}, without_vectors
        rows = list(_rows(found[-1], 2))
        nearness = _nearness(rows)
        if len(rows) < PASSAGES_LOOKED_AT:
            without_vectors += [entity for entity in missing.nearness if entity not in nearness]
        return nearness, without_vectors

    def _nearest(self, version: str, among: str, vector: bytes, most: int) -> tuple[Arg, ...]:
        """The query for the nearest passages."""
        query = f"{among}=>[KNN {most} @vector $vector AS distance]"
        options = ("PARAMS", 2, "vector", vector, "SORTBY", "distance", "LIMIT", 0, most, "RETURN", 1, "distance")
        return _search(self._vectors(version), query, *options)

    async def _create(self, index: str, *definition: Any) -> None:
        if not await self._has(index):
            await self._tolerant("FT.CREATE", index, *definition)
        if not await self._has(index):
            await self._tolerant("FT.DROPINDEX", index)
            raise CommandFailed(f"{index} exists on one primary only: the query engine is not cluster-wide")

    async def _has(self, index: str) -> bool:
        lists = cast("list[list[bytes]]", await self._searched.everywhere("FT._LIST"))
        return all(index.encode() in names for names in lists)

    async def _tolerant(self, *command: Any) -> None:
        """Run a command whose effect another process may have brought about already."""
        try:
            await self._searched.command(*command)
        except CommandFailed as error:
            if not any(words in str(error).lower() for words in ("already exists", "unknown index", "no such index")):
                raise

    def _vectors(self, version: str) -> str:
        """The name of a version's index."""
        return f"{self._prefix}-vectors-{version}"

    async def _count(self, index: str) -> int:
        facts = cast("list[RedisReply]", await self._searched.command("FT.INFO", index))
        return int(float(cast("bytes", facts[facts.index(b"num_docs") + 1])))


def _search(index: str, query: str, *options: Arg) -> tuple[Arg, ...]:
    return "FT.SEARCH", index, query, *options, "DIALECT", 2


def _matching(index: str, terms: Sequence[str], most: int, *content: Arg) -> tuple[Arg, ...]:
    scored = ("VERBATIM", "SCORER", "BM25STD", "WITHSCORES", "TIMEOUT", TEXT_QUERY_MS, "LIMIT", 0, most)
    return _search(index, f"@terms:({'|'.join(terms)})", *scored, *content)


def _nearness(rows: Iterable[tuple[Any, ...]]) -> dict[str, NearEntity]:
    """The entities of the passages found, the nearest first."""
    nearest: dict[str, NearEntity] = {}
    for key, (_, distance) in rows:
        _, entity, passage = key.decode().rsplit(":", 2)
        if entity not in nearest:
            nearest[entity] = NearEntity(meaning_of(1 - float(distance)), entity, passage)
    return nearest


def _rows(reply: RedisReply, width: int) -> Iterator[tuple[Any, ...]]:
    """The rows found: `width` values each, the key first."""
    values = iter(cast("list[Any]", reply))
    next(values)  # how many rows there are altogether
    return zip(*[values] * width, strict=True)
