"""What a client's operations cost: counted after they were done, and worked off with time."""

from typing import cast

import msgspec

from node.config import Limit
from node.store import Store, ids, keys
from node.store.limits import window
from node.store.scripts import script

SPEND = script("work_spend")


class Standing(msgspec.Struct, frozen=True):
    """How a client stands: what it may spend before it has to wait, and the seconds that it has to wait now."""

    left: int
    wait: float


class WorkStore:
    """Counts work by kind and client. A client may owe as much as a limit's count, and works it off in its seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def spend(self, kind: str, client: str, amount: int, limit: Limit) -> Standing:
        """Charge an amount, 0 to know how the client stands. Raises StoreUnavailable."""
        key = keys.work(ids.home_of(client), kind, client)
        left, wait = cast("list[int]", await self._store.run(SPEND, [key], [amount, *window(limit)]))
        return Standing(left, wait / 1000)
