"""The possible results of one attempt to deliver a webhook, and what each receiver's answer means.

result           receiver                        message               breaker of the URL
Delivered        2xx                             is over               closes
ReceiverGone     410                             is dropped            -
Rejected         3xx, another 4xx                is retried; dropped   -
                                                 after three 404s
Retry            5xx, 408, 425, no answer        is retried            counts a failure
  Throttled      429                             is retried            opens for the time asked for
  Unreachable    no connection                   is retried            - (the address's breaker counts it)
Later            not called: breaker, rate,      waits                 -
                 or no free place
TargetForbidden  not called: the guard refused   is dropped            -
"""

from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeAlias

import msgspec

COME_BACK = frozenset((408, 425, 429))  # the 4xx statuses that ask for a retry
MAX_RETRY_AFTER = 86400.0  # seconds; a longer Retry-After counts as one day


class Delivered(msgspec.Struct, frozen=True):
    """Answered with 2xx."""

    status: int


class ReceiverGone(msgspec.Struct, frozen=True):
    """Answered with 410: the receiver wants no more callbacks about this entity."""


class Rejected(msgspec.Struct, frozen=True):
    """Answered with a redirect, which is not followed, or with a 4xx that does not ask for a retry."""

    reason: str
    status: int


class Retry(msgspec.Struct, frozen=True):
    """No answer, or an answer after which a later attempt may work."""

    reason: str
    after: float | None = None
    """Seconds that the receiver asked to wait; None if it did not ask (see `delay`)."""


class Throttled(Retry, frozen=True):
    """Answered with 429: the receiver works, but asks for fewer messages."""


class Unreachable(Retry, frozen=True):
    """No connection was accepted. This counts against the address, not against the URL."""


class Later(msgspec.Struct, frozen=True):
    """Not called for now: a breaker is open, a rate is used up or no place is free. Another try makes sense after
    `wait_ms` milliseconds. This does not count as an attempt.
    """

    wait_ms: int


class NotNow(Exception):
    """Raised if a call may not be made before some time has passed; the result of the attempt is then Later."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"not for another {wait_ms} ms")
        self.wait_ms = wait_ms


class TargetForbidden(msgspec.Struct, frozen=True):
    """Not called, because the host has an address to which callbacks are never sent."""

    reason: str


AttemptResult: TypeAlias = Delivered | ReceiverGone | Rejected | Retry | Later | TargetForbidden


def judge(status: int, headers: Iterable[tuple[bytes, bytes]], now: float) -> AttemptResult:
    """Return the result that stands for an answer received at `now`, in seconds since 1970."""
    if 200 <= status < 300:
        return Delivered(status)
    if status == HTTPStatus.GONE:
        return ReceiverGone()
    reason = f"answered {status}"
    if status >= 500 or status in COME_BACK:
        asked = [value for name, value in headers if name.lower() == b"retry-after"]
        after = retry_after(asked[0].strip().decode("latin-1"), now) if asked else None
        return (Throttled if status == HTTPStatus.TOO_MANY_REQUESTS else Retry)(reason, after)
    return Rejected(reason, status)


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds that a Retry-After received at `now` asks to wait (RFC 9110 §10.2.3), up to MAX_RETRY_AFTER.

    None if the value cannot be parsed.
    """
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # OverflowError: too many digits in the year or the zone
        return None
    seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def delay(scheduled: float, asked: float | None) -> float:
    """Return the seconds until the next attempt, by the schedule's delay and by the delay that the receiver asked for.

    The result is between `scheduled` and twice that: a receiver can slow the node down, but neither hurry nor stop it.
    """
    return min(max(scheduled, asked or 0.0), 2 * scheduled)
