"""The model of a contract: its expected state after any steps in any order (SPEC 3.1, DESIGN 8)."""

import math
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from node.common.timestamps import timestamp
from node.tasks.model import EndedAttempt, FailureReason, NewTask, Task, TaskStatus

PUBLISHER = "desk"
NO_TOKEN = "1.x.y"
NEXT: dict[TaskStatus, TaskStatus] = {"claimed": "in_progress", "in_progress": "completed"}
AT_WORK = ("claimed", "in_progress")
ENDED = ("completed", "canceled", "expired")
DAY_MS = 86_400_000


class Terms(msgspec.Struct, frozen=True):
    """The terms of a contract; times are in seconds."""

    lease: int | None = None
    bound: bool = False
    attempts: int | None = None
    retry: int | None = None
    deadline: int | None = None
    """From the creation of the contract."""
    review: int | None = None

    def offer(self, now: int) -> NewTask:
        """Return the offer of such a contract at a time (ms)."""
        end = None if self.deadline is None else datetime.fromtimestamp(now / 1000 + self.deadline, UTC)
        return NewTask(
            PUBLISHER,
            "Count the panels",
            lease_seconds=self.lease,
            require_proof=self.bound,
            max_attempts=self.attempts,
            retry_seconds=self.retry,
            deadline=end,
            review_seconds=self.review,
        )


class Told(NamedTuple):
    """What an event says about a change."""

    what: str
    status: TaskStatus
    attempt: int
    assignee: str


class Model:
    """The expected state of a contract. Times are in milliseconds."""

    def __init__(self, task_id: str, publisher_token: str, terms: Terms, now: int) -> None:
        self.id = task_id
        self.publisher_token = publisher_token
        self.terms = terms
        self.status: TaskStatus = "offered"
        self.changed = now
        """When the contract got its current status."""
        self.assignee: str | None = None
        self.attempt = 0
        self.token: str | None = None
        """The claim_token of the last claim, unless the claim has lapsed."""
        self.key: tuple[str, str] | None = None
        self.claimed: int | None = None
        self.ends: int | None = None
        self.opens: int | None = None
        self.submitted: int | None = None
        self.review_ends: int | None = None
        self.deadline = None if terms.deadline is None else now + terms.deadline * 1000
        self.failures = 0
        self.attempts: list[EndedAttempt] = []
        self.failed_attempt = 0
        self.rejection: str | None = None
        self.result: bytes | None = None
        self.remembered: dict[tuple[str, str], str] = {}
        """Bodies of the publisher's steps that were taken under a key."""
        self.told = [Told("offered", "offered", 0, "")]

    @property
    def next_change(self) -> int | None:
        """When the contract next changes by itself."""
        deadline = self.deadline if self.status in ("offered", *AT_WORK) else None
        coming = (self.ends, self.opens, self.review_ends, deadline)
        return min((time for time in coming if time is not None), default=None)

    def check(self, task: Task) -> None:
        """Assert that a record agrees with the model."""
        assert (task.status, task.assignee_id) == (self.status, self.assignee)
        assert (task.attempt, task.claimed_at) == (self.attempt, _at(self.claimed))
        assert task.updated_at == timestamp(self.changed)
        assert task.lease_expires_at == _at(self.ends)
        assert task.retry_at == _shown(self.opens)
        assert (task.submitted_at, task.review_ends_at) == (_shown(self.submitted), _shown(self.review_ends))
        assert task.completed_at == _at(self.changed if self.status == "completed" else None)
        assert task.failed_at == _shown(self.changed if self.status == "failed" else None)
        assert task.expired_at == _shown(self.changed if self.status == "expired" else None)
        assert task.rejection == (msgspec.UNSET if self.rejection is None else self.rejection)
        assert task.attempts == (self.attempts[-10:] or msgspec.UNSET)
        handed_in = self.status in ("completed", "submitted")
        assert _result(task) == (self.result or b"null" if handed_in else None)

    def change(self, status: TaskStatus, what: str, at: int) -> None:
        self.status, self.changed = status, at
        assignee = None if what in ("offered", "retried") else self.assignee
        self.told.append(Told(what, status, self.attempt, assignee or ""))
        if status == "offered":
            self.assignee = self.claimed = None
        if status not in AT_WORK:
            self.ends = None
        if status != "submitted":
            self.review_ends = None
        if status in (*ENDED, "failed"):
            self.opens = None

    def claim(self, agent: str, token: str, key: str | None, now: int) -> None:
        self.assignee, self.token, self.key = agent, token, (agent, key) if key else None
        self.claimed = now
        self.attempt += 1
        self.change("claimed", "claimed", now)
        self.renew(now)

    def renew(self, now: int) -> None:
        """Begin the lease anew."""
        self.ends = None if self.terms.lease is None else now + self.terms.lease * 1000

    def submit(self, now: int, review: int) -> None:
        """Submit a result, to be reviewed for this many seconds."""
        self.change("submitted", "submitted", now)
        self.submitted, self.review_ends = now, now + review * 1000

    def end_attempt(self, at: int, failed: FailureReason | None = None) -> None:
        """End an attempt that has `failed` or has lapsed."""
        self.failures += 1
        self.attempts.append(
            EndedAttempt(
                self.attempt,
                self.assignee or "",
                timestamp(self.claimed or 0),
                timestamp(at),
                "failed" if failed else "lapsed",
                failed,
            )
        )
        if (failed and not failed.retryable) or self.failures >= (self.terms.attempts or 1):
            self.change("failed", "failed", at)
            return
        self.change("offered", "failed" if failed else "expired", at)
        if self.terms.retry is not None and self.token:
            digits = int(self.token.split(".")[1][:4], 16)
            pause = min(self.terms.retry * 1000 * 2.0 ** (self.failures - 1), DAY_MS)
            self.opens = at + math.floor(pause * (0.8 + 0.4 * digits / 65535))

    def pass_time(self, now: int) -> None:
        """Apply the changes that time alone has made by `now`."""
        if self.review_ends is not None and self.review_ends <= now:
            self.change("completed", "completed", self.review_ends)
        over = self.deadline is not None and self.deadline <= now and self.status in ("offered", *AT_WORK)
        last = min(now, self.deadline - 1) if over and self.deadline is not None else now
        if self.ends is not None and self.ends <= last:
            if self.terms.attempts is None:
                self.change("offered", "expired", self.ends)
            else:
                self.end_attempt(self.ends)
            self.token = self.key = None
        if self.opens is not None and self.opens <= last:
            at, self.opens = self.opens, None
            self.change("offered", "offered", at)
        if over and self.status != "failed" and self.deadline is not None:
            self.change("expired", "expired", self.deadline)

    def claim_refusal(self, token: str, *, released: bool = False) -> str | None:
        """Return the refusal of a step that requires the claim, or None."""
        if token != self.token or (self.status == "offered" and not released):
            return "task.token"
        return None if self.status in ("offered", *AT_WORK) else "task.state"

    def publisher_refusal(self, proof: str, *allowed: TaskStatus) -> str | None:
        """Return the refusal of a step that requires the publisher's proof, or None."""
        if proof != "token":
            return "task.publisher"
        return None if self.status in allowed else "task.state"


def _shown(at: int | None) -> str | msgspec.UnsetType:
    return msgspec.UNSET if at is None else timestamp(at)


def _at(at: int | None) -> str | None:
    return None if at is None else timestamp(at)


def _result(task: Task) -> bytes | None:
    return None if task.result_payload is msgspec.UNSET else bytes(task.result_payload)
