"""Changes of a contract by time alone, before any step has recorded them.

The end of a lease voids the claim, the end of a pause opens the offer, the end of the review period accepts the result,
and the deadline ends a contract that has no result. Readers see a contract as `lua/lib/lapse.lua` would leave it at the
time of reading: this module does in Python what that fragment and `lua/lib/end_attempt.lua` do.
"""

import math

import msgspec

from node.store.decoding import number
from node.store.limits import DAY_MS

Fields = dict[bytes, bytes]

AT_WORK = (b"claimed", b"in_progress")
BEFORE_A_RESULT = (b"offered", *AT_WORK)
"""Statuses in which a contract expires at its deadline."""
ATTEMPTS_KEPT = 10
"""How many of the last ended attempts a record shows."""

JUDGED = (
    b"kind",
    b"status",
    b"attempt",
    b"assignee_id",
    b"claim",
    b"claimed_at",
    b"lease_expires_at",
    b"retry_at",
    b"retry_ms",
    b"review_ends_at",
    b"deadline",
    b"max_attempts",
    b"failures",
)
"""Fields that decide which status a contract has at a given time. A reader that needs only the status reads no others;
of the ended attempts, `at_time` then gives it only the one that has just lapsed."""

MAX_PAUSE_MS = DAY_MS
"""Longest pause before another attempt, in milliseconds, however often it has doubled: a day."""


def at_time(fields: Fields, now: int) -> Fields:
    """Return the fields of a contract as of the time `now` (ms)."""
    ends, opens = number(fields.get(b"lease_expires_at")), number(fields.get(b"retry_at"))
    review, deadline = number(fields.get(b"review_ends_at")), number(fields.get(b"deadline"))
    if all(time is None or time > now for time in (ends, opens, review, deadline)):
        return fields
    if review is not None and review <= now:
        return _finished(fields, b"completed", review)
    status = fields[b"status"]
    expires = deadline if status in BEFORE_A_RESULT else None
    last = now if expires is None else min(now, expires - 1)
    if ends is not None and ends <= last:
        fields = _lapsed(fields, ends)
        opens = number(fields.get(b"retry_at"))
    if opens is not None and opens <= last:
        fields = _without(fields, b"retry_at") | {b"updated_at": b"%d" % opens}
    if expires is not None and expires <= now and fields[b"status"] != b"failed":
        return _finished(fields, b"expired", expires)
    return fields


def next_change(fields: Fields) -> float:
    """Return when a contract, as `at_time` gives it, next changes by time alone (ms); infinite if it never does."""
    names = [b"lease_expires_at", b"retry_at", b"review_ends_at"]
    if fields.get(b"status") in BEFORE_A_RESULT:
        names.append(b"deadline")
    return min((int(fields[name]) for name in names if name in fields), default=math.inf)


def _lapsed(fields: Fields, at: int) -> Fields:
    """Return the fields after the lease has ended at the time `at` (ms)."""
    if b"max_attempts" not in fields:
        return _reoffered(fields, at)
    failures = int(fields.get(b"failures", b"0")) + 1
    attempts = [*fields.get(b"attempts", b"").split(b"\n"), _entry(fields, at)][-ATTEMPTS_KEPT:]
    ended = fields | {b"more": b"1", b"failures": b"%d" % failures, b"attempts": b"\n".join(filter(None, attempts))}
    if failures >= int(fields[b"max_attempts"]):
        return _finished(_without(ended, b"claim"), b"failed", at)
    offered = _reoffered(ended, at)
    if b"retry_ms" in fields:
        # Jitter from the digits of the claim instead of a random number, so that every reader finds the same time.
        share = 0.8 + 0.4 * int(fields[b"claim"][:4], 16) / 65535
        pause = min(int(fields[b"retry_ms"]) * 2.0 ** (failures - 1), MAX_PAUSE_MS)
        offered[b"retry_at"] = b"%d" % (at + math.floor(pause * share))
    return offered


def _reoffered(fields: Fields, at: int) -> Fields:
    kept = _without(fields, b"assignee_id", b"claimed_at", b"lease_expires_at", b"claim")
    return kept | {b"status": b"offered", b"updated_at": b"%d" % at}


def _finished(fields: Fields, status: bytes, at: int) -> Fields:
    kept = _without(fields, b"lease_expires_at", b"retry_at", b"review_ends_at")
    return kept | {b"status": status, status + b"_at": b"%d" % at}


def _without(fields: Fields, *names: bytes) -> Fields:
    return {name: value for name, value in fields.items() if name not in names}


def _entry(fields: Fields, at: int) -> bytes:
    return msgspec.json.encode(
        {
            "attempt": int(fields[b"attempt"]),
            "assignee_id": fields[b"assignee_id"].decode(),
            "claimed_at": int(fields[b"claimed_at"]),
            "ended_at": at,
            "outcome": "lapsed",
        }
    )
