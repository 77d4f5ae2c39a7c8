"""Says in the log that the blob store is out of reach.

Everything that needs it fails meanwhile: requests, verifications, sweeps. That is said once, and again while it lasts.
"""

import time

import structlog

from node.artifacts.blobs.interface import BlobUnavailable

log = structlog.get_logger()

SILENCE_SECONDS = 60.0
"""Least time between two such lines of a process."""


class Outage:
    """What one process has logged."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def report(self, unavailable: BlobUnavailable) -> None:
        """Log the reason, unless one was logged a moment ago."""
        now = time.monotonic()
        if now - self._said_at >= SILENCE_SECONDS:
            self._said_at = now
            log.warning("blob store is out of reach", reason=str(unavailable))


OUTAGE = Outage()
"""That of this process."""
