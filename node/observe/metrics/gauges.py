"""What is in Redis and not in a process, read when somebody asks: lags, queues, counts, memory.

Every instance of a node shows the same figures; whoever adds instances up takes the largest.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable
from typing import cast

from node.callbacks.backlog import dead_count, pending_count
from node.observe.consumer_lag import lags
from node.observe.memory import redis_memory
from node.observe.metrics.snapshots import Reading
from node.observe.totals import threads_by_status
from node.store import Store, ids, keys


async def readings_of(
    store: Store,
    search_queues: Callable[[], Awaitable[tuple[int, int]]],
    artifact_bytes: Callable[[], Awaitable[int]],
) -> list[Reading]:
    """All of them, each asked for once. Raises StoreUnavailable, CommandFailed.

    `search_queues` gives how much is pending and in the backlog, `artifact_bytes` what artifacts hold or reserve.
    """
    artifacts_in = [("ZCARD", keys.artifacts(partition)) for partition in range(ids.PARTITIONS)]
    groups, threads, artifacts, primaries, sizes = await gather(
        lags(store),
        threads_by_status(store),
        store.commands(artifacts_in),
        redis_memory(store),
        store.everywhere("DBSIZE"),
    )
    (pending, backlog), by_meaning, queued, dead, held_bytes = await gather(
        search_queues(),
        store.command("EXISTS", keys.search_alive("vectors")),
        pending_count(store),
        dead_count(store),
        artifact_bytes(),
    )
    readings = [
        Reading("relay_store_up", (), 1),
        Reading("relay_search_queue", ("pending",), pending),
        Reading("relay_search_queue", ("backlog",), backlog),
        Reading("relay_search_by_meaning", (), cast("int", by_meaning)),
        Reading("relay_callbacks_queued", (), queued),
        Reading("relay_callbacks_dead", (), dead),
        Reading("relay_artifacts", (), sum(cast("list[int]", artifacts))),
        Reading("relay_artifact_bytes", (), held_bytes),
        *(Reading("relay_threads", (status,), count) for status, count in threads.items()),
    ]
    for lag in groups:
        readings += [
            Reading("relay_events_waiting", (lag.group,), lag.waiting),
            Reading("relay_events_unacknowledged", (lag.group,), lag.unacknowledged),
            Reading("relay_events_oldest_seconds", (lag.group,), lag.oldest_seconds),
        ]
    for number, (memory, size) in enumerate(zip(primaries, sizes, strict=False)):
        readings += [
            Reading("relay_redis_keys", (str(number),), cast("int", size)),
            Reading("relay_redis_memory_bytes", (str(number),), memory.allocated),
            Reading("relay_redis_memory_limit_bytes", (str(number),), memory.limit),
        ]
    return readings
