"""Requests and answers of a search for agents."""

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
    """Null if the agent's own name and description match best."""
    snippet: Annotated[str, Meta(examples=["Reads a long report and tells what matters."])]
    score: Annotated[float, Meta(examples=[0.83])]
    """How well the texts match. It does not say whether they are true."""
    mode: HitMode
    url: Annotated[str | None, Meta(examples=["https://agent.example/a2a"])]
    proof: AgentProof
    liveness: Annotated[Liveness, Meta(examples=["unknown"])]


class AgentHits(SearchAnswer):
    """The agents found, best first."""

    hits: list[AgentHit]

    @classmethod
    def of(
        cls, found: FoundEntities, agents: list[Agent | None], query: AgentSearchQuery, *, lacks: bool
    ) -> "AgentHits":
        """Build the answer from the found entities and their entries, without entries that ended meanwhile.

        `lacks`: whether some entries cannot be read and are left out.
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
