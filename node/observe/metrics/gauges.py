"""Figures that are in Redis rather than in a process, read at each scrape: lags, queues, counts, memory.

Every instance of a node shows the same figures, so they must not be summed over instances: take the maximum.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import cast

import structlog

from node import VERSION
from node.callbacks.queue import dead_count, overdue_ms, pending_count
from node.config import Settings
from node.observe.consumer_lag import lags
from node.observe.disk import disks, reserve_of
from node.observe.memory import redis_memory
from node.observe.metrics.snapshots import Reading
from node.observe.totals import limits_of, reports_waiting, threads_by_status, totals
from node.store import CommandFailed, Store, StoreUnavailable, keys
from node.store.clock import now_ms, skew
from node.store.durability import read, suffices
from node.tasks.model import STATUSES

log = structlog.get_logger()

Figures = Callable[[], Awaitable[Sequence[Reading]]]
"""Reads figures that belong together. Raises StoreUnavailable, CommandFailed."""


def disk_figures(settings: Settings) -> list[Reading]:
    """Return figures of this machine's disks, even while Redis is away: a full disk may be why. Raises OSError."""
    return [
        reading
        for disk in disks(settings)
        for reading in (
            Reading("relay_disk_free_bytes", (disk.use,), disk.free),
            Reading("relay_disk_bytes", (disk.use,), disk.size),
            Reading("relay_disk_reserve_bytes", (disk.use,), reserve_of(settings, disk)[0]),
        )
    ]


class Gauges:
    """Reads all figures. Those whose command Redis refuses for lack of a permission are left out, and logged once."""

    def __init__(
        self, settings: Settings, store: Store, features: Sequence[Figures] = (), searched: Store | None = None
    ) -> None:
        """`features` read figures that only the features' stores know. `searched`: the Redis of the index if it is
        another one.
        """
        self._settings = settings
        self._store = store
        self._features = features
        self._searched = searched
        self._refused: set[str] = set()

    async def read(self) -> list[Reading]:
        """Return all readings. Raises StoreUnavailable."""
        groups = (
            self._lags,
            self._threads_and_tasks,
            self._kept,
            self._memory,
            self._callbacks,
            self._durability,
            self._clock,
            self._backup,
            *([partial(self._search_redis, self._searched)] if self._searched else []),
            *self._features,
        )
        found = await gather(*(self._allowed(group) for group in groups))
        return [Reading("relay_store_up", (), 1), *(reading for readings in found for reading in readings)]

    async def _allowed(self, group: Figures) -> Sequence[Reading]:
        try:
            return await group()
        except CommandFailed as failed:
            if str(failed) not in self._refused:
                self._refused.add(str(failed))
                log.warning("figures missing: redis refuses a command", reason=str(failed))
            return ()

    async def _lags(self) -> list[Reading]:
        return [
            reading
            for lag in await lags(self._store)
            for reading in (
                Reading("relay_events_waiting", (lag.group,), lag.waiting),
                Reading("relay_events_unacknowledged", (lag.group,), lag.unacknowledged),
                Reading("relay_events_oldest_seconds", (lag.group,), lag.oldest_seconds),
            )
        ]

    async def _threads_and_tasks(self) -> list[Reading]:
        threads = await threads_by_status(self._store)
        tasks = await self._store.run_all([("ZCARD", keys.tasks_with(status)) for status in STATUSES])
        return [
            *(Reading("relay_threads", (status,), count) for status, count in threads.items()),
            *(
                Reading("relay_tasks", (status,), count)
                for status, count in zip(STATUSES, cast("list[int]", tasks), strict=True)
            ),
        ]

    async def _kept(self) -> list[Reading]:
        counts, waiting = await gather(totals(self._store), reports_waiting(self._store))
        return [
            Reading("relay_reports_waiting", (), waiting),
            *(Reading("relay_kept", (kind,), count) for kind, count in counts.items()),
            *(Reading("relay_kept_limit", (kind,), limit) for kind, limit in limits_of(self._settings).items()),
        ]

    async def _memory(self) -> list[Reading]:
        primaries, sizes = await gather(
            redis_memory(self._store, self._settings.redis_maxmemory), self._store.everywhere("DBSIZE")
        )
        return [
            reading
            for number, (memory, size) in enumerate(zip(primaries, sizes, strict=False))
            for reading in (
                Reading("relay_redis_keys", (str(number),), cast("int", size)),
                Reading("relay_redis_memory_bytes", (str(number),), memory.allocated),
                Reading("relay_redis_memory_limit_bytes", (str(number),), memory.limit),
            )
        ]

    async def _callbacks(self) -> list[Reading]:
        store = self._store
        queued, overdue, dead = await gather(pending_count(store), overdue_ms(store), dead_count(store))
        return [
            Reading("relay_callbacks_queued", (), queued),
            Reading("relay_callbacks_overdue_seconds", (), overdue / 1000),
            Reading("relay_callbacks_dead", (), dead),
        ]

    async def _durability(self) -> list[Reading]:
        kept, settings = await read(self._store), self._settings
        about = Reading("relay_build_info", (VERSION, settings.node_id, kept), 1)
        if kept == "unknown":  # whether it suffices is then unknown, too
            return [about]
        return [about, Reading("relay_durability_kept", (), suffices(kept, settings.durability))]

    async def _clock(self) -> list[Reading]:
        return [Reading("relay_clock_skew_seconds", (), abs(await skew(self._store)))]

    async def _backup(self) -> list[Reading]:
        began = cast("bytes | None", await self._store.command("GET", keys.LAST_BACKUP))
        if began is None:
            return []
        return [Reading("relay_backup_age_seconds", (), max(0, await now_ms(self._store) - int(began)) / 1000)]

    async def _search_redis(self, searched: Store) -> list[Reading]:
        try:
            memory = max(await redis_memory(searched), key=lambda each: each.share)
        except StoreUnavailable:
            return [Reading("relay_search_store_up", (), 0)]
        return [
            Reading("relay_search_store_up", (), 1),
            Reading("relay_search_memory_bytes", (), memory.allocated),
            Reading("relay_search_memory_limit_bytes", (), memory.limit),
        ]
