"""How full Redis is, and what a node refuses because of that (docs/operations.md, "When memory runs short").

Each process looks for itself, with one INFO to each primary every other second. In a cluster the fullest primary
counts, since new data may be stored there. An alarm ends somewhat below the level at which it begins, so that a node
near that level does not alternate between refusing and accepting.
"""

import asyncio
from collections.abc import Iterator, Set
from pathlib import Path
from typing import cast

import msgspec
import structlog

from node.common.stopping import sleep_unless_stopped
from node.config import Settings
from node.observe.disk import redis_directory, space
from node.observe.totals import limits_of, totals
from node.share.capacity import Capacity
from node.share.cost import Alarm, Kind, refused_from
from node.store import CommandFailed, Store, StoreUnavailable
from node.store.decoding import facts_of

log = structlog.get_logger()

LOOK_SECONDS = 2.0
"""Interval between two looks at the memory, in seconds."""

LOOKS_PER_COUNT = 5
"""Number of looks at the memory for each count of the totals."""

HYSTERESIS = 0.05
"""How far a value must be back from its threshold before an alarm ends: a share of the memory, or of the disk
reserve."""

STAGES = {Alarm.FIRST: 0.0, Alarm.SECOND: 0.5, Alarm.THIRD: 0.75}
"""Where each stage begins, as a share of the way from RELAY_MEMORY_ALARM (0) to full memory (1), or from
RELAY_DISK_RESERVE to a full disk."""

MIN_CLIENT_BYTES = 4 * 1024 * 1024
"""Minimum that the node keeps for one client in a day, in bytes, however little is free: a few of the largest
bodies."""


class RedisMemory(msgspec.Struct, frozen=True):
    """The memory of one primary, in bytes."""

    allocated: int
    """All memory that Redis uses."""
    used: int
    """The part that counts against the limit: without Redis's own buffers, such as those of its log."""
    limit: int
    """0 = no limit."""

    @property
    def share(self) -> float:
        """The part of the limit that is used; 0 if there is no limit."""
        return self.used / self.limit if self.limit else 0.0


async def redis_memory(store: Store, limit: int = 0) -> list[RedisMemory]:
    """Return the memory of every primary; `limit` as in `memory_of`. Raises StoreUnavailable, CommandFailed."""
    return [memory_of(cast("bytes", info), limit) for info in await store.everywhere("INFO", "memory")]


def memory_of(info: bytes, limit: int = 0) -> RedisMemory:
    """Return the memory in a reply to INFO. `limit` applies if the server has no maxmemory, or does not report it."""
    facts = facts_of(info)
    allocated = int(facts["used_memory"])
    used = max(0, allocated - int(facts.get("mem_not_counted_for_evict", 0)))
    return RedisMemory(allocated, used, int(facts.get("maxmemory", 0)) or limit)


class MemoryAlarm:
    """Keeps up to date what a process refuses. If `logs`, changes are logged."""

    def __init__(self, store: Store, settings: Settings, capacity: Capacity, *, logs: bool = False) -> None:
        self._store = store
        self._alarm = settings.memory_alarm / 100
        self._client_share = settings.client_share / 100
        self._max = limits_of(settings)
        self._settings = settings
        self._disk = redis_directory(settings)
        self._is_log_gone = False
        self._capacity = capacity
        self._logs = logs
        self._has_warned = False
        self._looks = 0
        self._share = 0.0
        self._full: dict[Kind, str] = {}
        self._begun: Set[tuple[str, Alarm]] = frozenset()
        """The stages of shortages that have begun, each with the code of its refusals."""

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Look every LOOK_SECONDS until cancelled or `stop` is set."""
        stop = stop or asyncio.Event()
        while not stop.is_set():
            try:
                await self.look()
                self._has_warned = False
            except StoreUnavailable:  # until Redis answers again, the last decision about memory holds
                pass
            except CommandFailed as failed:
                if self._logs and not self._has_warned:
                    self._has_warned = True
                    log.warning("memory is not watched: redis refuses to tell it", reason=str(failed))
            await sleep_unless_stopped(stop, LOOK_SECONDS)

    async def look(self) -> None:
        """Decide what is refused from now on. Raises StoreUnavailable, CommandFailed.

        The disk is looked at even if this raises: while the disk is full, an embedded Redis exits at each write.
        """
        try:
            await self._look_at_redis()
        finally:
            self._decide()

    async def _look_at_redis(self) -> None:
        primaries = await redis_memory(self._store, self._settings.redis_maxmemory)
        self._share = max(primary.share for primary in primaries)
        self._capacity.allowance = self._allowance(primaries)
        if self._looks % LOOKS_PER_COUNT == 0:
            await self._count()
        self._looks += 1

    def _decide(self) -> None:
        before = self._capacity.refused
        begun = [*self._short_of_memory(), *self._short_of_disk()]
        refused = dict(self._full)
        for code, stage in begun:
            refused |= dict.fromkeys(refused_from(stage), code)
        self._begun = frozenset(begun)
        self._capacity.refused, self._capacity.short = refused, frozenset(code for code, _ in begun)
        if self._logs and refused != before:
            write = log.warning if refused else log.info
            write("capacity", memory_percent=round(self._share * 100, 1), refused=sorted(refused.items()))

    def _short_of_memory(self) -> Iterator[tuple[str, Alarm]]:
        """Yield the stages that have begun, with their codes. A stage ends somewhat below the level at
        which it begins.
        """
        for stage, part in STAGES.items():
            alarm, begun = self._alarm + (1 - self._alarm) * part, ("memory.low", stage)
            if self._alarm and self._share >= (alarm - HYSTERESIS if begun in self._begun else alarm):
                yield begun

    def _short_of_disk(self) -> Iterator[tuple[str, Alarm]]:
        """Yield the stages that have begun, with their codes. A stage ends somewhat above the level at
        which it begins.
        """
        reserve = self._settings.disk_reserve
        if self._disk is None or not reserve:
            return
        free = self._room_of(self._disk)
        for stage, part in STAGES.items():
            needed, begun = reserve * (1 - part), ("disk.low", stage)
            if free < needed * (1 + HYSTERESIS if begun in self._begun else 1):
                yield begun

    def _room_of(self, disk: Path) -> int:
        """Return the bytes that the embedded Redis may still write; 0 if its log is gone, as all writes are
        lost then.
        """
        is_gone = redis_directory(self._settings) is None
        if self._logs and is_gone and not self._is_log_gone:
            log.error("the log of redis is gone: what it acknowledges does not outlive it", directory=str(disk))
        self._is_log_gone = is_gone
        return 0 if is_gone else space("redis", disk).free

    def _allowance(self, primaries: list[RedisMemory]) -> int:
        """Return the bytes that the node keeps for one client in 24 hours: a share of what is free below the alarm.

        So no single client can fill the node, however long it goes on.
        """
        free = [primary.limit * (self._alarm or 1) - primary.used for primary in primaries if primary.limit]
        most = self._settings.client_bytes
        if not most or not self._client_share or not free:
            return most
        return min(most, max(MIN_CLIENT_BYTES, round(min(free) * self._client_share)))

    async def _count(self) -> None:
        """Count what the node holds of each kind that has a limit."""
        found = await totals(self._store) if any(self._max.values()) else {}
        taken: dict[Kind, float] = {kind: found[kind] / limit for kind, limit in self._max.items() if limit}
        self._full = {kind: "node.full" for kind, part in taken.items() if part >= 1}
        self._capacity.taken = taken
