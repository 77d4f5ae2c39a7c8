"""The labelled set: what the threshold means, and that neither kind of query is lost in the other (DESIGN 9)."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from node.embedding.model import Model
from node.search.corpus import OWN, Place
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.passages import of_own
from node.search.ranking import RankedEntity, SearchRequest
from node.text.terms import marks_of, terms_of
from tests.search.relevance import EXACT, NOTHING, PARAPHRASES, QUESTIONS, THREADS, Query

THRESHOLD = 0.7


class Library(NamedTuple):
    threads: MemoryIndex
    model: Model

    def ask(self, query: str, threshold: float = 0.0) -> list[RankedEntity]:
        (vector,) = self.model.queries([query])
        return self.threads.find(SearchRequest(query, len(THREADS), threshold), vector).matches

    def by_text(self, query: str) -> list[RankedEntity]:
        return self.threads.find(SearchRequest(query, len(THREADS), 0), None).matches

    def by_meaning(self, query: str) -> list[RankedEntity]:
        """As if no text were compared: the words of a query that no thread has."""
        (vector,) = self.model.queries([query])
        return self.threads.find(SearchRequest("zzz", len(THREADS), 0), vector).matches


@pytest.fixture(scope="module")
def library(loaded_model: Model) -> Library:
    index = MemoryIndex()
    for key, thread in THREADS.items():
        passages = of_own(thread.title, thread.body)
        vectors = loaded_model.passages([passage.text for passage in passages])
        terms = terms_of(f"{thread.title}\n{thread.body}")
        named = {passage.name: vector for passage, vector in zip(passages, vectors, strict=True)}
        index.put(PostDocument(Place(key, OWN), " ".join(terms), marks_of(terms), named))
    return Library(index, loaded_model)


def reciprocal_rank(matches: Sequence[RankedEntity], wanted: str) -> float:
    names = [match.entity_id for match in matches[:10]]
    return 1 / (names.index(wanted) + 1) if wanted in names else 0.0


def mean_reciprocal_rank(found: Sequence[tuple[Sequence[RankedEntity], Query]]) -> float:
    return sum(reciprocal_rank(matches, query.wanted) for matches, query in found) / len(found)


def test_what_answers_a_question_is_above_the_threshold_and_nothing_else_is(library: Library) -> None:
    for query in QUESTIONS:
        found = [match.entity_id for match in library.ask(query.text, THRESHOLD) if match.mode != "text"]
        assert found == [query.wanted], query


def test_a_question_that_nothing_answers_finds_nothing(library: Library) -> None:
    assert [query for query in NOTHING if library.ask(query.text, THRESHOLD)] == []


def test_paraphrases_find_their_thread_by_meaning_where_text_does_not(library: Library) -> None:
    both = mean_reciprocal_rank([(library.ask(query.text), query) for query in PARAPHRASES])
    text = mean_reciprocal_rank([(library.by_text(query.text), query) for query in PARAPHRASES])
    assert both >= 0.95 > text


def test_names_and_codes_find_their_thread_by_text_where_meaning_does_not(library: Library) -> None:
    both = mean_reciprocal_rank([(library.ask(query.text), query) for query in EXACT])
    meaning = mean_reciprocal_rank([(library.by_meaning(query.text), query) for query in EXACT])
    assert both >= 0.95 > meaning
