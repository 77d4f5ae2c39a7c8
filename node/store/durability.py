"""What acknowledged writes survive on this Redis, judged by the settings of its servers (DESIGN 10).

RELAY_DURABILITY says what the node promises. Whether Redis keeps that promise depends on how its operator has
configured it. So the node reads the settings of Redis and reports its finding: in the log, in `check` and in /health.
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
"""The settings of Redis that determine durability."""

READ_SECONDS = 60.0
"""Time between two reads: the settings of a running server can change, and so can the servers of a cluster."""

Kept = Literal["none", "unknown", "everysec", "always", "replicated"]
"""Levels of durability, from the weakest to the strongest.

none: a restart of Redis may lose acknowledged writes. unknown: the server does not show its settings. everysec: a power
failure may lose the last seconds. always: a power failure loses nothing. replicated: as always, and writes are refused
while no replica follows.
"""


def kept(settings: Mapping[str, str]) -> Kept:
    """Return the durability of one primary, given its settings; `unknown` if some are missing, as with some hosted
    servers."""
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
    """Return the durability of several primaries together: that of the weakest."""
    return min(each, key=get_args(Kept).index)


def suffices(found: Kept, promised: Kept) -> bool:
    """Return whether the durability found is at least the one promised."""
    order = get_args(Kept)
    return order.index(found) >= order.index(promised)


async def read(store: Store) -> Kept:
    """Return the durability of all primaries; `unknown` if one hides its settings. Raises StoreUnavailable."""
    try:
        replies = await store.everywhere("CONFIG", "GET", *SETTINGS)
    except CommandFailed:
        return "unknown"
    return weakest(kept(texts_of(reply)) for reply in replies)


async def watch(store: Store, promised: Kept, stop: asyncio.Event) -> None:
    """Log the durability of Redis, and log it again whenever it changes, until `stop` is set."""
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
