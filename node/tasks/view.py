"""A stored contract as its readers see it.

The hash may lag behind the clock: a claim whose lease has ended is void before any script has removed it from the
hash (lua/lib/lapse.lua). So every view is of the moment at which the fields were read.
"""

from typing import cast

import msgspec

from node.common.timestamps import timestamp
from node.store.decoding import number, text
from node.tasks.model import Task, TaskStatus

LISTED = (
    b"kind",
    b"status",
    b"publisher_id",
    b"title",
    b"description",
    b"input_artifact_ids",
    b"bound",
    b"signature",
    b"assignee_id",
    b"created_at",
    b"claimed_at",
    b"completed_at",
    b"lease_ms",
    b"lease_expires_at",
    b"attempt",
)
"""Fields that every view needs."""

WHOLE = (*LISTED, b"result_payload")
"""Those, and the one that may be large."""


OF_A_CLAIM = frozenset({b"assignee_id", b"claimed_at", b"lease_expires_at"})
"""Fields that are gone once a claim is void (lua/lib/reoffer.lua)."""


class StoredTask(msgspec.Struct, frozen=True):
    """Stored fields of a contract, and when they were read (ms, by Redis' clock)."""

    now: int
    fields: dict[bytes, bytes]

    @property
    def is_contract(self) -> bool:
        """Not so for an unknown id, and for A2A message tasks, whose keys look the same."""
        return self.fields.get(b"kind") == b"contract"

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease of the present claim has ended."""
        ends = number(self.fields.get(b"lease_expires_at"))
        return ends is not None and ends <= self.now

    @property
    def status(self) -> TaskStatus:
        """The status at the time of reading."""
        return "offered" if self.has_lapsed else cast("TaskStatus", self.fields[b"status"].decode())

    @property
    def created_at(self) -> int:
        """When it was offered (ms)."""
        return int(self.fields[b"created_at"])

    @property
    def result(self) -> bytes:
        """The result of a completed one: JSON. A transition to completed leaves none behind."""
        return self.fields.get(b"result_payload", b"null")


def task_of(task_id: str, url: str, row: StoredTask, *, whole: bool = True) -> Task:
    """The record that readers get (SPEC 2.3, DESIGN 8); with its result, if it is `whole` and completed."""
    fields = row.fields
    if row.has_lapsed:
        fields = {name: value for name, value in fields.items() if name not in OF_A_CLAIM}
    claimed, completed = number(fields.get(b"claimed_at")), number(fields.get(b"completed_at"))
    lease, ends = number(fields.get(b"lease_ms")), number(fields.get(b"lease_expires_at"))
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
        claimed_at=_shown(claimed),
        completed_at=_shown(completed),
        elapsed_ms=completed - claimed if completed is not None and claimed is not None else None,
        lease_seconds=lease // 1000 if lease is not None else None,
        lease_expires_at=_shown(ends),
        attempt=int(fields[b"attempt"]),
        url=url,
        result_payload=msgspec.Raw(row.result) if whole and status == "completed" else msgspec.UNSET,
    )


def _shown(ms: int | None) -> str | None:
    return None if ms is None else timestamp(ms)
