"""Labelled texts in an in-memory index, and the compared ways of querying it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from node.embedding.model import Model
from node.search.corpus import PostRef
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.passages import Passage
from node.search.ranking import RankedEntity, SearchRequest
from node.text.terms import marks_of, terms_of
from tests.search.relevance import Query

NO_WORDS = "zzz"
"""A query whose words are in no text."""


class Library(NamedTuple):
    """An index, and the model that makes its vectors."""

    model: Model
    most: int
    """Number of matches in an answer."""
    texts: MemoryIndex

    def put(self, ref: PostRef, text: str, vectors: Mapping[str, bytes]) -> None:
        """Add a post, with the vectors of its passages by name."""
        terms = terms_of(text)
        self.texts.put(PostDocument(ref, " ".join(terms), marks_of(terms), vectors))

    def embedded(self, passages: Sequence[Passage]) -> dict[str, bytes]:
        """Return the vectors of passages by name."""
        vectors = self.model.passages([passage.text for passage in passages])
        return {passage.name: vector for passage, vector in zip(passages, vectors, strict=True)}

    def ask(self, query: str, threshold: float = 0.0) -> list[RankedEntity]:
        """Answer a query as a worker does."""
        return self._found(query, threshold, query)

    def by_meaning(self, query: str) -> list[RankedEntity]:
        """Answer a query by cosine similarity alone."""
        return self._found(NO_WORDS, 0.0, query)

    def by_text(self, query: str) -> list[RankedEntity]:
        """Answer a query by BM25 alone."""
        return self.texts.find(SearchRequest(query, self.most, 0), None).matches

    def _found(self, words: str, threshold: float, meant: str) -> list[RankedEntity]:
        (vector,) = self.model.queries([meant])
        return self.texts.find(SearchRequest(words, self.most, threshold), vector).matches


def mean_reciprocal_rank(found: Sequence[tuple[Sequence[RankedEntity], Query]]) -> float:
    """Return the mean reciprocal rank of the wanted entity among the first ten matches."""
    total = 0.0
    for matches, query in found:
        names = [match.entity_id for match in matches[:10]]
        total += 1 / (names.index(query.wanted) + 1) if query.wanted in names else 0.0
    return total / len(found)
