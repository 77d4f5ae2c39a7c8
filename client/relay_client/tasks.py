"""Work contracts: a publisher offers one, a worker claims it and delivers a result."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypedDict

from relay_client import follow
from relay_client.call import Call, Repeat
from relay_client.deliveries import DeliveryPage
from relay_client.follow import WAIT, Follower, pages
from relay_client.found import Found, HitMode
from relay_client.resource import Iteration, M_co, Operation, Procedure, Resource
from relay_client.steps import Item, Items, Steps

TaskStatus = Literal["offered", "claimed", "in_progress", "submitted", "completed", "canceled", "failed", "expired"]
OVER = ("completed", "canceled", "failed", "expired")
"""Statuses that time no longer changes."""


class FailureReason(TypedDict):
    """Why a worker gave up."""

    code: str
    message: str
    retryable: bool


class EndedAttempt(TypedDict):
    """A claim that ended without a result."""

    attempt: int
    assignee_id: str
    claimed_at: str
    ended_at: str
    outcome: Literal["failed", "lapsed"]
    reason: FailureReason | None


class _Task(TypedDict):
    id: str
    status: TaskStatus
    publisher_id: str
    title: str
    description: str | None
    input_artifact_ids: list[str]
    is_signed: bool
    signature: dict[str, Any] | None
    require_proof: bool
    assignee_id: str | None
    created_at: str
    updated_at: str
    claimed_at: str | None
    completed_at: str | None
    elapsed_ms: int | None
    lease_seconds: int | None
    lease_expires_at: str | None
    attempt: int
    url: str


class Task(_Task, total=False):
    """A work contract. These fields are absent if they do not apply."""

    result_payload: Any
    skills: list[str]
    max_attempts: int
    retry_seconds: int
    retry_at: str
    review_seconds: int
    submitted_at: str
    review_ends_at: str
    rejection: str
    deadline: str
    failed_at: str
    expired_at: str
    attempts: list[EndedAttempt]
    result_schema: dict[str, Any]


class OfferedTask(Task):
    """A contract that was just offered. Only its publisher has the token."""

    publisher_token: str


class ClaimedTask(Task):
    """A contract that was just claimed. Only its worker has the token."""

    claim_token: str


class CompletedTask(TypedDict):
    """Confirms that the node has the result."""

    valid: bool
    id: str
    status: Literal["completed", "submitted"]
    elapsed_ms: int
    completed_at: str | None


class _TaskPage(TypedDict):
    tasks: list[Task]
    total: int
    limit: int
    offset: int


class TaskPage(_TaskPage, total=False):
    """Contracts of one status, newest first."""

    next_since: str
    incomplete: bool


class TaskHit(TypedDict):
    """An offered contract that a search found."""

    task_id: str
    title: str
    snippet: str
    score: float
    url: str
    mode: HitMode
    publisher_id: str
    skills: list[str]


class TaskHits(Found):
    """What a search found, best first."""

    hits: list[TaskHit]


class Tasks(Resource[M_co]):
    """Work contracts."""

    @Operation
    def offer(
        self,
        publisher_id: str,
        title: str,
        description: str | None = None,
        *,
        skills: Sequence[str] | None = None,
        input_artifact_ids: Sequence[str] | None = None,
        lease_seconds: int | None = None,
        require_proof: bool | None = None,
        max_attempts: int | None = None,
        retry_seconds: int | None = None,
        deadline: datetime | str | None = None,
        review_seconds: int | None = None,
        result_schema: Mapping[str, Any] | None = None,
        callback_url: str | None = None,
        key: str | None = None,
    ) -> Call[OfferedTask]:
        """Offer a work contract.

        `deadline`: a time with a time zone; as text, in RFC 3339. `result_schema`: a JSON Schema for the result.
        """
        fields = {
            "publisher_id": publisher_id,
            "title": title,
            "description": description,
            "skills": skills,
            "input_artifact_ids": input_artifact_ids,
            "lease_seconds": lease_seconds,
            "require_proof": require_proof,
            "max_attempts": max_attempts,
            "retry_seconds": retry_seconds,
            "deadline": deadline.isoformat() if isinstance(deadline, datetime) else deadline,
            "review_seconds": review_seconds,
            "result_schema": result_schema,
            "callback_url": callback_url,
        }
        return Call.post("tasks", repeat="key", key=key, signable=True, fields=fields)

    @Operation
    def list(
        self,
        status: TaskStatus = "offered",
        *,
        limit: int = 20,
        offset: int = 0,
        wait: float = 0,
        since: str | None = None,
        skill: str | None = None,
        publisher_id: str | None = None,
    ) -> Call[TaskPage]:
        """List contracts of one status, newest first. `wait`, `since`, `skill`, `publisher_id` are only for offers."""
        query: dict[str, Any] = {"status": status, "limit": limit, "offset": offset or None, "since": since}
        return Call.get("tasks", wait=wait, skill=skill, publisher_id=publisher_id, **query)

    @Operation
    def search(self, query: str, *, limit: int = 5, threshold: float = 0.7) -> Call[TaskHits]:
        """Find offered contracts by meaning or text."""
        fields = {"query": query, "limit": limit, "threshold": threshold}
        return Call.post("tasks", "search", pace="search", fields=fields)

    @Operation
    def get(self, task_id: str, *, status: TaskStatus | None = None, wait: float = 0) -> Call[Task]:
        """Get a contract. Waits up to `wait` seconds until its status is not `status` (default: the present one)."""
        return Call.get("tasks", task_id, status=status, wait=wait)

    @Operation
    def claim(self, task_id: str, assignee_id: str, *, key: str | None = None) -> Call[ClaimedTask]:
        """Claim a contract. The first claim wins."""
        fields = {"assignee_id": assignee_id}
        return Call.post("tasks", task_id, "claim", repeat="key", key=key, signable=True, pace="claim", fields=fields)

    @Operation
    def claim_next(
        self,
        assignee_id: str,
        *,
        skills: Sequence[str] | None = None,
        publisher_ids: Sequence[str] | None = None,
        query: str | None = None,
        threshold: float | None = None,
        wait: float = 0,
        key: str | None = None,
    ) -> Call[ClaimedTask | None]:
        """Claim any contract that fits, or the best match for `query`; None if there is none within `wait` seconds."""
        fields = {
            "assignee_id": assignee_id,
            "skills": skills,
            "publisher_ids": publisher_ids,
            "query": query,
            "threshold": threshold,
            "wait": wait or None,
        }
        call = Call.post("tasks", "claim-next", repeat="key", key=key, wait=wait, pace="claim", fields=fields)
        call.may_be_nothing = True
        return call

    @Operation
    def transition(
        self,
        task_id: str,
        actor_id: str | None = None,
        *,
        status: TaskStatus | None = None,
        publisher_id: str | None = None,
        assignee_id: str | None = None,
        publisher_token: str | None = None,
        claim_token: str | None = None,
        key: str | None = None,
    ) -> Call[Task]:
        """Move a contract to its next status, as publisher or assignee. Use `complete` to deliver a result."""
        fields = {
            "actor_id": actor_id,
            "status": status,
            "publisher_id": publisher_id,
            "assignee_id": assignee_id,
            "publisher_token": publisher_token,
            "claim_token": claim_token,
        }
        return Call.post("tasks", task_id, "transition", repeat="key", key=key, signable=True, fields=fields)

    @Operation
    def extend(self, task_id: str, claim_token: str) -> Call[Task]:
        """Renew the lease of a claim, for `lease_seconds` from now."""
        return Call.post("tasks", task_id, "extend", fields={"claim_token": claim_token})

    @Operation
    def complete(self, task_id: str, claim_token: str, result_payload: Any = None) -> Call[CompletedTask]:
        """Deliver the result. Idempotent. Raises InvalidRequest if the result does not match `result_schema`."""
        fields = {"claim_token": claim_token, "result_payload": result_payload}
        return Call.post("tasks", task_id, "complete", fields=fields)

    @Operation
    def fail(
        self, task_id: str, claim_token: str, code: str, *, message: str | None = None, retryable: bool = True
    ) -> Call[Task]:
        """End an attempt without a result."""
        fields = {"claim_token": claim_token, "code": code, "message": message, "retryable": retryable}
        return Call.post("tasks", task_id, "fail", fields=fields)

    @Operation
    def release(self, task_id: str, claim_token: str) -> Call[Task]:
        """Release a claim, so that others may claim the contract."""
        return Call.post("tasks", task_id, "release", fields={"claim_token": claim_token})

    @Operation
    def cancel(self, task_id: str, publisher_token: str | None = None) -> Call[Task]:
        """Cancel a contract, with its token or the key that signed it."""
        return _as_publisher(task_id, "cancel", publisher_token)

    @Operation
    def accept(self, task_id: str, publisher_token: str | None = None) -> Call[Task]:
        """Accept a submitted result."""
        return _as_publisher(task_id, "accept", publisher_token)

    @Operation
    def reject(
        self, task_id: str, reason: str, publisher_token: str | None = None, *, key: str | None = None
    ) -> Call[Task]:
        """Send a submitted result back to its worker."""
        return _as_publisher(task_id, "reject", publisher_token, {"reason": reason}, repeat="key", key=key)

    @Operation
    def retry(self, task_id: str, publisher_token: str | None = None, *, key: str | None = None) -> Call[Task]:
        """Give a failed contract another attempt."""
        return _as_publisher(task_id, "retry", publisher_token, repeat="key", key=key)

    @Operation
    def callbacks(
        self, task_id: str, publisher_token: str | None = None, *, since: int = 0, wait: float = 0
    ) -> Call[DeliveryPage]:
        """Get the delivery state of a contract's callbacks. Waits up to `wait` seconds for a change after `since`."""
        return Call.get("tasks", task_id, "callbacks", since=since, wait=wait, token=publisher_token, signable=True)

    @Procedure
    def result(self, task_id: str, *, until: Collection[TaskStatus] = OVER, within: float | None = None) -> Steps[Task]:
        """Wait until the status of a contract is in `until`, by default until it is over, and return the contract.

        Raises DeadlineExceeded after `within` seconds. Without `within`, waits for as long as it takes. To review a
        result, wait for `submitted` as well: `until=("submitted", *OVER)`.
        """
        return follow.until(self, partial(Tasks.get.call, task_id), until, within)

    @Iteration
    def all(self, status: TaskStatus = "offered") -> Items[Task]:
        """All contracts of one status, page by page, newest first."""
        return pages(self, partial(Tasks.list.call, status), "tasks", 50)

    @Iteration
    def offers(self, *, skill: str | None = None, publisher_id: str | None = None) -> Items[Task]:
        """Yield the newest offers, then new ones as they come, for ever."""
        since: str | None = None
        follower = Follower[TaskPage](self)
        while True:
            wait = WAIT if since else 0
            call = Tasks.list.call(limit=50, wait=wait, since=since, skill=skill, publisher_id=publisher_id)
            page = yield from follower.read(call, lambda page: page["tasks"])
            # The first list is newest first; later offers (`since`) come in the order in which they were made.
            for task in page["tasks"] if since else reversed(page["tasks"]):
                yield Item(task)
            since = page.get("next_since", since)


def _as_publisher(
    task_id: str,
    step: str,
    publisher_token: str | None,
    fields: Mapping[str, Any] | None = None,
    *,
    repeat: Repeat = "safe",
    key: str | None = None,
) -> Call[Any]:
    given = {"publisher_token": publisher_token, **(fields or {})}
    signable = not publisher_token
    return Call.post("tasks", task_id, step, repeat=repeat, key=key, signable=signable, fields=given)
