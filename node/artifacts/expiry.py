"""What the worker does for artifacts by the clock: ends those whose time is over, clears interrupted uploads.

States are judged by the clock wherever they are met; this frees the room that nobody uses any more.
"""

import asyncio
import time
from contextlib import suppress

import structlog

from node.artifacts.blobs.interface import BlobStore, BlobUnavailable
from node.artifacts.service import Artifacts
from node.store import StoreUnavailable

log = structlog.get_logger()

LOOK = 10.0
"""Seconds between looks for artifacts whose time is over."""

CLEAR = 600.0
"""Seconds between looks for what interrupted uploads left: it walks the whole directory of the embedded store."""


class ArtifactExpiry:
    """Sweeps both stores; any number of workers may."""

    def __init__(self, artifacts: Artifacts, blobs: BlobStore) -> None:
        self._artifacts = artifacts
        self._blobs = blobs

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep now and then until `stop` is set."""
        cleared = -CLEAR
        while not stop.is_set():
            try:
                while await self._artifacts.sweep() and not stop.is_set():
                    pass
                if time.monotonic() - cleared >= CLEAR:
                    await self._blobs.sweep()
                    cleared = time.monotonic()
            except StoreUnavailable:
                pass  # the wire tells of it
            except BlobUnavailable as unavailable:
                log.warning("blob store is out of reach", reason=str(unavailable))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK)
