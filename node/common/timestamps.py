"""The format of times in answers: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache

LAST_MS = 253_402_300_799_999
"""The last millisecond that RFC 3339 can write, at the end of the year 9999."""


def timestamp(ms: int) -> str:
    """Format milliseconds since 1970 as `2026-11-21T08:00:00.123Z`.

    Times after LAST_MS are written as LAST_MS, since an error would break every list that shows the time.
    """
    seconds, rest = divmod(min(ms, LAST_MS), 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def optional_timestamp(ms: int | None) -> str | None:
    """Format a time with `timestamp`; None for an event that has not happened."""
    return None if ms is None else timestamp(ms)


def milliseconds(text: str) -> int:
    """Parse a text from `timestamp` into milliseconds since 1970. Raises ValueError."""
    seconds, rest = text.removesuffix("Z").split(".")
    return int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 1000 + int(rest)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    # Cached: thousands of acknowledgements share a second, and lists show the same rows again and again.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
