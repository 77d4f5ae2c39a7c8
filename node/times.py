"""Instants as the node shows them: RFC 3339, UTC, milliseconds, from Redis' clock."""

from datetime import UTC, datetime


def timestamp(ms: int) -> str:
    """`2026-11-21T08:00:00.123Z` for milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
