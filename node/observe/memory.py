"""How full Redis is, and what a node refuses for it (README, "When memory runs short").

Each process looks by itself, with one INFO to each primary every other second; in a cluster the fullest
primary counts, since what is new may come to live there. Between the alarm and what ends it lies a gap, so
that a node on the edge does not change its mind all the time.
"""

import asyncio
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.config import Settings
from node.share.capacity import Capacity
from node.share.cost import Alarm, Kind, refused_from
from node.store import CommandFailed, Store, StoreUnavailable, ids, keys
from node.tasks.model import STATUSES

log = structlog.get_logger()

LOOK = 2.0
"""Seconds between looks at the memory."""

COUNT = 5
"""Looks from one count of the totals to the next."""

GAP = 0.05
"""Share of the memory by which it must be below the alarm before the alarm ends."""

STAGES = {Alarm.FIRST: 0.0, Alarm.SECOND: 0.5, Alarm.THIRD: 0.75}
"""Where each stage begins, on the way from the alarm (0) to the end of the memory (1)."""

LEAST_ALLOWANCE = 4 * 1024 * 1024
"""Bytes a day that one client may have kept however little is free: some bodies of the largest size."""

SESSIONS = "session"


class RedisMemory(msgspec.Struct, frozen=True):
    """One primary: bytes that count, and bytes it may have; a limit of 0 is none."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        """Of the limit, 0 if there is none."""
        return self.used / self.limit if self.limit else 0.0


class Totals(msgspec.Struct, frozen=True):
    """What the node holds, about."""

    session: int
    thread: int
    task: int


async def memory(store: Store, limit: int = 0) -> list[RedisMemory]:
    """Every primary. `limit` is for those that have no maxmemory. Raises StoreUnavailable, CommandFailed."""
    return [memory_of(cast("bytes", reply), limit) for reply in await store.everywhere("INFO", "memory")]


def memory_of(info: bytes, limit: int = 0) -> RedisMemory:
    """From what INFO says. What Redis itself leaves out of account, as buffers of its log, is left out."""
    lines = (line.partition(":") for line in info.decode().splitlines())
    facts = {name: value for name, _, value in lines}
    used = int(facts["used_memory"]) - int(facts.get("mem_not_counted_for_evict", 0))
    return RedisMemory(max(0, used), int(facts.get("maxmemory", 0)) or limit)  # some hosted servers do not tell it


async def totals(store: Store) -> Totals:
    """Count by the lists; of sessions, those that are not over by the clock. Raises StoreUnavailable."""
    now = cast("list[bytes]", await store.command("TIME"))[0].decode() + "000"
    threads = (keys.OPEN_THREADS, keys.CLOSED_THREADS, keys.HIDDEN_THREADS)
    tasks = tuple(map(keys.tasks_with, STATUSES))
    sessions = [("ZCOUNT", keys.places_of_all(each, SESSIONS), now, "+inf") for each in range(ids.PARTITIONS)]
    # One after the other: a process has few calls to spare under load.
    counts = [
        sum(cast("list[int]", await store.commands(asked)))
        for asked in (sessions, [("ZCARD", each) for each in threads], [("ZCARD", each) for each in tasks])
    ]
    return Totals(*counts)


class MemoryAlarm:
    """Keeps what a process refuses up to date. A `loud` one tells of changes in the log."""

    def __init__(self, store: Store, settings: Settings, capacity: Capacity, *, loud: bool = False) -> None:
        self._store = store
        self._limit = settings.redis_maxmemory
        self._alarm = settings.memory_alarm / 100
        self._client_bytes = settings.client_bytes
        self._client_share = settings.client_share / 100
        self._most = Totals(settings.max_sessions, settings.max_threads, settings.max_tasks)
        self._capacity = capacity
        self._loud = loud
        self._looks = 0
        self._full: dict[Kind, str] = {}

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Look now and then, until `stop` is set."""
        stop = stop or asyncio.Event()
        while not stop.is_set():
            with suppress(StoreUnavailable, CommandFailed):  # what was known last holds
                await self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK)

    async def look(self) -> None:
        """Find out what is refused from now on. Raises StoreUnavailable, CommandFailed."""
        primaries = await memory(self._store, self._limit)
        share = max(primary.share for primary in primaries)
        self._capacity.allowance = self._allowance(primaries)
        if self._looks % COUNT == 0:
            self._full = await self._over()
        self._looks += 1
        before = self._capacity.refused
        refused = dict(self._full)
        for stage, part in STAGES.items():
            alarm, kinds = self._alarm + (1 - self._alarm) * part, refused_from(stage)
            was = all(before.get(kind) == "memory.low" for kind in kinds)
            if self._alarm and share >= (alarm - GAP if was else alarm):
                refused |= dict.fromkeys(kinds, "memory.low")
        self._capacity.refused = refused
        if self._loud and refused != before:
            tell = log.warning if refused else log.info
            tell("capacity", memory_percent=round(share * 100, 1), refused=sorted(refused.items()))

    def _allowance(self, primaries: list[RedisMemory]) -> int:
        """Bytes that one client may have kept in 24 hours: a share of what is free below the alarm, so that no client
        fills the node alone, however long it goes on, and who comes late finds room.
        """
        free = [primary.limit * (self._alarm or 1) - primary.used for primary in primaries if primary.limit]
        if not self._client_bytes or not self._client_share or not free:
            return self._client_bytes
        return min(self._client_bytes, max(LEAST_ALLOWANCE, round(min(free) * self._client_share)))

    async def _over(self) -> dict[Kind, str]:
        """Kinds of which the node holds as many as it may."""
        if not any((self._most.session, self._most.thread, self._most.task)):
            return {}
        found = await totals(self._store)
        counted: tuple[tuple[Kind, int, int], ...] = (
            ("session", found.session, self._most.session),
            ("thread", found.thread, self._most.thread),
            ("task", found.task, self._most.task),
        )
        return {kind: "node.full" for kind, count, most in counted if most and count >= most}
