"""Requests and answers of work contracts (SPEC 2.3, 4.3; DESIGN 8)."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Meta

TaskStatus = Literal["offered", "claimed", "in_progress", "submitted", "completed", "canceled", "failed", "expired"]
STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
PLAIN_STATUSES: tuple[TaskStatus, ...] = ("offered", "claimed", "in_progress", "completed", "canceled")
"""Statuses of a contract that uses nothing beyond SPEC and does not fail."""
CANCELABLE: tuple[TaskStatus, ...] = ("offered", "claimed", "in_progress", "canceled")
"""Statuses in which a contract can be canceled; for a canceled one, nothing changes. `lua/task_cancel.lua` decides."""
OVER: tuple[TaskStatus, ...] = ("completed", "canceled", "expired")
"""Final statuses. `failed` is not one of them: a contract that failed may be tried again."""

NAME_LENGTH = 200
TITLE_LENGTH = 200
DESCRIPTION_LENGTH = 20_000
MAX_INPUTS = 50
"""Most artifacts that one contract may name as its inputs."""
MAX_SKILLS = 10
END = "$(?!\\n)"
"""End of a text in a pattern. Without the lookahead, Python's `$` would also match before a final line feed."""
SKILL = "^[a-z0-9][a-z0-9.+#_-]{0,49}" + END
MESSAGE_LENGTH = 2000
MAX_REVIEW_SECONDS = 604_800
"""Longest review period that an offer can ask for, in seconds (a week)."""

MAX_LEFT_OUT = 50
"""Most contracts that a position in the list of offers (`since`) names: a page of contracts that were out of reach."""
SEPARATOR = "~"
SINCE = rf"^[0-9]{{1,19}}-[0-9]{{1,19}}(~[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}){{0,{MAX_LEFT_OUT}}}" + END
"""Pattern of a position in the list of offers: an entry of the feed, then the contracts that were out of reach."""

Party = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_LENGTH,
        description="A public name of your choice, one line",
        extra={"judged": "name"},
    ),
]
Title = Annotated[
    str, Meta(min_length=1, max_length=TITLE_LENGTH, description="One line of plain English", extra={"judged": "title"})
]
Description = Annotated[
    str, Meta(max_length=DESCRIPTION_LENGTH, description="The work, in plain English", extra={"judged": "prose"})
]
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="A secret of at least 16 random characters; a request repeated with it gets the same answer",
    ),
]
Lease = Annotated[
    int,
    Meta(ge=30, le=86400, description="Seconds until a claim lapses unless completed or extended; never if omitted"),
]

Skill = Annotated[
    str, Meta(pattern=SKILL, description="A tag: lower-case letters, digits and `.+#_-`", examples=["translation"])
]
Skills = Annotated[list[Skill], Meta(max_length=MAX_SKILLS)]
RetryPause = Annotated[
    int,
    Meta(ge=1, le=86400, description="Seconds to pause before attempt 2, doubling each time up to a day; default 0"),
]
ReviewPeriod = Annotated[
    int,
    Meta(ge=1, le=MAX_REVIEW_SECONDS, description="Seconds to accept or reject a result, after which it is accepted"),
]
Deadline = Annotated[
    datetime,
    Meta(tz=True, description="RFC 3339 time at which the contract is `expired`", examples=["2099-12-31T00:00:00Z"]),
]
ResultSchema = Annotated[
    dict[str, Any],
    Meta(
        description="JSON Schema 2020-12 that a result must match; at most 16 KiB, no external references. "
        "Patterns may not use look-around, backreferences or flags; `format` is not checked",
        examples=[None],
    ),
]
TaskCallbackUrl = Annotated[
    str,
    Meta(description="Gets a POST at each status change: a public http or https URL on port 80, 443, 8080 or 8443"),
]
Attempts = Annotated[int, Meta(ge=1, le=10, description="Failed attempts after which the contract fails; default 1")]

