"""Redis, for all features. `connect` makes the `Store` that they call, with its `WakeUps`. Nothing here knows HTTP.

To begin with: `store.py` is what a feature calls, `steps.py` how a Lua script becomes a Python function, `keys.py`
every key that there is, and `outbox.py` how events reach the workers.
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
    """Open the store at `url` (`node.store.address.locate` lists the forms; ValueError says what is wrong with it).

    `timeout`, in seconds, bounds every call, `max_in_flight` their number. If Redis cannot be reached the
    store is made all the same and connects as soon as it can, unless `required`: then StoreUnavailable.
    """
    location = locate(url)
    kind = ClusterStore if location.cluster else SingleStore
    store = kind(location, timeout=timeout, max_in_flight=max_in_flight)
    if not await store.ready() and required:
        await store.close()
        raise StoreUnavailable("Redis could not be reached")
    return store
