"""What each client cost the node on each day, for the operator: bytes kept, and requests refused.

There is one sorted set per day and partition of clients. It holds at most MAX_CLIENTS, so that a flood of addresses
cannot grow it without bound; the clients with the lowest sums are dropped.
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
"""Most clients in the set of one day and partition."""

DAY_SECONDS = 86_400


class ActivityStore:
    """Adds up and ranks the costs of clients. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, days: float) -> None:
        self._store = store
        self._days = days

    async def add(self, what: Asked, counts: Mapping[str, int]) -> None:
        """Add `counts`, by client, to today's sums."""
        day = int(time.time()) // DAY_SECONDS
        life = round((self._days + 1) * DAY_SECONDS)
        commands: list[tuple[str | int, ...]] = []
        for client, count in counts.items():
            commands.append(("ZINCRBY", keys.activity(ids.home_of(client), what, day), count, client))
        for key in {command[1] for command in commands}:
            commands += [("ZREMRANGEBYRANK", key, 0, -MAX_CLIENTS - 1), ("EXPIRE", key, life)]
        await self._store.run_all(commands)

    async def top(self, what: Asked, days: int) -> Counter[str]:
        """Return the sum of each client over the last `days`, today included."""
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
