"""How one attempt to deliver a webhook ended, and what the answer of a receiver means.

result           receiver                        message               breaker of the URL
Delivered        2xx                             is over               closes
ReceiverGone     410                             is dropped            -
Rejected         3xx, another 4xx                is retried; after     -
                                                 three 404, dropped
Retry            5xx, 408, 425, no answer        is retried            counts a failure
  Throttled      429                             is retried            opens for as long as was asked
  Unreachable    no connection                   is retried            - (that of the address does)
Later            not called: breaker, rate       waits                 -
TargetForbidden  not called: the guard refused   is dropped            -
"""

from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeAlias

import msgspec

COME_BACK = frozenset((408, 425, 429))  # the 4xx that ask to come back
MAX_RETRY_AFTER = 86400.0  # seconds; a receiver that asks for more than a day gets a day


class Delivered(msgspec.Struct, frozen=True):
    """Answered with 2xx."""

    status: int


class ReceiverGone(msgspec.Struct, frozen=True):
    """Answered with 410: the receiver wants no more about this entity."""


class Rejected(msgspec.Struct, frozen=True):
    """Answered with a redirect, which is not followed, or with a 4xx that does not ask to come back."""

    reason: str
    status: int


class Retry(msgspec.Struct, frozen=True):
    """No answer, or one that says that a later attempt may work."""

    reason: str
    after: float | None = None
    """Seconds that the receiver asks to wait, if it does (see `delay`)."""


class Throttled(Retry, frozen=True):
    """Answered with 429: the receiver works, and asks for fewer messages."""


class Unreachable(Retry, frozen=True):
    """Nobody accepted a connection. That is held against the address, not against the URL."""


class Later(msgspec.Struct, frozen=True):
    """Not called, because a breaker is open or a rate is used up, for `wait_ms` milliseconds. It does not count."""

    wait_ms: int


class NotNow(Exception):
    """Raised where something may not be called before some time has passed; its result is Later."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"not for another {wait_ms} ms")
        self.wait_ms = wait_ms


class TargetForbidden(msgspec.Struct, frozen=True):
    """Not called, because the name leads to an address that callbacks do not go to."""

    reason: str


AttemptResult: TypeAlias = Delivered | ReceiverGone | Rejected | Retry | Later | TargetForbidden


def judge(status: int, headers: Iterable[tuple[bytes, bytes]], now: float) -> AttemptResult:
    """What an answer at `now` means, in seconds since 1970."""
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
    """Seconds that a Retry-After asks to wait at `now` (RFC 9110 §10.2.3); None if it cannot be read."""
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter for a year or a zone of many digits
        return None
    seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def delay(scheduled: float, asked: float | None) -> float:
    """Seconds until the next attempt, if the schedule says `scheduled` and the receiver asked for `asked`.

    It is between once and twice the schedule: a receiver can slow the node down, but neither hurry it nor stop it.
    """
    return min(max(scheduled, asked or 0.0), 2 * scheduled)
