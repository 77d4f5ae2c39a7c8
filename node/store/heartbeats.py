"""Liveness of workers: each writes a heartbeat to Redis once a second, and learns whose heartbeats have stopped.

The age of a pending event does not tell whether its worker died or is still busy with it. With heartbeats, the events
of a dead worker are taken over within seconds, and a living worker keeps its events however long it works on them.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import cast

import structlog

from node.common.stopping import sleep_unless_stopped
from node.store import keys
from node.store.clock import now_ms
from node.store.decoding import names_of
from node.store.errors import StoreUnavailable
from node.store.steps import Key, step
from node.store.store import Store

log = structlog.get_logger()

BEAT_SECONDS = 1.0
"""Time between two heartbeats of a worker."""

SILENT_MS = 5000
"""Silence after which a worker counts as dead: five missing heartbeats. With a shorter time, the events of a worker
that is merely slow would be handled twice."""

FORGET_MS = 120_000
"""How long a dead worker stays listed. By then its events have been taken over because of their age
(`outbox.STALE_MS`)."""


@step
def worker_beat(*, workers: Key, name: str, silent: int, forget: int) -> None:
    """Record a heartbeat. The reply has the names of the workers that have fallen silent."""


def new_name() -> str:
    """Return a name that no worker has had before, so that no events are pending under it."""
    return f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"


async def living(store: Store) -> int:
    """Return the number of workers that have sent a heartbeat within SILENT_MS. Raises StoreUnavailable."""
    now = await now_ms(store, keys.WORKERS)
    # A heartbeat from the future was sent before the clock was set back, perhaps by a worker that has died since.
    return cast("int", await store.command("ZCOUNT", keys.WORKERS, now - SILENT_MS, now + SILENT_MS))


class Heartbeat:
    """Sends the heartbeats of this worker, and notices the death of others."""

    def __init__(self, store: Store, name: str, on_death: Sequence[Callable[[str], None]]) -> None:
        """`on_death`: functions that are called once for each worker that has died, with its name."""
        self._store = store
        self._name = name
        self._on_death = on_death
        self._silent: set[str] = set()
        """Workers that were silent at the last heartbeat."""
        self._dead: set[str] = set()
        """The workers in `_silent` whose death was reported."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send heartbeats until `stop` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable):
                await self.beat()
            await sleep_unless_stopped(stop, BEAT_SECONDS)

    async def leave(self) -> None:
        """Remove this worker from the list: it stops on purpose, and must not be reported as dead.

        Events that it could not finish are taken over because of their age (`outbox.STALE_MS`).
        """
        with suppress(StoreUnavailable):
            await self._store.command("ZREM", keys.WORKERS, self._name)

    async def beat(self) -> None:
        """Send one heartbeat, and report workers that have died. Raises StoreUnavailable."""
        beat = worker_beat(workers=keys.WORKERS, name=self._name, silent=SILENT_MS, forget=FORGET_MS)
        silent = set(names_of(await self._store.run(beat)))
        # A worker counts as dead only if it is silent at two heartbeats in a row: after a pause of Redis itself, the
        # first worker to send a heartbeat finds all others silent.
        for name in (silent & self._silent) - self._dead:
            log.warning("worker died", worker=name)
            for call in self._on_death:
                call(name)
        self._dead = silent & (self._dead | self._silent)
        self._silent = silent
