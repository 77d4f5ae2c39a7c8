"""What is in Redis and not in a process, read when somebody asks: lags, queues, counts, memory.

Every instance of a node shows the same figures; whoever adds instances up takes the largest.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Iterable
from typing import cast

from node.callbacks.backlog import dead_count, pending_count
from node.observe.consumer_lag import lags
from node.observe.memory import redis_memory
from node.observe.metrics.snapshots import Reading
from node.observe.totals import threads_by_status
from node.store import Store, ids, keys


class Gauges:
    """Asks Redis for the figures of the whole node.

    `search_queues` gives how much is pending and in the backlog, `artifact_bytes` what artifacts hold or reserve.
    """

    def __init__(
        self,
        store: Store,
        search_queues: Callable[[], Awaitable[tuple[int, int]]],
        artifact_bytes: Callable[[], Awaitable[int]],
    ) -> None:
        self._store = store
        self._search_queues = search_queues
        self._artifact_bytes = artifact_bytes

    async def read(self) -> list[Reading]:
        """All of them, each asked for once. Raises StoreUnavailable, CommandFailed."""
        groups = await gather(self._events(), self._search(), self._callbacks(), self._entities(), self._memory())
        return [Reading("relay_store_up", (), 1), *(reading for group in groups for reading in group)]

    async def _events(self) -> Iterable[Reading]:
        for_each_group = await lags(self._store)
        return [
            reading
            for lag in for_each_group
            for reading in (
                Reading("relay_events_waiting", (lag.group,), lag.waiting),
                Reading("relay_events_unacknowledged", (lag.group,), lag.unacknowledged),
                Reading("relay_events_oldest_seconds", (lag.group,), lag.oldest_seconds),
            )
        ]

    async def _search(self) -> Iterable[Reading]:
        pending, backlog = await self._search_queues()
        by_meaning = await self._store.command("EXISTS", keys.search_alive("vectors"))
        return (
            Reading("relay_search_queue", ("pending",), pending),
            Reading("relay_search_queue", ("backlog",), backlog),
            Reading("relay_search_by_meaning", (), cast("int", by_meaning)),
        )

    async def _callbacks(self) -> Iterable[Reading]:
        pending, dead = await gather(pending_count(self._store), dead_count(self._store))
        return Reading("relay_callbacks_queued", (), pending), Reading("relay_callbacks_dead", (), dead)

    async def _entities(self) -> Iterable[Reading]:
        threads = await threads_by_status(self._store)
        artifacts = await self._store.commands([("ZCARD", keys.artifacts(each)) for each in range(ids.PARTITIONS)])
        return (
            *(Reading("relay_threads", (status,), count) for status, count in threads.items()),
            Reading("relay_artifacts", (), sum(cast("list[int]", artifacts))),
            Reading("relay_artifact_bytes", (), await self._artifact_bytes()),
        )

    async def _memory(self) -> Iterable[Reading]:
        memory = await redis_memory(self._store)
        sizes = cast("list[int]", await self._store.everywhere("DBSIZE"))
        return [
            reading
            for number, (primary, size) in enumerate(zip(memory, sizes, strict=False))
            for reading in (
                Reading("relay_redis_keys", (str(number),), size),
                Reading("relay_redis_memory_bytes", (str(number),), primary.allocated),
                Reading("relay_redis_memory_limit_bytes", (str(number),), primary.limit),
            )
        ]
