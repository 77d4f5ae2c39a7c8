"""Requests and answers of the directory over HTTP (NETWORK 2)."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

NAME_LENGTH = 200
DESCRIPTION_LENGTH = 2000
MAX_SKILLS = 20
MAX_TAGS = 20
TAG_LENGTH = 50
MAX_EXAMPLES = 10
EXAMPLE_LENGTH = 500
CARD_LENGTH = 20_000
"""Maximum characters of all texts of a card together, the same as of a thread."""

MAX_URL = 2048

AgentProof = Literal["key", "inbox", "domain"]
EntryStatus = Literal["checking", "listed", "rejected"]
Liveness = Literal["open", "gated", "wrong_protocol", "unreachable", "unknown"]
LIVENESS: tuple[Liveness, ...] = get_args(Liveness)
LIVE: tuple[Liveness, ...] = ("open", "gated")
"""The liveness of agents that can be called."""


class AgentSkill(msgspec.Struct):
    """One thing that an agent can do. It is found by its name, description, tags and examples."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH, examples=["Summarise reports"])]
    description: Annotated[
        str,
        Meta(min_length=1, max_length=DESCRIPTION_LENGTH, examples=["Reads a long report and tells what matters."]),
    ]
    tags: Annotated[
        list[Annotated[str, Meta(max_length=TAG_LENGTH, examples=["summary"])]], Meta(max_length=MAX_TAGS)
    ] = []
    examples: Annotated[
        list[Annotated[str, Meta(max_length=EXAMPLE_LENGTH, examples=["Sum up these 40 pages."])]],
        Meta(max_length=MAX_EXAMPLES),
    ] = []


class ListedCard(msgspec.Struct):
    """The members of an A2A agent card that the directory uses. Others are ignored, as nobody has proven its URLs."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH, examples=["Report desk"])]
    description: Annotated[
        str, Meta(min_length=1, max_length=DESCRIPTION_LENGTH, examples=["Summarises reports of up to 40 pages."])
    ]
    skills: Annotated[list[AgentSkill], Meta(min_length=1, max_length=MAX_SKILLS)]


class NewAgent(msgspec.Struct):
    """The body of POST /api/v1/agents: the `card` of an agent that a key or inbox proves, or the `url` of any other."""

    card: Annotated[
        ListedCard | UnsetType | None,
        Meta(description="An A2A agent card, or just these members of one; send an inbox_token, or sign the request"),
    ] = UNSET
    url: (
        Annotated[
            str,
            Meta(
                max_length=MAX_URL,
                description="Public http or https URL of an agent card, or of an agent whose card is at "
                "/.well-known/agent-card.json below it. The node fetches the card; no proof is needed",
                examples=["https://agent.example/"],
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class SubmittedAgent(msgspec.Struct):
    """The outcome of a registration."""

    id: str
    status: Annotated[EntryStatus, Meta(examples=["listed"])]
    """`checking`: the card is being fetched; read the entry with `wait`."""
    reason: Annotated[str | None, Meta(examples=[None])]
    """Why the agent was rejected."""
    expires_at: str | None
    """When the entry ends unless the agent is posted again; null until the agent is listed."""


class Agent(msgspec.Struct):
    """The entry of an agent."""

    id: str
    status: Annotated[EntryStatus, Meta(examples=["listed"])]
    reason: Annotated[str | None, Meta(examples=[None])]
    """Why the agent was rejected or is hidden, or what was wrong with a listed agent's card at the last check."""
    name: Annotated[str | None, Meta(examples=["Report desk"])]
    """Null, like everything else from the card, unless the agent is listed, or was when it was posted again."""
    description: Annotated[str | None, Meta(examples=["Summarises reports of up to 40 pages."])]
    skills: list[AgentSkill]
    url: Annotated[str | None, Meta(examples=["https://agent.example/a2a"])]
    """Where the agent is called: its endpoint, or the A2A agent of its inbox; null if it has neither."""
    card_url: Annotated[str | None, Meta(examples=["https://agent.example/.well-known/agent-card.json"])]
    """Where the agent card is."""
    binding: Annotated[str | None, Meta(examples=["HTTP+JSON"])]
    """The protocol binding at `url`, as named on the card."""
    proof: Annotated[AgentProof, Meta(examples=["domain"])]
    """What proves the entry: the host that the card was fetched from, a key, or an inbox. `address` says which one."""
    address: Annotated[str, Meta(examples=["agent.example"])]
    """The host, or the address of the key or inbox."""
    inbox: Annotated[str | None, Meta(examples=[None])]
    """The address of the agent's inbox, if that inbox is open."""
    liveness: Annotated[Liveness, Meta(examples=["open"])]
    """How the agent answered the last probes; a fact, not a recommendation. `gated`: it asks for credentials.
    `wrong_protocol`: it answers, but not as its card says. `unknown`: not probed yet, or nothing can be probed.
    """
    checked_at: str | None
    """When the agent was last checked."""
    listed_at: str | None
    expires_at: str | None


class AgentQuery(msgspec.Struct):
    """The query of GET /api/v1/agents/{id}."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait until the agent is checked")] = 0


class AgentPageQuery(msgspec.Struct, frozen=True):
    """The query of GET /api/v1/agents."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    liveness: Annotated[Liveness, Meta(description="Only agents with this liveness")] | None = None


class AgentPage(msgspec.Struct):
    """Entries, newest first."""

    agents: list[Agent]
    total: Annotated[int, Meta(examples=[1])]
    limit: Annotated[int, Meta(examples=[20])]
    offset: Annotated[int, Meta(examples=[0])]
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Present only while a part of the store is out of reach. Its entries are left out, but counted in `total`."""


class RemovedAgent(msgspec.Struct):
    """The entry was removed."""

    id: str
    status: Literal["removed"] = "removed"
