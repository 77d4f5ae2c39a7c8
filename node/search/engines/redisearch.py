"""The query engine of Redis (`FT.*`): its indexes over the documents, and the queries on them.

There is one index of the terms of entities' own texts, one of the terms of replies, and for each index version one of
the vectors of passages. Own texts and replies are in separate indexes so that an entity is found by its own text
however many replies match. Terms consist of a-z and 0-9 only (`node.text.terms`) and ids have been checked, so a client
cannot inject query syntax. In a cluster the engine must be cluster-wide: a query to one primary is answered for all.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from node.search.corpus import OWN, Corpus
from node.search.index_versions import IndexVersion
from node.search.ranking import CANDIDATES, REPLY_CANDIDATES, Candidate, MissingFacts, NearEntity, Nearness, meaning_of
from node.store import Arg, CommandFailed, RedisReply, Store

TERMS_FORMAT = 1
"""Version of the indexes of terms. A node with another version creates indexes of its own."""

TEXT_QUERY_MS = 25
"""Milliseconds that Redis may spend on each of the two queries by text, during which it does nothing else. Then it
answers with what it has found so far."""

PASSAGES_LOOKED_AT = 1000
"""Maximum number of passages that are compared with a query to find out how near given entities are."""

_VECTOR_OPTIONS = {"flat": ("BLOCK_SIZE", 1024), "hnsw": ("M", 16, "EF_CONSTRUCTION", 200, "EF_RUNTIME", 200)}
_BARE = ("NOOFFSETS", "NOHL", "NOFIELDS")
"""Options that leave out positions, highlighting and field masks: these are not used, and each costs memory."""


class QueryEngine:
    """The indexes and queries of a corpus in one Redis deployment. Every method raises StoreUnavailable."""

    def __init__(self, searched: Store, corpus: Corpus) -> None:
        self._searched = searched
        self._keys = corpus.keys
        # The board's indexes do not have the corpus in their names, because they existed before other corpora did.
        self._prefix = "relay" if corpus.name == "board" else f"relay-{corpus.name}"
        self._keeps_float16: bool | None = None
        """None until the server has been asked."""
        self._terms = f"{self._prefix}-terms-{TERMS_FORMAT}"
        self._reply_terms = f"{self._prefix}-replies-{TERMS_FORMAT}"

    async def ensure_terms(self) -> None:
        """Create the indexes of terms unless they exist. Redis then also indexes the existing documents."""
        schema = ("SCHEMA", "terms", "TEXT", "NOSTEM")
        for name, prefix in ((self._terms, self._keys.doc_prefix), (self._reply_terms, self._keys.reply_doc_prefix)):
            await self._create(name, "ON", "HASH", "PREFIX", 1, prefix, "STOPWORDS", 0, *_BARE, *schema)

    async def ensure_vectors(self, version: IndexVersion) -> None:
        """Create the index of a version's vectors unless it exists."""
        options = ("TYPE", version.scalar.upper(), "DIM", version.dimension, "DISTANCE_METRIC", "COSINE")
        options += _VECTOR_OPTIONS[version.algorithm]
        schema = ("SCHEMA", "thread", "TAG", "vector", "VECTOR", version.algorithm.upper(), len(options), *options)
        prefix = self._keys.vectors_prefix(version.name)
        await self._create(self._vectors(version.name), "ON", "HASH", "PREFIX", 1, prefix, *_BARE, *schema)

    async def keeps_float16(self) -> bool:
        """Return whether vectors may consist of 16-bit numbers, which RediSearch supports from version 2.10 on."""
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
        """Drop the index of a version. Its vectors stay."""
        await self._tolerant("FT.DROPINDEX", self._vectors(version))

    async def count_terms(self) -> int:
        """Return the number of entities that can be found by their own text. Raises CommandFailed without the index."""
        return await self._count(self._terms)

    async def count_vectors(self, version: str) -> int:
        """Return the number of passages that can be found by meaning. Raises CommandFailed without the index."""
        return await self._count(self._vectors(version))

    async def by_text(self, terms: Sequence[str]) -> tuple[list[Candidate], list[Candidate], dict[str, bytes]]:
        """Return the entities and the replies that best match any of the terms, and the marks of these entities.

        The marks are those of their own texts. Raises CommandFailed without the indexes.
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
        """Return the entities of the CANDIDATES passages nearest to a vector, best first.

        Raises CommandFailed without the index.
        """
        found = await self._searched.command(*self._nearest(version, "*", vector, CANDIDATES))
        return sorted(_nearness(_rows(found, 2)).values(), reverse=True)

    async def read_missing(self, version: str, vector: bytes, missing: MissingFacts) -> tuple[Nearness, list[str]]:
        """Return how near entities are, and which of them were found by a post that has no vectors.

        If the entities have more than PASSAGES_LOOKED_AT passages, those that are further away may appear in neither
        result. Raises CommandFailed without the index.
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
        """Return the query for the nearest passages."""
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
        """Run a command, and ignore the error if another process has already done the same."""
        try:
            await self._searched.command(*command)
        except CommandFailed as error:
            if not any(words in str(error).lower() for words in ("already exists", "unknown index", "no such index")):
                raise

    def _vectors(self, version: str) -> str:
        """Return the name of a version's index."""
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
    """Return the entities of the passages found, by id, the nearest first."""
    nearest: dict[str, NearEntity] = {}
    for key, (_, distance) in rows:
        _, entity, passage = key.decode().rsplit(":", 2)
        if entity not in nearest:
            nearest[entity] = NearEntity(meaning_of(1 - float(distance)), entity, passage)
    return nearest


def _rows(reply: RedisReply, width: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows found: `width` values each, the key first."""
    values = iter(cast("list[Any]", reply))
    next(values)  # the total number of rows
    return zip(*[values] * width, strict=True)