PageLimit = Annotated[int, Meta(ge=1, le=50)]
PageOffset = Annotated[int, Meta(ge=0, le=2**53)]
OfferWait = Annotated[float, Meta(ge=0, le=30, description="Offers only: seconds to wait until one can be claimed")]
OfferSince = Annotated[
    str,
    Meta(
        pattern=SINCE,
        description="Offers only: `next_since` of an earlier answer, to get what can be claimed since, oldest first",
    ),
]
OfferSkill = Annotated[Skill, Meta(description="Offers only: claimable ones with this skill, of the newest 1,000")]
OfferPublisher = Annotated[
    Party, Meta(description="Offers only: claimable ones of this publisher, of the newest 1,000")
]

SHOWN_FIELDS = (
    "publisher_id",
    "title",
    "description",
    "input_artifact_ids",
    "lease_seconds",
    "require_proof",
    "max_attempts",
    "retry_seconds",
    "review_seconds",
    "skills",
    "deadline",
    "result_schema",
)
"""Request fields that the contract's record shows. Its proof keeps a signed body only if the body has no others."""


class NewTask(msgspec.Struct):
    """The body of POST /api/v1/tasks."""

    publisher_id: Annotated[Party, Meta(examples=["report-desk"])]
    title: Annotated[Title, Meta(examples=["Summarise a report about solar panels"])]
    description: Annotated[Description, Meta(examples=["One page of plain English, with three figures."])] | None = None
    idempotency_key: Key | None = None
    callback_url: TaskCallbackUrl | None = None
    input_artifact_ids: Annotated[list[str], Meta(max_length=MAX_INPUTS)] = []
    lease_seconds: Annotated[Lease, Meta(examples=[900])] | None = None
    require_proof: Annotated[
        bool,
        Meta(description="true: a transition takes a token or a signature, not only a public id; always if signed"),
    ] = False
    skills: Annotated[
        Skills,
        Meta(
            description="Tags (lower-case letters, digits and `.+#_-`) of what a worker must be able to do; "
            "claim-next gives the contract only to workers that name them all",
            examples=[[]],
        ),
    ] = []
    max_attempts: Annotated[Attempts, Meta(examples=[3])] | None = None
    retry_seconds: Annotated[RetryPause, Meta(examples=[60])] | None = None
    deadline: Deadline | None = None
    review_seconds: ReviewPeriod | None = None
    result_schema: ResultSchema | None = None


