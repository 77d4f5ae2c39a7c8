"""What each client cost the node, day by day, for the operator: bytes kept, and requests that were refused.

Each day has a sorted set in each partition of clients. A set holds at most MAX_CLIENTS, so that a flood of addresses
cannot fill it; those with the least are dropped.
"""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from node.store import ids, keys
from node.store.decoding import scores_of
from node.store.store import Store

Asked = Literal["bytes", "refused"]

MAX_CLIENTS = 1000
"""Clients in the set of a day and partition."""

DAY_SECONDS = 86_400


class ActivityStore:
    """Adds up and ranks. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, days: float) -> None:
        self._store = store
        self._days = days

    async def add(self, what: Asked, counts: Mapping[str, int]) -> None:
        """Add `counts`, by client, to the sums of today."""
        day = int(time.time()) // DAY_SECONDS
        life = round((self._days + 1) * DAY_SECONDS)
        commands: list[tuple[str | int, ...]] = []
        for client, count in counts.items():
            commands.append(("ZINCRBY", keys.activity(ids.home_of(client), what, day), count, client))
        for key in {command[1] for command in commands}:
            commands += [("ZREMRANGEBYRANK", key, 0, -MAX_CLIENTS - 1), ("EXPIRE", key, life)]
        await self._store.run_all(commands)

    async def top(self, what: Asked, days: int) -> Counter[str]:
        """The sums of clients over the last `days`, today included."""
        today = int(time.time()) // DAY_SECONDS
        asked = [
            keys.activity(partition, what, today - back) for partition in range(ids.PARTITIONS) for back in range(days)
        ]
        replies = await self._store.run_all([("ZRANGE", key, 0, -1, "WITHSCORES") for key in asked])
        sums: Counter[str] = Counter()
        for reply in replies:
            for client, count in scores_of(reply):
                sums[client] += int(count)
        return sums
