"""Redis, for all features. `connect` returns the `Store` that features call, with its `WakeUps`. No HTTP here.

Start with `store.py`, which features call, `steps.py`, which turns a Lua script into a Python function, `keys.py`,
which defines every key, and `outbox.py`, which delivers events to the workers.
"""

from node.store.address import locate
from node.store.cluster import ClusterStore
from node.store.errors import CommandFailed, OutcomeUnknown, StoreUnavailable
from node.store.link import RedisReply, Stats
from node.store.scripts import Arg, Script
from node.store.single import SingleStore
from node.store.store import Store
from node.store.wakeups import Listener, WakeUps

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


async def connect(url: str, *, timeout: float, max_in_flight: int, required: bool = False) -> Store:
    """Open the store at `url` (`node.store.address.locate` lists the forms).

    `timeout`: longest duration of a call, in seconds. `max_in_flight`: most calls under way at a time. If Redis cannot
    be reached, the store is returned all the same and connects as soon as it can.

    Raises ValueError if the URL is invalid, StoreUnavailable if the store is `required` and Redis cannot be reached.
    """
    location = locate(url)
    kind = ClusterStore if location.cluster else SingleStore
    store = kind(location, timeout=timeout, max_in_flight=max_in_flight)
    if not await store.ready() and required:
        await store.close()
        raise StoreUnavailable("Redis could not be reached")
    return store
