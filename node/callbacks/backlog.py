"""How many callbacks are under way, and how many were given up."""

from asyncio import gather
from typing import cast

from node.store import Store, ids, keys


async def pending_count(store: Store) -> int:
    """How many are under way. Raises StoreUnavailable."""
    counts = gather(*(store.command("ZCARD", keys.callbacks_due(partition)) for partition in range(ids.PARTITIONS)))
    return sum(cast("list[int]", await counts))


async def dead_count(store: Store) -> int:
    """How many were given up and are kept. Raises StoreUnavailable."""
    counts = gather(*(store.command("XLEN", keys.callbacks_dead(partition)) for partition in range(ids.PARTITIONS)))
    return sum(cast("list[int]", await counts))
