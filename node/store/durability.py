"""What an acknowledgement survives on this Redis, from the settings of its servers (DESIGN 10).

A node promises what RELAY_DURABILITY says. Whether the Redis keeps that is the operator's doing, so the
node looks, and says what it found: in the log, in `check` and in the capabilities of /health.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal, get_args

import structlog

from node.store.decoding import fields_of
from node.store.errors import CommandFailed, StoreUnavailable
from node.store.wire import Store

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
"""Names of the settings that decide."""

LOOK_AGAIN = 60.0
"""Seconds between looks: settings change while a server runs, and so do the servers of a cluster."""

Kept = Literal["none", "unknown", "everysec", "always", "replicated"]
"""From the weakest: a restart may lose acknowledged writes; the server does not tell; a power loss costs at most the
last seconds; none; none, and no write is taken while no replica follows."""


def kept(setting: Mapping[str, str]) -> Kept:
    """What one primary keeps."""
    logged = setting["appendonly"] == "yes" and setting["no-appendfsync-on-rewrite"] == "no"
    evicts = setting["maxmemory-policy"] != "noeviction" and setting["maxmemory"] != "0"
    if not logged or evicts or setting["appendfsync"] not in ("always", "everysec"):
        return "none"
    if setting["appendfsync"] == "everysec":
        return "everysec"
    followed = int(setting["min-replicas-to-write"]) > 0 and int(setting["min-replicas-max-lag"]) > 0
    return "replicated" if followed else "always"


def weakest(each: Iterable[Kept]) -> Kept:
    """What all of them keep."""
    return min(each, key=get_args(Kept).index)


def suffices(found: Kept, promised: Kept) -> bool:
    """Whether what was found is what RELAY_DURABILITY promises, or more."""
    order = get_args(Kept)
    return order.index(found) >= order.index(promised)


async def read(store: Store) -> Kept:
    """What all primaries keep; `unknown` if one refuses to tell. Raises StoreUnavailable."""
    try:
        replies = await store.everywhere("CONFIG", "GET", *SETTINGS)
    except CommandFailed:
        return "unknown"
    return weakest(
        kept({name.decode(): value.decode() for name, value in fields_of(reply).items()}) for reply in replies
    )


async def watch(store: Store, promised: Kept, stop: asyncio.Event) -> None:
    """Say in the log what the Redis keeps, and again when that changes, until `stop` is set."""
    said: Kept | None = None
    while not stop.is_set():
        pause = 1.0
        with suppress(StoreUnavailable):
            found = await read(store)
            pause = LOOK_AGAIN
            if found != said:
                said = found
                _say(found, promised)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


def _say(found: Kept, promised: Kept) -> None:
    if suffices(found, promised):
        log.info("durability", kept=found, promised=promised)
    else:
        log.warning("durability is less than promised", kept=found, promised=promised)
