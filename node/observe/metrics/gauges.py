"""What is in Redis and not in a process, read when somebody asks: lags, queues, counts, memory.

Every instance of a node shows the same figures; whoever adds instances up takes the largest.
"""

from asyncio import gather
from collections.abc import Iterable, Sequence
from typing import cast

from node.artifacts.store import ArtifactStore
from node.callbacks.backlog import dead_count, pending_count
from node.observe.consumer_lag import lags
from node.observe.metrics.snapshots import Reading
from node.store import Store, ids, keys

LISTS = {"open": keys.OPEN_THREADS, "closed": keys.CLOSED_THREADS, "hidden": keys.HIDDEN_THREADS}


async def readings_of(store: Store) -> list[Reading]:
    """All of them, each asked for once. Raises StoreUnavailable, CommandFailed."""
    parts = await gather(_events(store), _search(store), _callbacks(store), _held(store), _memory(store))
    return [Reading("relay_store_up", (), 1), *(reading for part in parts for reading in part)]


async def _events(store: Store) -> Iterable[Reading]:
    found: list[Reading] = []
    for lag in await lags(store):
        found += [
            Reading("relay_events_waiting", (lag.group,), lag.waiting),
            Reading("relay_events_unacknowledged", (lag.group,), lag.unacknowledged),
            Reading("relay_events_oldest_seconds", (lag.group,), lag.oldest_seconds),
        ]
    return found


async def _search(store: Store) -> Iterable[Reading]:
    found = await store.commands(
        [("ZCARD", keys.SEARCH_PENDING), ("ZCARD", keys.SEARCH_BACKLOG), ("EXISTS", keys.search_alive("vectors"))]
    )
    pending, backlog, meaning = cast("list[int]", found)
    return [
        Reading("relay_search_queue", ("pending",), pending),
        Reading("relay_search_queue", ("backlog",), backlog),
        Reading("relay_search_by_meaning", (), meaning),
    ]


async def _callbacks(store: Store) -> Iterable[Reading]:
    pending, dead = await gather(pending_count(store), dead_count(store))
    return [Reading("relay_callbacks_queued", (), pending), Reading("relay_callbacks_dead", (), dead)]


async def _held(store: Store) -> Iterable[Reading]:
    threads = await gather(*(store.command("ZCARD", listed) for listed in LISTS.values()))
    partitions = range(ids.PARTITIONS)
    artifacts = await gather(*(store.command("ZCARD", keys.artifacts(each)) for each in partitions))
    held = await ArtifactStore(store, 0, 0).total()
    return [
        *(Reading("relay_threads", (state,), cast("int", count)) for state, count in zip(LISTS, threads, strict=True)),
        Reading("relay_artifacts", (), sum(cast("list[int]", artifacts))),
        Reading("relay_artifact_bytes", (), held),
    ]


async def _memory(store: Store) -> Iterable[Reading]:
    infos = cast("Sequence[bytes]", await store.everywhere("INFO", "memory"))
    sizes = cast("Sequence[int]", await store.everywhere("DBSIZE"))
    found: list[Reading] = []
    for number, (info, size) in enumerate(zip(infos, sizes, strict=False)):
        facts = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
        primary = (str(number),)
        found += [
            Reading("relay_redis_keys", primary, size),
            Reading("relay_redis_memory_bytes", primary, int(facts["used_memory"])),
            Reading("relay_redis_memory_limit_bytes", primary, int(facts["maxmemory"])),
        ]
    return found
