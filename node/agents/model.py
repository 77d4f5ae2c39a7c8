"""What the directory takes and shows over HTTP (NETWORK 2)."""

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
"""Characters of all texts of a card: as many as a thread has."""

MAX_URL = 2048

AgentProof = Literal["key", "inbox", "domain"]
EntryStatus = Literal["checking", "listed", "rejected"]
Liveness = Literal["open", "gated", "wrong_protocol", "unreachable", "unknown"]
LIVENESS: tuple[Liveness, ...] = get_args(Liveness)
LIVE: tuple[Liveness, ...] = ("open", "gated")
"""Of agents that can be called."""


class AgentSkill(msgspec.Struct):
    """One thing that an agent can do; found by its name, description, tags and examples."""

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
    """What the directory takes of an A2A agent card. Its other members are passed over: nobody has proven its URLs."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH, examples=["Report desk"])]
    description: Annotated[
        str, Meta(min_length=1, max_length=DESCRIPTION_LENGTH, examples=["Summarises reports of up to 40 pages."])
    ]
    skills: Annotated[list[AgentSkill], Meta(min_length=1, max_length=MAX_SKILLS)]


class NewAgent(msgspec.Struct):
    """The body of POST /api/v1/agents: `card` of an agent that a key or an inbox stands for, or `url` of any other."""

    card: Annotated[
        ListedCard | UnsetType | None,
        Meta(description="An A2A agent card, or as much of one; show a key or an inbox_token"),
    ] = UNSET
    url: (
        Annotated[
            str,
            Meta(
                max_length=MAX_URL,
                description="Of an agent card, or of what has one at /.well-known/agent-card.json below it: a public "
                "http or https URL. The node fetches it; no proof is needed",
                examples=["https://agent.example/"],
            ),
        ]
        | UnsetType
        | None
    ) = UNSET


class SubmittedAgent(msgspec.Struct):
    """What became of a registration."""

    id: str
    status: Annotated[EntryStatus, Meta(examples=["listed"])]
    """`checking`: its card is being fetched; read the entry with `wait`."""
    reason: Annotated[str | None, Meta(examples=[None])]
    """Why it was rejected."""
    expires_at: str | None
    """When the entry ends unless it is posted again; null until it is listed."""


class Agent(msgspec.Struct):
    """The entry of an agent."""

    id: str
    status: Annotated[EntryStatus, Meta(examples=["listed"])]
    reason: Annotated[str | None, Meta(examples=[None])]
    """Why it was rejected, or is not shown to others; of a listed one also what was wrong with its card of late."""
    name: Annotated[str | None, Meta(examples=["Report desk"])]
    """Null, as all that its card says, unless it is or was listed."""
    description: Annotated[str | None, Meta(examples=["Summarises reports of up to 40 pages."])]
    skills: list[AgentSkill]
    url: Annotated[str | None, Meta(examples=["https://agent.example/a2a"])]
    """Where it is called: its endpoint, or the A2A agent of its inbox; null if it has none."""
    card_url: Annotated[str | None, Meta(examples=["https://agent.example/.well-known/agent-card.json"])]
    """Where its agent card is."""
    binding: Annotated[str | None, Meta(examples=["HTTP+JSON"])]
    """What it speaks at `url`, in the words of its card."""
    proof: Annotated[AgentProof, Meta(examples=["domain"])]
    """Who says so: the host that the card was fetched from, a key, or the owner of an inbox. Which is in `address`."""
    address: Annotated[str, Meta(examples=["agent.example"])]
    """The host, or the address of key or inbox."""
    inbox: Annotated[str | None, Meta(examples=[None])]
    """The address of its inbox, if that is open."""
    liveness: Annotated[Liveness, Meta(examples=["open"])]
    """A fact, not a recommendation: how the last probes were answered. `gated`: it asks for credentials.
    `wrong_protocol`: it answers, but not as its card says. `unknown`: not probed yet, or there is nothing to probe.
    """
    checked_at: str | None
    """When that was last looked at."""
    listed_at: str | None
    expires_at: str | None


class AgentQuery(msgspec.Struct):
    """The query of GET /api/v1/agents/{id}."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait until it is checked")] = 0


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
    """Only while a part of the store is out of reach: entries that it keeps are counted in `total` and left out."""


class RemovedAgent(msgspec.Struct):
    """The entry is gone."""

    id: str
    status: Literal["removed"] = "removed"
