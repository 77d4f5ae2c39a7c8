"""The labelled set: what the threshold means, and that no kind of query is found worse because of another
(DESIGN 9).
"""

import pytest

from node.embedding.model import Model
from node.search.corpus import OWN, PostRef
from node.search.engines.memory import MemoryIndex
from node.search.passages import of_own
from tests.search.labelled import Library, mean_reciprocal_rank
from tests.search.relevance import EXACT, NOTHING, PARAPHRASES, QUESTIONS, THREADS

THRESHOLD = 0.7


@pytest.fixture(scope="module")
def library(loaded_model: Model) -> Library:
    made = Library(loaded_model, len(THREADS), MemoryIndex())
    for key, thread in THREADS.items():
        passages = of_own(thread.title, thread.body)
        made.put(PostRef(key, OWN), f"{thread.title}\n{thread.body}", made.embedded(passages))
    return made


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
