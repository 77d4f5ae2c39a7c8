"""The directory of agents: who can do what."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from relay_client.call import Call
from relay_client.follow import WAIT, changed, pages, patiently
from relay_client.found import Found, HitMode
from relay_client.resource import Iteration, M_co, Operation, Procedure, Resource
from relay_client.steps import Items, Steps

Liveness = Literal["open", "gated", "wrong_protocol", "unreachable", "unknown"]
Proof = Literal["domain", "inbox", "key"]
EntryStatus = Literal["checking", "listed", "rejected"]

ID_LENGTH = 128  # characters of a skill's id
TAG_LENGTH = 50


class _Skill(TypedDict):
    name: str
    description: str


class AgentSkill(_Skill, total=False):
    """One thing that an agent can do."""

    id: str
    tags: list[str]
    examples: list[str]


class Agent(TypedDict):
    """An entry of the directory. `reason`: why it was rejected. `liveness`: how the agent answered the last probes."""

    id: str
    status: EntryStatus
    reason: str | None
    name: str | None
    description: str | None
    skills: list[AgentSkill]
    url: str | None
    card_url: str | None
    binding: str | None
    proof: Proof
    address: str
    inbox: str | None
    liveness: Liveness
    checked_at: str | None
    listed_at: str | None
    expires_at: str | None


class _AgentPage(TypedDict):
    agents: list[Agent]
    total: int
    limit: int
    offset: int


class AgentPage(_AgentPage, total=False):
    """Agents, newest first. `incomplete` is present while part of the node's store is out of reach."""

    incomplete: bool


class SubmittedAgent(TypedDict):
    """An entry that was just made or renewed. `status` is `checking` while the card is being fetched."""

    id: str
    status: EntryStatus
    reason: str | None
    expires_at: str | None


class AgentHit(TypedDict):
    """An agent that a search found, and the skill that matched."""

    agent_id: str
    name: str
    skill: str | None
    snippet: str
    score: float
    mode: HitMode
    url: str | None
    proof: Proof
    liveness: Liveness


class AgentHits(Found):
    """What a search found, best first."""

    hits: list[AgentHit]


class RemovedAgent(TypedDict):
    """Confirms that an entry is gone."""

    id: str
    status: str


class Agents(Resource[M_co]):
    """The directory of agents. Without a token, the signer's key proves whose entry it is."""

    @Operation
    def register(
        self,
        card: Mapping[str, Any] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        key: str | None = None,
    ) -> Call[SubmittedAgent]:
        """List an agent, or renew its entry.

        Give either its card (`name`, `description`, `skills`), proven by the token of its inbox or a signature; or the
        `url` of its card, which the node fetches. `checked` waits until that is done.
        """
        fields = {"card": card, "url": url}
        # A fetched card is proven by its host, so a signature would add nothing.
        call = Call.post("agents", repeat="key", key=key, token=token, signable=url is None, fields=fields)
        call.pace = "agent"
        return call

    @Operation
    def list(self, *, limit: int = 20, offset: int = 0, liveness: Liveness | None = None) -> Call[AgentPage]:
        """Agents, newest first."""
        return Call.get("agents", limit=limit, offset=offset, liveness=liveness)

    @Operation
    def get(self, agent_id: str, *, wait: float = 0) -> Call[Agent]:
        """Get the entry of an agent. Waits up to `wait` seconds until it has been checked."""
        return Call.get("agents", agent_id, wait=wait)

    @Procedure
    def checked(self, agent_id: str) -> Steps[Agent]:
        """Wait until the card of an agent has been fetched, which takes at most 40 s, and return the entry."""
        entry = yield from patiently(self, Agents.get.call(agent_id))
        return (yield from changed(self, entry, "checking", Agents.get.call(agent_id, wait=WAIT)))

    @Operation
    def search(self, query: str, *, limit: int = 5, threshold: float = 0.7, live: bool = False) -> Call[AgentHits]:
        """Find agents by what they can do. `live`: only agents that answer probes."""
        fields = {"query": query, "limit": limit, "threshold": threshold, "live": live}
        return Call.post("agents", "search", pace="search", fields=fields)

    @Operation
    def remove(self, agent_id: str, token: str | None = None) -> Call[RemovedAgent]:
        """Remove an entry."""
        return Call.delete("agents", agent_id, token=token, signable=True)

    @Iteration
    def all(self) -> Items[Agent]:
        """All agents, page by page, newest first."""
        return pages(self, Agents.list.call, "agents", 100)


def card(name: str, description: str, skills: Mapping[str, str] | Sequence[AgentSkill]) -> dict[str, Any]:
    """Make a minimal card for `register` or an inbox. `skills` maps names to descriptions, or is a list as in A2A."""
    if isinstance(skills, Mapping):
        # An inbox shows the card to A2A clients, and A2A requires an id and tags.
        skills = [
            {"id": skill[:ID_LENGTH], "name": skill, "description": meaning, "tags": [skill[:TAG_LENGTH]]}
            for skill, meaning in skills.items()
        ]
    return {"name": name, "description": description, "skills": skills}
