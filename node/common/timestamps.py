"""Times as in answers: RFC 3339, UTC, with milliseconds."""

from datetime import UTC, datetime
from functools import lru_cache


def timestamp(ms: int) -> str:
    """`2026-11-21T08:00:00.123Z` for milliseconds since 1970."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def milliseconds(text: str) -> int:
    """The milliseconds since 1970 that `timestamp` has written. Raises ValueError."""
    seconds, rest = text.removesuffix("Z").split(".")
    return int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 1000 + int(rest)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    # Cached: thousands of acknowledgements have the same second, and lists have the same rows again and again.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
