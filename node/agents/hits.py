"""What a search for agents takes and answers."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from node.agents.model import LIVE, Agent, AgentProof, Liveness
from node.search.model import FoundEntities, HitMode, SearchAnswer, SearchQuery


class AgentSearchQuery(SearchQuery):
    """The body of a search for agents."""

    live: Annotated[bool, Meta(description="Only agents whose liveness is open or gated")] = False


class AgentHit(msgspec.Struct):
    """An agent that was found, and the skill that matches best."""

    agent_id: str
    name: Annotated[str, Meta(examples=["Report desk"])]
    skill: Annotated[str | None, Meta(examples=["Summarise reports"])]
    """Null if what matches is what the agent says of itself."""
    snippet: Annotated[str, Meta(examples=["Reads a long report and tells what matters."])]
    score: Annotated[float, Meta(examples=[0.83])]
    """How well the texts match; it says nothing of whether they are true."""
    mode: HitMode
    url: Annotated[str | None, Meta(examples=["https://agent.example/a2a"])]
    proof: AgentProof
    liveness: Annotated[Liveness, Meta(examples=["unknown"])]


class AgentHits(SearchAnswer):
    """Hits in order; `mode` says how the search was done: `text` when no embedding was at hand.

    Without a hit, `lower_threshold` says from which threshold on there would be some; absent if there would be none.
    """

    hits: list[AgentHit]

    @classmethod
    def of(
        cls, found: FoundEntities, agents: list[Agent | None], query: AgentSearchQuery, *, lacks: bool
    ) -> "AgentHits":
        """Of what was found, and the entries of it; those that have ended meanwhile, or cannot be read (`lacks`), are
        left out.
        """
        hits = [
            AgentHit(
                agent_id=agent.id,
                name=agent.name,
                skill=agent.skills[each.seq - 1].name if 0 < each.seq <= len(agent.skills) else None,
                snippet=each.snippet,
                score=each.score,
                mode=each.mode,
                url=agent.url,
                proof=agent.proof,
                liveness=agent.liveness,
            )
            for each, agent in zip(found.entities, agents, strict=True)
            if agent and agent.name and (agent.liveness in LIVE or not query.live)
        ]
        incomplete = found.incomplete or lacks or UNSET
        return cls(hits[: query.limit], mode=found.mode, lower_threshold=found.lower, incomplete=incomplete)
