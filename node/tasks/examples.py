"""What the status of a contract decides in the examples of the documents."""

from msgspec import UNSET

_OPEN: dict[str, object] = {"completed_at": None, "elapsed_ms": None, "result_payload": UNSET}
_FREE: dict[str, object] = {**_OPEN, "assignee_id": None, "claimed_at": None, "lease_expires_at": None}

OFFERED = {**_FREE, "attempt": 0}
CANCELED = {**OFFERED, "status": "canceled"}
RELEASED = _FREE
CLAIMED = {**_OPEN, "status": "claimed"}
IN_PROGRESS = {**_OPEN, "status": "in_progress"}
COMPLETED: dict[str, object] = {"status": "completed", "lease_expires_at": None}
PAGE = {"tasks": [OFFERED]}
