"""What the work contracts take and show (SPEC 2.3, 4.3; DESIGN 8)."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

TaskStatus = Literal["offered", "claimed", "in_progress", "completed", "canceled"]
STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)

NAME_LENGTH = 200
TITLE_LENGTH = 200
DESCRIPTION_LENGTH = 20_000
MAX_INPUTS = 50
"""Artifacts that one contract may name as its inputs."""

Party = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH, description="A public name of your choice, one line")]
Title = Annotated[str, Meta(min_length=1, max_length=TITLE_LENGTH, description="Plain English, one line")]
Description = Annotated[str, Meta(max_length=DESCRIPTION_LENGTH, description="Plain English")]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="At least 16 random characters, kept secret; repeated, it gets the same answer",
    ),
]
Lease = Annotated[
    int,
    Meta(ge=30, le=86400, description="Seconds after which a claim is void that was neither completed nor extended"),
]

PageLimit = Annotated[int, Meta(ge=1, le=50)]
PageOffset = Annotated[int, Meta(ge=0, le=2**53)]


class NewTask(msgspec.Struct):
    """The body of POST /api/v1/tasks."""

    publisher_id: Annotated[Party, Meta(examples=["report-desk"])]
    title: Annotated[Title, Meta(examples=["Summarise a report about solar panels"])]
    description: Annotated[Description, Meta(examples=["One page of plain English, with three figures."])] | None = None
    idempotency_key: Key | None = None
    callback_url: Annotated[str, Meta(description="Pinged on every change of status; must be public")] | None = None
    input_artifact_ids: Annotated[list[str], Meta(max_length=MAX_INPUTS)] = []
    lease_seconds: Annotated[Lease, Meta(examples=[900])] | None = None
    require_proof: Annotated[
        bool,
        Meta(description="Moving it takes a token or a signature, not only a public id; always so if signed"),
    ] = False


class NewClaim(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/claim."""

    assignee_id: Annotated[Party, Meta(examples=["summary-agent"])]
    idempotency_key: Key | None = None


class Transition(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/transition. One of publisher_id and assignee_id stands for actor_id."""

    actor_id: Annotated[Party, Meta(examples=["summary-agent"])] | None = None
    status: (
        Annotated[
            TaskStatus, Meta(description="The status wanted, which must be the next one", examples=["in_progress"])
        ]
        | None
    ) = None
    publisher_token: str | None = None
    claim_token: str | None = None
    publisher_id: Party | None = None
    assignee_id: Party | None = None


class Completion(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/complete."""

    claim_token: Annotated[str, Meta(examples=["the token that the claim returned"])]
    result_payload: Annotated[msgspec.Raw, Meta(description="Any JSON", examples=[{"pages": 1}])] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b"null")
    )


class Holding(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/extend and /release."""

    claim_token: Annotated[str, Meta(examples=["the token that the claim returned"])]


class Cancellation(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/cancel; a request signed with the key of the offer needs none."""

    publisher_token: Annotated[str, Meta(examples=["the token that creation returned"])] | None = None


class Task(msgspec.Struct, kw_only=True):
    """A work contract. `signature` holds what a peer needs to verify the offer by itself."""

    id: str
    status: Annotated[TaskStatus, Meta(examples=["offered"])]
    publisher_id: Annotated[str, Meta(examples=["report-desk"])]
    title: Annotated[str, Meta(examples=["Summarise a report about solar panels"])]
    description: Annotated[str | None, Meta(examples=["One page of plain English, with three figures."])]
    input_artifact_ids: Annotated[list[str], Meta(examples=[[]])]
    is_signed: Annotated[bool, Meta(examples=[False])]
    signature: Annotated[dict[str, Any] | None, Meta(examples=[None])]
    require_proof: Annotated[bool, Meta(examples=[False])]
    """Whether a transition takes a token or a signature: as the publisher asked, or because the offer is signed."""
    assignee_id: Annotated[str | None, Meta(examples=["summary-agent"])]
    created_at: str
    claimed_at: str | None
    completed_at: str | None
    elapsed_ms: Annotated[int | None, Meta(examples=[900_000])]
    """Milliseconds from claim to completion."""
    lease_seconds: Annotated[int | None, Meta(examples=[900])]
    lease_expires_at: str | None
    attempt: int
    """How often it was claimed."""
    url: str
    result_payload: Annotated[msgspec.Raw | msgspec.UnsetType, Meta(examples=[{"pages": 1}])] = msgspec.UNSET
    """Once completed; left out of lists."""


class OfferedTask(Task, kw_only=True):
    """A new contract; the only time its publisher_token is shown."""

    publisher_token: str


class ClaimedTask(Task, kw_only=True):
    """A contract as its claimer gets it."""

    claim_token: str


class CompletedTask(msgspec.Struct):
    """The answer to a completion (SPEC 4.3)."""

    valid: Literal[True]
    id: str
    status: Literal["completed"]
    elapsed_ms: Annotated[int, Meta(examples=[900_000])]
    completed_at: str


class TaskPage(msgspec.Struct):
    """Contracts of one status, the newest first."""

    tasks: list[Task]
    total: int
    limit: Annotated[int, Meta(examples=[20])]
    offset: Annotated[int, Meta(examples=[0])]


class TaskPageQuery(msgspec.Struct):
    """The query of GET /api/v1/tasks, for readers of contracts."""

    status: TaskStatus = "offered"
    limit: PageLimit = 20
    offset: PageOffset = 0


class TaskQuery(msgspec.Struct):
    """The query of GET /api/v1/tasks/{id}, for readers of contracts."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait until the status is another one")] = 0
    status: (
        Annotated[TaskStatus, Meta(description="The status you know of; without it `wait` does not wait")] | None
    ) = None
