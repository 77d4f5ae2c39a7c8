"""The model of a contract: what it must be, whatever is done in whatever order (SPEC 3.1, DESIGN 8)."""

import math
from datetime import UTC, datetime

import msgspec

from node.tasks.model import NewTask, TaskStatus

PUBLISHER = "desk"
NO_TOKEN = "1.x.y"
NEXT: dict[TaskStatus, TaskStatus] = {"claimed": "in_progress", "in_progress": "completed"}
AT_WORK = ("claimed", "in_progress")
ENDED = ("completed", "canceled", "expired")
DAY_MS = 86_400_000


class Terms(msgspec.Struct, frozen=True):
    """What a contract asks for; seconds."""

    lease: int | None = None
    bound: bool = False
    attempts: int | None = None
    retry: int | None = None
    deadline: int | None = None
    """From its creation."""
    review: int | None = None

    def offer(self, now: int) -> NewTask:
        """The offer of such a contract at a time (ms)."""
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


class Model:
    """What a contract must be. Times are in milliseconds."""

    def __init__(self, task_id: str, publisher_token: str, terms: Terms, now: int) -> None:
        self.id = task_id
        self.publisher_token = publisher_token
        self.terms = terms
        self.status: TaskStatus = "offered"
        self.assignee: str | None = None
        self.attempt = 0
        self.token: str | None = None
        """That of the last claim, unless it has lapsed."""
        self.key: tuple[str, str] | None = None
        self.ends: int | None = None
        self.opens: int | None = None
        self.review_ends: int | None = None
        self.deadline = None if terms.deadline is None else now + terms.deadline * 1000
        self.failures = 0
        self.outcomes: list[str] = []
        self.failed_attempt = 0
        self.rejection: str | None = None
        self.result: bytes | None = None
        self.told = ["offered"]

    def change(self, status: TaskStatus, what: str) -> None:
        self.status = status
        self.told.append(what)
        if status == "offered":
            self.assignee = None
        if status not in AT_WORK:
            self.ends = None
        if status != "submitted":
            self.review_ends = None
        if status in (*ENDED, "failed"):
            self.opens = None

    def claim(self, agent: str, token: str, key: str | None, now: int) -> None:
        self.change("claimed", "claimed")
        self.assignee, self.token, self.key = agent, token, (agent, key) if key else None
        self.attempt += 1
        self.renew(now)

    def renew(self, now: int) -> None:
        """Begin the lease anew."""
        self.ends = None if self.terms.lease is None else now + self.terms.lease * 1000

    def end_attempt(self, at: int, outcome: str, *, retryable: bool = True) -> None:
        """An attempt has ended without a result."""
        self.failures += 1
        self.outcomes.append(outcome)
        if not retryable or self.failures >= (self.terms.attempts or 1):
            self.change("failed", "failed")
            return
        self.change("offered", "failed" if outcome == "failed" else "expired")
        if self.terms.retry is not None and self.token:
            digits = int(self.token.split(".")[1][:4], 16)
            pause = min(self.terms.retry * 1000 * 2.0 ** (self.failures - 1), DAY_MS)
            self.opens = at + math.floor(pause * (0.8 + 0.4 * digits / 65535))

    def pass_time(self, now: int) -> None:
        """What time alone has changed by then."""
        if self.review_ends is not None and self.review_ends <= now:
            self.change("completed", "completed")
        over = self.deadline is not None and self.deadline <= now and self.status in ("offered", *AT_WORK)
        last = min(now, self.deadline - 1) if over and self.deadline is not None else now
        if self.ends is not None and self.ends <= last:
            if self.terms.attempts is None:
                self.change("offered", "expired")
            else:
                self.end_attempt(self.ends, "lapsed")
            self.token = self.key = None
        if self.opens is not None and self.opens <= last:
            self.opens = None
            self.told.append("offered")
        if over and self.status != "failed":
            self.change("expired", "expired")

    def claim_refusal(self, token: str, *, released: bool = False) -> str | None:
        """The refusal of a step that takes the claim."""
        if token != self.token or (self.status == "offered" and not released):
            return "task.token"
        return None if self.status in ("offered", *AT_WORK) else "task.state"

    def publisher_refusal(self, proof: str, *allowed: TaskStatus) -> str | None:
        """The refusal of a step that takes the publisher's proof."""
        if proof != "token":
            return "task.publisher"
        return None if self.status in allowed else "task.state"
