"""In the labelled directory, queries in any words find the agent and the skill (NETWORK 2)."""

import pytest

from node.embedding.choice import load
from tests.agents.labelled import directory_of, mean_reciprocal_rank, skill_of
from tests.agents.relevance import DISTANT, EXACT, NOBODY, PLAIN
from tests.search.labelled import Library
from tests.support.models import MODELS, exported_model

THRESHOLD = 0.7


@pytest.fixture(scope="module")
def directory() -> Library:
    return directory_of(load(exported_model(), MODELS))


def test_wishes_find_agent_and_skill(directory: Library) -> None:
    for queries in (PLAIN, DISTANT, EXACT):
        found = [(directory.ask(query.text), query) for query in queries]
        assert mean_reciprocal_rank(found) >= 0.9, [
            (query.text, [(match.entity_id, skill_of(match)) for match in matches[:3]]) for matches, query in found
        ]


def test_what_is_said_in_other_words_is_found_by_meaning_alone(directory: Library) -> None:
    text = mean_reciprocal_rank([(directory.by_text(query.text), query) for query in DISTANT])
    assert text < 0.5 < mean_reciprocal_rank([(directory.ask(query.text), query) for query in DISTANT])


def test_a_wish_that_nobody_fulfils_finds_nobody(directory: Library) -> None:
    assert [query for query in NOBODY if directory.ask(query.text, THRESHOLD)] == []
