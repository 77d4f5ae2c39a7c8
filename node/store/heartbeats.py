"""Which workers live: each says so once a second, and hears which others have fallen silent.

What a dead worker held is then taken over within seconds, while a living one, however long it works on
something, keeps what it has.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import cast

import structlog

from node.store import keys
from node.store.errors import StoreUnavailable
from node.store.scripts import script
from node.store.wire import Store

log = structlog.get_logger()

BEAT = script("worker_beat")

EVERY = 1.0
"""Seconds between beats."""

SILENT_MS = 5000
"""A worker not heard of for so long, or five beats, is dead. Were it not, its events would be handled twice."""

GONE_MS = 120_000
"""So long the dead are told of: by then the events they held have been taken over for their age alone."""


def new_name() -> str:
    """A name for this worker that none had before: what is pending under it is then its own."""
    return f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"


class Heartbeat:
    """The beat of this worker, and its eye on the others."""

    def __init__(self, store: Store, name: str, heirs: Sequence[Callable[[str], None]]) -> None:
        """`heirs` are called with the name of each worker that has died, once."""
        self._store = store
        self._name = name
        self._heirs = heirs
        self._silent: set[str] = set()
        self._told: set[str] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Beat until `stop` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable):
                await self.beat()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), EVERY)

    async def beat(self) -> None:
        """Say that this worker lives; tell of those that are dead. Raises StoreUnavailable."""
        reply = await self._store.run(BEAT, [keys.WORKERS], [self._name, SILENT_MS, GONE_MS])
        silent = {name.decode() for name in cast("list[bytes]", reply)}
        # Silent twice in a row: after a pause of Redis itself the first to beat finds all others silent.
        for name in (silent & self._silent) - self._told:
            log.warning("worker died", worker=name)
            for heir in self._heirs:
                heir(name)
        self._told = silent & (self._told | self._silent)
        self._silent = silent
