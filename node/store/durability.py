"""What an acknowledged write survives on this Redis, judged by the settings of its servers (DESIGN 10).

RELAY_DURABILITY says what the node promises. Whether the Redis keeps that promise depends on how its operator has set
it up, so the node reads the settings and says what it found: in the log, in `check` and in /health.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal, get_args

import structlog

from node.common.stopping import sleep_unless_stopped
from node.store.decoding import texts_of
from node.store.errors import CommandFailed, StoreUnavailable
from node.store.store import Store

log = structlog.get_logger()

SETTINGS = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "maxmemory",
    "maxmemory-policy",
)
"""The settings of Redis that decide what is kept."""

READ_SECONDS = 60.0
"""Time between two reads: the settings of a running server can change, and so can the servers of a cluster."""

Kept = Literal["none", "unknown", "everysec", "always", "replicated"]
"""What is kept, from the weakest to the strongest.

none: a restart of Redis may lose acknowledged writes. unknown: the server does not show its settings. everysec: a power
loss may cost the last seconds. always: a power loss costs nothing. replicated: likewise, and no write is accepted while
no replica follows.
"""


def kept(settings: Mapping[str, str]) -> Kept:
    """What one primary keeps, by its settings; `unknown` if they are not all there, as with some hosted servers."""
    if not settings.keys() >= set(SETTINGS):
        return "unknown"
    logged = settings["appendonly"] == "yes" and settings["no-appendfsync-on-rewrite"] == "no"
    evicts = settings["maxmemory-policy"] != "noeviction" and settings["maxmemory"] != "0"
    if not logged or evicts or settings["appendfsync"] not in ("always", "everysec"):
        return "none"
    if settings["appendfsync"] == "everysec":
        return "everysec"
    followed = int(settings["min-replicas-to-write"]) > 0 and int(settings["min-replicas-max-lag"]) > 0
    return "replicated" if followed else "always"


def weakest(each: Iterable[Kept]) -> Kept:
    """What several primaries together keep: as much as the weakest of them."""
    return min(each, key=get_args(Kept).index)


def suffices(found: Kept, promised: Kept) -> bool:
    """Whether what was found is at least what is promised."""
    order = get_args(Kept)
    return order.index(found) >= order.index(promised)


async def read(store: Store) -> Kept:
    """What all primaries keep; `unknown` if one does not tell its settings. Raises StoreUnavailable."""
    try:
        replies = await store.everywhere("CONFIG", "GET", *SETTINGS)
    except CommandFailed:
        return "unknown"
    return weakest(kept(texts_of(reply)) for reply in replies)


async def watch(store: Store, promised: Kept, stop: asyncio.Event) -> None:
    """Log what the Redis keeps, and again whenever that changes, until `stop` is set."""
    logged: Kept | None = None
    while not stop.is_set():
        seconds = 1.0
        with suppress(StoreUnavailable):
            found = await read(store)
            seconds = READ_SECONDS
            if found != logged:
                logged = found
                _log(found, promised)
        await sleep_unless_stopped(stop, seconds)


def _log(found: Kept, promised: Kept) -> None:
    if suffices(found, promised):
        log.info("durability", kept=found, promised=promised)
    else:
        log.warning("durability is less than promised", kept=found, promised=promised)
