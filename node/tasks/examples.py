"""Fields of the example contracts in the API documents that depend on the contract's status."""

from msgspec import UNSET
from msgspec.structs import fields

from node.tasks.model import Task

_OPTIONS = [field.name for field in fields(Task) if field.default is UNSET and field.name != "result_payload"]
"""Fields that only some contracts have."""

_PLAIN: dict[str, object] = dict.fromkeys(_OPTIONS, UNSET)
_OPEN: dict[str, object] = {**_PLAIN, "completed_at": None, "elapsed_ms": None, "result_payload": UNSET}
_FREE: dict[str, object] = {**_OPEN, "assignee_id": None, "claimed_at": None, "lease_expires_at": None}

OFFER = {
    "publisher_id": "report-desk",
    "title": "Summarise a report about solar panels",
    "description": "One page of plain English, with three figures.",
    "lease_seconds": 900,
}
"""A request; OFFERED is the answer to it."""

OFFERED = {**_FREE, "attempt": 0}
CANCELED = {**OFFERED, "status": "canceled"}
RELEASED = _FREE
CLAIMED = {**_OPEN, "status": "claimed"}
IN_PROGRESS = {**_OPEN, "status": "in_progress"}
FAILED = {**_FREE, "retry_at": "2026-11-21T08:16:00.000Z"}
REJECTED = {**IN_PROGRESS, "review_seconds": 3600, "rejection": "The figures are missing."}
COMPLETED: dict[str, object] = {**_PLAIN, "status": "completed", "lease_expires_at": None}
PAGE: dict[str, object] = {"tasks": [OFFERED], "incomplete": UNSET}
