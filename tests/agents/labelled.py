"""The labelled directory as the node searches it: for tests, and for `bench.search_quality`."""

from collections.abc import Sequence
from typing import NamedTuple

from node.agents.agent_reader import text_of
from node.agents.model import AgentSkill
from node.embedding.model import Model
from node.search.corpus import OWN, Place
from node.search.engines.memory import MemoryIndex, PostDocument
from node.search.passages import Passage, of_own, of_reply, place_of
from node.search.ranking import RankedEntity, SearchRequest
from node.text.terms import marks_of, terms_of
from tests.agents.relevance import LISTINGS
from tests.search.relevance import Query


class Directory(NamedTuple):
    documents: MemoryIndex
    model: Model

    def ask(self, query: str, threshold: float = 0.0) -> list[RankedEntity]:
        (vector,) = self.model.queries([query])
        return self.documents.find(SearchRequest(query, len(LISTINGS), threshold), vector).matches

    def by_meaning(self, query: str) -> list[RankedEntity]:
        """By meaning alone, as for a query whose words no agent has."""
        (vector,) = self.model.queries([query])
        return self.documents.find(SearchRequest("zzz", len(LISTINGS), 0), vector).matches

    def by_text(self, query: str) -> list[RankedEntity]:
        return self.documents.find(SearchRequest(query, len(LISTINGS), 0), None).matches


def directory_of(model: Model) -> Directory:
    """The labelled agents as the indexer keeps them: a post for what an agent says of itself, one for each skill."""
    index = MemoryIndex()

    def put(place: Place, text: str, passages: list[Passage]) -> None:
        vectors = model.passages([passage.text for passage in passages])
        named = {passage.name: vector for passage, vector in zip(passages, vectors, strict=True)}
        terms = terms_of(text)
        index.put(PostDocument(place, " ".join(terms), marks_of(terms), named))

    for key, listing in LISTINGS.items():
        put(Place(key, OWN), f"{listing.name}\n{listing.description}", of_own(listing.name, listing.description))
        for number, skill in enumerate(listing.skills, 1):
            text = text_of(AgentSkill(skill.name, skill.description, list(skill.tags), list(skill.examples)))
            put(Place(key, number), text, of_reply(number, text))
    return Directory(index, model)


def skill_of(match: RankedEntity) -> int:
    """The number of the skill that a hit names; 0 is what the agent says of itself."""
    return place_of(match.passage)[0] if match.mode != "text" else match.reply


def mean_reciprocal_rank(found: Sequence[tuple[Sequence[RankedEntity], Query]]) -> float:
    """Of the agent; one found by another of its skills does not count."""
    total = 0.0
    for matches, query in found:
        agent, _, skill = query.wanted.partition("/")
        places = [(match.entity_id, skill_of(match)) for match in matches[:10]]
        total += 1 / (places.index((agent, int(skill))) + 1) if (agent, int(skill)) in places else 0.0
    return total / len(found)
