"""A stored contract as its readers see it.

The hash may lag behind the clock: a claim whose lease has ended is void before any script has removed it from the
hash. So every view shows the contract as of the moment when its fields were read (`node.tasks.lapse`).
"""

import math
from typing import Any, cast

import msgspec

from node.common.refusal import Refused
from node.common.timestamps import optional_timestamp, timestamp
from node.store.decoding import number, text
from node.tasks.lapse import JUDGED, Fields, at_time, next_change
from node.tasks.model import NO_RESULT, OVER, PLAIN_STATUSES, STATUSES, EndedAttempt, Task, TaskStatus

_OFFER = (
    b"kind",
    b"publisher_id",
    b"title",
    b"description",
    b"input_artifact_ids",
    b"bound",
    b"signature",
    b"created_at",
    b"lease_ms",
    b"more",
)
_MORE_OF_OFFER = (b"skills", b"deadline", b"max_attempts", b"retry_ms", b"review_ms")

OFFERED = (*_OFFER, *_MORE_OF_OFFER, b"result_schema")
"""Fields of an offer that are shown. They never change, except that `more` may be added."""

BASE = (
    *_OFFER,
    b"status",
    b"assignee_id",
    b"updated_at",
    b"claimed_at",
    b"completed_at",
    b"canceled_at",
    b"lease_expires_at",
    b"attempt",
)
"""Fields that lists show of every contract. A contract that has further fields of LISTED has the field `more`."""

LISTED = (
    *BASE,
    *_MORE_OF_OFFER,
    b"claim",
    b"failures",
    b"retry_at",
    b"review_ends_at",
    b"submitted_at",
    b"rejection",
    b"failed_at",
    b"expired_at",
)
"""Fields that lists show of contracts that use more than SPEC asks for, or that failed. result_payload, result_schema
and attempts are not among them, since they may be large."""

TEXTS = (b"title", b"description", b"input_artifact_ids", b"signature")
"""Fields of LISTED that may be long. They never change."""

CHANGING = tuple(name for name in LISTED if name not in TEXTS)
"""Fields of LISTED that are not TEXTS."""

LISTED_BY = (
    *JUDGED,
    b"publisher_id",
    b"skills",
    b"created_at",
    b"updated_at",
    b"completed_at",
    b"canceled_at",
    b"submitted_at",
    b"failed_at",
    b"expired_at",
    b"more",
)
"""Fields that decide in which list a contract belongs, since when, and how it is announced. None is a long text."""


class StoredTask(msgspec.Struct, frozen=True):
    """Fields of a contract as of `now`, the time when they were read (ms, by Redis' clock)."""

    now: int
    fields: Fields
    asked_at: float = math.inf
    """Monotonic seconds just before the contract was read; infinite where that does not matter."""

    @classmethod
    def of(cls, now: int, fields: Fields, asked_at: float) -> "StoredTask":
        """Make one from the stored fields, which may lag behind the clock."""
        return cls(now, at_time(fields, now), asked_at)

    @property
    def as_offered(self) -> "StoredTask":
        """The contract as it was when it was offered."""
        kept = {name: value for name, value in self.fields.items() if name in OFFERED}
        return StoredTask(self.now, kept | {b"status": b"offered", b"attempt": b"0"}, self.asked_at)

    def with_texts_of(self, before: "StoredTask") -> "StoredTask":
        """Return this contract with the TEXTS that were read before."""
        texts = {name: value for name, value in before.fields.items() if name in TEXTS}
        return StoredTask(self.now, texts | self.fields, self.asked_at)

    @property
    def is_contract(self) -> bool:
        """Whether this is a contract, not an unknown id or an A2A message task, whose key looks the same."""
        return self.fields.get(b"kind") == b"contract"

    @property
    def status(self) -> TaskStatus:
        """The status at the time of reading."""
        return cast("TaskStatus", self.fields[b"status"].decode())

    def is_in(self, status: TaskStatus) -> bool:
        """Return whether it is a contract of that status."""
        return self.fields.get(b"status") == status.encode() and self.is_contract

    @property
    def stage(self) -> str:
        """Status and number of the attempt, such as `offered 2`.

        A claim raises the number, so a contract that was claimed is never offered at an earlier stage again.
        """
        return f"{self.status} {self.fields[b'attempt'].decode()}"

    @property
    def is_over(self) -> bool:
        """Whether it is a contract with a final status."""
        return self.is_contract and self.status in OVER

    @property
    def can_be_claimed(self) -> bool:
        """Whether it is on offer and not in the pause after a failed attempt."""
        return self.is_in("offered") and b"retry_at" not in self.fields

    @property
    def statuses(self) -> tuple[TaskStatus, ...]:
        """Statuses that it may have or have had. Only a contract with `more` has others than PLAIN_STATUSES."""
        return PLAIN_STATUSES if self.is_contract and b"more" not in self.fields else STATUSES

    @property
    def created_at(self) -> int:
        """When it was first offered (ms)."""
        return int(self.fields[b"created_at"])

    @property
    def changed_at(self) -> int:
        """When it got its present status (ms)."""
        status = self.status
        own = b"updated_at" if status in ("offered", "in_progress") else status.encode() + b"_at"
        found = (number(self.fields.get(name)) for name in (own, b"claimed_at", b"created_at"))
        return next(at for at in found if at is not None)

    @property
    def lasts(self) -> float:
        """Seconds, from when it was read, until it changes by time alone; infinite if it never does."""
        return (next_change(self.fields) - self.now + 1) / 1000

    @property
    def result(self) -> bytes:
        """The result as JSON; null if a transition completed the contract without one."""
        return self.fields.get(b"result_payload", b"null")