class NewClaim(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/claim."""

    assignee_id: Annotated[Party, Meta(examples=["summary-agent"])]
    idempotency_key: Key | None = None


class NextClaim(msgspec.Struct):
    """The body of POST /api/v1/tasks/claim-next."""

    assignee_id: Annotated[Party, Meta(examples=["summary-agent"])]
    skills: Annotated[
        list[Skill],
        Meta(max_length=50, description="Your skills: a contract fits if it asks for no others, or for none"),
    ] = []
    publisher_ids: Annotated[list[Party], Meta(max_length=50, description="Only contracts of these publishers")] = []
    query: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=10_000,
                description="What you are good at, in your own words: the contract that matches best is claimed",
                examples=[None],
            ),
        ]
        | None
    ) = None
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="Minimum score of a match with `query`", examples=[0.7])
    ] = 0.7
    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait if no offered contract fits")] = 0
    idempotency_key: Key | None = None


class Transition(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/transition. Either publisher_id or assignee_id may replace actor_id."""

    ELSEWHERE: ClassVar = ("result_payload", "a transition takes no result; deliver it with POST .../complete")

    actor_id: (
        Annotated[
            Party, Meta(description="Your id: the contract's publisher_id or assignee_id", examples=["summary-agent"])
        ]
        | None
    ) = None
    status: (
        Annotated[TaskStatus, Meta(description="Must be the next status (the default)", examples=["in_progress"])]
        | None
    ) = None
    publisher_token: str | None = None
    claim_token: str | None = None
    publisher_id: Annotated[Party, Meta(description="May replace actor_id")] | None = None
    assignee_id: Annotated[Party, Meta(description="May replace actor_id")] | None = None


class Completion(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/complete."""

    CONTENT: ClassVar = ("result_payload",)
    """A body that lacks this field, but has its content under another name, is refused
    (`node.web.issues.require_content`)."""

    claim_token: Annotated[str, Meta(examples=["the token that the claim returned"])]
    result_payload: Annotated[msgspec.Raw, Meta(description="Any JSON", examples=[{"pages": 1}])] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b"null")
    )


class Holding(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/extend and /release."""

    claim_token: Annotated[str, Meta(examples=["the token that the claim returned"])]


class FailureReason(msgspec.Struct):
    """Why an attempt ended without a result."""

    code: Annotated[
        str, Meta(min_length=1, max_length=100, description="A short code for programs", examples=["input.unreadable"])
    ]
    message: Annotated[
        str,
        Meta(max_length=MESSAGE_LENGTH, description="Details for people", examples=["The second page is blank."]),
    ] = ""
    retryable: Annotated[bool, Meta(description="false if no other attempt can succeed: the contract fails")] = True


class FailedAttempt(FailureReason, kw_only=True):
    """The body of POST /api/v1/tasks/{id}/fail."""

    claim_token: Annotated[str, Meta(examples=["the token that the claim returned"])]


class Cancellation(msgspec.Struct):
    """The body of POST /api/v1/tasks/{id}/cancel, /retry and /accept. A request signed with the key of the offer needs
    no body.
    """

    publisher_token: (
        Annotated[
            str,
            Meta(description="Or send it as `Authorization: Bearer`", examples=["the token that creation returned"]),
        ]
        | None
    ) = None


class Rejection(Cancellation, kw_only=True):
    """The body of POST /api/v1/tasks/{id}/reject."""

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MESSAGE_LENGTH,
            description="What the worker has to change",
            examples=["The figures are missing."],
        ),
    ]


class EndedAttempt(msgspec.Struct):
    """A claim that ended without a result."""

    attempt: int
    assignee_id: Annotated[str, Meta(examples=["summary-agent"])]
    claimed_at: str
    ended_at: str
    outcome: Literal["failed", "lapsed"]
    """`lapsed`: the lease ran out."""
    reason: FailureReason | None


NO_RESULT = msgspec.Raw(b"null")
"""The result_payload of a contract that a transition completed without a result. A result that is JSON null is another
object, so that a protocol with its own form of results can tell the two apart by identity."""


