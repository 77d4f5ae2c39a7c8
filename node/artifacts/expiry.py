"""What the worker does for artifacts by the clock: it ends those whose time is over and clears interrupted uploads.

Readers see an artifact as expired from that very moment on (`record.StoredArtifact.status`); this frees its room.
"""

import asyncio
import time

import structlog

from node.artifacts.blobs.interface import BlobStore, BlobUnavailable
from node.artifacts.service import Artifacts
from node.common.stopping import sleep_unless_stopped
from node.store import StoreUnavailable

log = structlog.get_logger()

SWEEP_SECONDS = 10.0
"""Seconds between sweeps for artifacts whose time is over."""

CLEAR_SECONDS = 600.0
"""Seconds between searches for what interrupted uploads left: each reads the whole directory of the embedded store."""


class ArtifactExpiry:
    """Sweeps both stores; any number of workers may do so at the same time."""

    def __init__(self, artifacts: Artifacts, blobs: BlobStore) -> None:
        self._artifacts = artifacts
        self._blobs = blobs

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep every SWEEP_SECONDS until `stop` is set."""
        cleared = -CLEAR_SECONDS
        while not stop.is_set():
            try:
                while await self._artifacts.sweep() and not stop.is_set():
                    pass
                if time.monotonic() - cleared >= CLEAR_SECONDS:
                    await self._blobs.sweep()
                    cleared = time.monotonic()
            except StoreUnavailable:
                pass  # the connection logs it
            except BlobUnavailable as unavailable:
                log.warning("blob store is out of reach", reason=str(unavailable))
            await sleep_unless_stopped(stop, SWEEP_SECONDS)
