"""What the worker does for artifacts by the clock: it ends those whose time is over and clears interrupted uploads.

Readers see an artifact as expired from that very moment on (`record.StoredArtifact.status`); this frees its room.
"""

import asyncio
import time

from node.artifacts.blobs.interface import BlobStore, BlobUnavailable
from node.artifacts.outage import OUTAGE
from node.artifacts.service import Artifacts
from node.store import StoreUnavailable

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
        """Sweep every SWEEP_SECONDS until `stop` is set; does not wait for a blob store that hangs."""
        async with asyncio.TaskGroup() as work:
            sweeping = work.create_task(self._sweep())
            await stop.wait()
            sweeping.cancel()  # what is half ended is ended by the next sweep

    async def _sweep(self) -> None:
        cleared = -CLEAR_SECONDS
        while True:
            try:
                while await self._artifacts.sweep():
                    pass
                if time.monotonic() - cleared >= CLEAR_SECONDS:
                    await self._blobs.sweep()
                    cleared = time.monotonic()
            except StoreUnavailable:
                pass  # the connection logs it
            except BlobUnavailable as unavailable:
                OUTAGE.report(unavailable)
            await asyncio.sleep(SWEEP_SECONDS)