class Task(msgspec.Struct, kw_only=True):
    """A work contract. `signature` holds what a peer needs to verify the offer without trusting the node."""

    id: str
    status: Annotated[TaskStatus, Meta(examples=["offered"])]
    publisher_id: Annotated[str, Meta(examples=["report-desk"])]
    title: Annotated[str, Meta(examples=["Summarise a report about solar panels"])]
    description: Annotated[str | None, Meta(examples=["One page of plain English, with three figures."])]
    input_artifact_ids: Annotated[list[str], Meta(examples=[[]])]
    is_signed: Annotated[bool, Meta(examples=[False])]
    signature: Annotated[dict[str, Any] | None, Meta(examples=[None])]
    require_proof: Annotated[bool, Meta(examples=[False])]
    """Whether a transition needs a token or a signature: the publisher asked for it, or the offer is signed."""
    assignee_id: Annotated[str | None, Meta(examples=["summary-agent"])]
    created_at: str
    updated_at: str
    """When the contract got its present status."""
    claimed_at: str | None
    completed_at: str | None
    elapsed_ms: Annotated[int | None, Meta(examples=[900_000])]
    """Milliseconds from claim to completion."""
    lease_seconds: Annotated[int | None, Meta(examples=[900])]
    lease_expires_at: str | None
    attempt: int
    """Number of claims so far."""
    url: str
    result_payload: Annotated[msgspec.Raw | msgspec.UnsetType, Meta(examples=[{"pages": 1}])] = msgspec.UNSET
    """Present once the contract is submitted or completed; left out of lists."""
    skills: Annotated[list[str] | msgspec.UnsetType, Meta(examples=[["translation"]])] = msgspec.UNSET
    """This field and those below are left out if the offer did not set them, or if their event has not happened."""
    max_attempts: Annotated[int | msgspec.UnsetType, Meta(examples=[3])] = msgspec.UNSET
    retry_seconds: Annotated[int | msgspec.UnsetType, Meta(examples=[60])] = msgspec.UNSET
    retry_at: str | msgspec.UnsetType = msgspec.UNSET
    """End of the pause after a failed attempt: until then, the contract is offered but cannot be claimed."""
    review_seconds: Annotated[int | msgspec.UnsetType, Meta(examples=[3600])] = msgspec.UNSET
    submitted_at: str | msgspec.UnsetType = msgspec.UNSET
    review_ends_at: str | msgspec.UnsetType = msgspec.UNSET
    """From this time on, a result that was not reviewed counts as accepted."""
    rejection: Annotated[str | msgspec.UnsetType, Meta(examples=["The figures are missing."])] = msgspec.UNSET
    """Why the publisher sent the last result back."""
    deadline: str | msgspec.UnsetType = msgspec.UNSET
    failed_at: str | msgspec.UnsetType = msgspec.UNSET
    expired_at: str | msgspec.UnsetType = msgspec.UNSET
    result_schema: Annotated[msgspec.Raw | msgspec.UnsetType, Meta(examples=[{"type": "object"}])] = msgspec.UNSET
    """JSON Schema that the result must fit; left out of lists."""
    attempts: list[EndedAttempt] | msgspec.UnsetType = msgspec.UNSET
    """The last ten attempts that ended without a result; left out of lists."""


class OfferedTask(Task, kw_only=True):
    """A new contract with its publisher_token, which no other answer shows."""

    publisher_token: str


class ClaimedTask(Task, kw_only=True):
    """A claimed contract with the claim_token of its claimer."""

    claim_token: str


class CompletedTask(msgspec.Struct):
    """The answer to a completion. The status is `submitted` if the publisher reviews the result first."""

    valid: Literal[True]
    id: str
    status: Annotated[Literal["completed", "submitted"], Meta(examples=["completed"])]
    elapsed_ms: Annotated[int, Meta(examples=[900_000])]
    completed_at: str | None


class TaskPage(msgspec.Struct):
    """Contracts of one status, the newest first; after a `since` position, the oldest first."""

    tasks: list[Task]
    total: int
    limit: Annotated[int, Meta(examples=[20])]
    offset: Annotated[int, Meta(examples=[0])]
    next_since: Annotated[str | msgspec.UnsetType, Meta(examples=["1763712000000-0"])] = msgspec.UNSET
    """Offers only. Sent as `since`, it asks for contracts that come on offer later, and for those left out here."""
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Some contracts are left out, because the part of the node that keeps them cannot be read at the moment."""


class TaskPageQuery(msgspec.Struct, frozen=True):
    """The query of GET /api/v1/tasks, from a client that asks for contracts and not for A2A tasks."""

    status: TaskStatus = "offered"
    limit: PageLimit = 20
    offset: PageOffset = 0
    wait: OfferWait = 0
    since: OfferSince | None = None
    skill: OfferSkill | None = None
    publisher_id: OfferPublisher | None = None


class TaskQuery(msgspec.Struct):
    """The query of GET /api/v1/tasks/{id}, from a client that asks for a contract and not for an A2A task."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for the status to change")] = 0
    status: (
        Annotated[TaskStatus, Meta(description="The status that you last saw; omit it to wait for any change")] | None
    ) = None
