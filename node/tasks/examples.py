"""Contracts as the documents show them: the members that a status decides, laid over the sample of their type."""

from msgspec import UNSET

_OPEN: dict[str, object] = {
    "title": "Summarise a report about solar panels",
    "input_artifact_ids": [],
    "completed_at": None,
    "elapsed_ms": None,
    "result_payload": UNSET,
}
_FREE: dict[str, object] = {**_OPEN, "assignee_id": None, "claimed_at": None, "lease_expires_at": None}

OFFERED = {**_FREE, "status": "offered", "attempt": 0}
CANCELED = {**_FREE, "status": "canceled", "attempt": 0}
RELEASED = {**_FREE, "status": "offered"}
CLAIMED = {**_OPEN, "status": "claimed"}
IN_PROGRESS = {**_OPEN, "status": "in_progress"}
COMPLETED: dict[str, object] = {
    "title": "Summarise a report about solar panels",
    "input_artifact_ids": [],
    "status": "completed",
    "lease_expires_at": None,
}
PAGE: dict[str, object] = {"tasks": [OFFERED], "total": 1, "limit": 20, "offset": 0}
