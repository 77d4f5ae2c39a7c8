"""The labelled directory as the node searches it, for tests and for `bench.search_quality`."""

from collections.abc import Sequence

from node.agents.agent_reader import text_of
from node.agents.model import AgentSkill
from node.embedding.model import Model
from node.search.corpus import OWN, PostRef
from node.search.engines.memory import MemoryIndex
from node.search.passages import of_own, of_reply, seq_and_piece
from node.search.ranking import RankedEntity
from tests.agents.relevance import LISTINGS
from tests.search.labelled import Library
from tests.search.relevance import Query


def directory_of(model: Model) -> Library:
    """Return the labelled agents as the indexer keeps them: one post for the agent's own description, and one for each
    skill.
    """
    made = Library(model, len(LISTINGS), MemoryIndex())
    for key, listing in LISTINGS.items():
        own = of_own(listing.name, listing.description)
        made.put(PostRef(key, OWN), f"{listing.name}\n{listing.description}", made.embedded(own))
        for number, skill in enumerate(listing.skills, 1):
            text = text_of(AgentSkill(skill.name, skill.description, list(skill.tags), list(skill.examples)))
            made.put(PostRef(key, number), text, made.embedded(of_reply(number, text)))
    return made


def skill_of(match: RankedEntity) -> int:
    """Return the number of the skill that a hit names; 0 is the agent's own description."""
    return seq_and_piece(match.passage)[0] if match.mode != "text" else match.reply


def mean_reciprocal_rank(found: Sequence[tuple[Sequence[RankedEntity], Query]]) -> float:
    """Return the mean reciprocal rank of the wanted agents. An agent found by a skill other than the wanted one does
    not count.
    """
    total = 0.0
    for matches, query in found:
        agent, _, skill = query.wanted.partition("/")
        places = [(match.entity_id, skill_of(match)) for match in matches[:10]]
        total += 1 / (places.index((agent, int(skill))) + 1) if (agent, int(skill)) in places else 0.0
    return total / len(found)
