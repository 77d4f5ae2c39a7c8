"""Instants as the node shows them: RFC 3339, UTC, milliseconds, from Redis' clock."""

from datetime import UTC, datetime
from functools import lru_cache


def timestamp(ms: int) -> str:
    """`2026-11-21T08:00:00.123Z` for milliseconds since 1970."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    # Acknowledgements share their second with thousands of others, the rows of a list with those of the last list.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