def known(row: StoredTask) -> StoredTask:
    """Return `row` if it is a contract. Raises Refused `task.unknown` otherwise."""
    if not row.is_contract:
        raise Refused("task.unknown")
    return row


def task_of(task_id: str, url: str, row: StoredTask, *, whole: bool = True) -> Task:
    """Return the record that readers get (SPEC 2.3, DESIGN 8); if `whole`, with its result, schema and attempts."""
    fields = row.fields
    claimed, completed = number(fields.get(b"claimed_at")), number(fields.get(b"completed_at"))
    lease = number(fields.get(b"lease_ms"))
    inputs, signature = fields.get(b"input_artifact_ids"), fields.get(b"signature")
    status = row.status
    return Task(
        id=task_id,
        status=status,
        publisher_id=fields[b"publisher_id"].decode(),
        title=fields[b"title"].decode(),
        description=text(fields.get(b"description")),
        input_artifact_ids=msgspec.json.decode(inputs, type=list[str]) if inputs else [],
        is_signed=signature is not None,
        signature=msgspec.json.decode(signature) if signature else None,
        require_proof=b"bound" in fields,
        assignee_id=text(fields.get(b"assignee_id")),
        created_at=timestamp(row.created_at),
        updated_at=timestamp(row.changed_at),
        claimed_at=optional_timestamp(claimed),
        completed_at=optional_timestamp(completed),
        elapsed_ms=elapsed(claimed, completed) if completed is not None and claimed is not None else None,
        lease_seconds=lease // 1000 if lease is not None else None,
        lease_expires_at=optional_timestamp(number(fields.get(b"lease_expires_at"))),
        attempt=int(fields[b"attempt"]),
        url=url,
        result_payload=_result(fields) if whole and status in ("completed", "submitted") else msgspec.UNSET,
        **_options(fields, whole=whole),
    )


class ChangeLog(msgspec.Struct, frozen=True):
    """The last changes of a contract (lua/lib/announce_task.lua)."""

    count: int
    """Number of all changes so far, which is also the number of the last one."""
    last: list[tuple[str, int]]
    """What happened and when (ms), the oldest first."""

    @classmethod
    def of(cls, fields: Fields) -> "ChangeLog":
        """Read the log of a stored contract. It is empty if a version without such logs stored the contract."""
        count, *changes = fields.get(b"changes", b"0").decode().split(" ")
        pairs = (change.split("@") for change in changes)
        return cls(int(count), [(what, int(at)) for what, at in pairs])


def elapsed(claimed: int, ended: int) -> int:
    """Return the milliseconds from a claim to its result; 0 if the clock was set back meanwhile."""
    return max(0, ended - claimed)


def _result(fields: Fields) -> msgspec.Raw:
    return msgspec.Raw(fields[b"result_payload"]) if b"result_payload" in fields else NO_RESULT


def _options(fields: Fields, *, whole: bool) -> dict[str, Any]:
    """Return the fields that are shown only for contracts that use more than SPEC asks for, or that failed."""
    shown: dict[str, Any] = {}
    if b"more" not in fields:
        return shown
    if skills := fields.get(b"skills"):
        shown["skills"] = msgspec.json.decode(skills, type=list[str])
    if most := fields.get(b"max_attempts"):
        shown["max_attempts"] = int(most)
    for name, stored in (("retry_seconds", b"retry_ms"), ("review_seconds", b"review_ms")):
        if value := fields.get(stored):
            shown[name] = int(value) // 1000
    for name in ("deadline", "retry_at", "submitted_at", "review_ends_at", "failed_at", "expired_at"):
        if value := fields.get(name.encode()):
            shown[name] = timestamp(int(value))
    if rejection := fields.get(b"rejection"):
        shown["rejection"] = rejection.decode()
    if whole and (schema := fields.get(b"result_schema")):
        shown["result_schema"] = msgspec.Raw(schema)
    if whole and (attempts := fields.get(b"attempts")):
        shown["attempts"] = [_attempt(line) for line in attempts.split(b"\n")]
    return shown


def _attempt(line: bytes) -> EndedAttempt:
    """Decode an attempt that ended without a result, as `lua/lib/end_attempt.lua` has recorded it."""
    noted = msgspec.json.decode(line)
    times = {name: timestamp(noted[name]) for name in ("claimed_at", "ended_at")}
    return msgspec.convert({"reason": None, **noted, **times}, EndedAttempt)
