"""How many callbacks are under way, and how many were given up: for metrics and the operator."""

from typing import cast

from node.store import Store, ids, keys


async def pending_count(store: Store) -> int:
    """How many are under way. Raises StoreUnavailable."""
    counts = await store.commands(("ZCARD", keys.callbacks_due(partition)) for partition in range(ids.PARTITIONS))
    return sum(cast("list[int]", counts))


async def dead_count(store: Store) -> int:
    """How many were given up and are kept. Raises StoreUnavailable."""
    counts = await store.commands(("XLEN", keys.callbacks_dead(partition)) for partition in range(ids.PARTITIONS))
    return sum(cast("list[int]", counts))
