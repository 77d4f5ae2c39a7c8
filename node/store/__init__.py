"""Redis, for all rooms. `connect` makes the `Store` that they call, with its `WakeUps`. Nothing here knows HTTP.

To begin with: `wire.py` is what a room calls, `steps.py` how a Lua script becomes a Python function, `keys.py` every
key that there is, and `outbox.py` how events reach the workers.
"""

from collections.abc import Iterable

from node.store.address import locate
from node.store.cluster import ClusterStore
from node.store.errors import CommandFailed, OutcomeUnknown, StoreUnavailable
from node.store.link import RedisReply, Stats
from node.store.scripts import Arg, Script
from node.store.wakeups import Listener, WakeUps
from node.store.wire import SingleStore, Store

__all__ = [
    "Arg",
    "CommandFailed",
    "Listener",
    "OutcomeUnknown",
    "RedisReply",
    "Script",
    "Stats",
    "Store",
    "StoreUnavailable",
    "WakeUps",
    "connect",
]


async def connect(
    url: str, *, timeout: float, max_in_flight: int, scripts: Iterable[Script] = (), required: bool = False
) -> Store:
    """Open the store at `url` (`node.store.address.locate` lists the forms; ValueError says what is wrong with it).

    `timeout`, in seconds, bounds every call, `max_in_flight` their number. If Redis cannot be reached the
    store is made all the same and connects as soon as it can, unless `required`: then StoreUnavailable.
    `scripts` are loaded if Redis is there, so that one that does not compile is found now (CommandFailed).
    """
    location = locate(url)
    kind = ClusterStore if location.cluster else SingleStore
    store = kind(location, timeout=timeout, max_in_flight=max_in_flight)
    try:
        await _prepare(store, scripts)
    except CommandFailed:
        await store.close()
        raise
    except StoreUnavailable:
        if required:
            await store.close()
            raise
    return store


async def _prepare(store: Store, scripts: Iterable[Script]) -> None:
    if not await store.ready():
        raise StoreUnavailable("Redis could not be reached")
    for script in scripts:
        for source in script.sources().values():
            await store.everywhere("SCRIPT", "LOAD", source)
