"""Client of a relay node: `Relay`, or `AsyncRelay` for asyncio."""

from relay_client.client import AsyncRelay, Relay
from relay_client.errors import (
    Conflict,
    DeadlineExceeded,
    DigestMismatch,
    InvalidAnswer,
    InvalidRequest,
    Limited,
    NotAllowed,
    NotFound,
    Refused,
    RelayError,
    Unavailable,
    Unreachable,
    UsageError,
)
from relay_client.version import __version__

__all__ = [
    "AsyncRelay",
    "Conflict",
    "DeadlineExceeded",
    "DigestMismatch",
    "InvalidAnswer",
    "InvalidRequest",
    "Limited",
    "NotAllowed",
    "NotFound",
    "Refused",
    "Relay",
    "RelayError",
    "Unavailable",
    "Unreachable",
    "UsageError",
    "__version__",
]
