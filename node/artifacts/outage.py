"""Logs that the blob store is out of reach.

Everything that needs the blob store fails meanwhile: requests, verifications, sweeps. The outage is logged once, and
again from time to time while it lasts.
"""

import time

import structlog

from node.artifacts.blobs.interface import BlobUnavailable

log = structlog.get_logger()

SILENCE_SECONDS = 60.0
"""Minimum time between two such log lines of one process."""


class Outage:
    """Limits how often one process logs an outage."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def report(self, unavailable: BlobUnavailable) -> None:
        """Log the reason, unless one was logged within the last SILENCE_SECONDS."""
        now = time.monotonic()
        if now - self._said_at >= SILENCE_SECONDS:
            self._said_at = now
            log.warning("blob store is out of reach", reason=str(unavailable))


OUTAGE = Outage()
"""The Outage of this process."""
