"""Compresses or removes entities that are old enough, in the worker (docs/operations.md, "What is kept").

All kinds are handled alike: a rule walks through a list sorted by time, oldest members first, and the feature handles
the members that are old enough. This takes a bounded share of the worker's time, so that many old members delay
nothing else. Any number of workers may do it: a step changes nothing if another worker was faster.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.common.stopping import sleep_unless_stopped
from node.store import Store, StoreUnavailable
from node.store.clock import now_ms
from node.store.cursor import TimeCursor
from node.store.keys import tag
from node.store.limits import DAY_MS

log = structlog.get_logger()

LOOK_SECONDS = 2.0
"""Pause between two sweeps over the lists."""

WORK_SECONDS = 0.5
"""Approximate time budget of one sweep: a fifth of the worker's time when there is much to do."""

BATCH_SIZE = 100
"""Most members handled together."""

RESTART_SECONDS = 86_400.0
"""Time after which a list that was read to its end is read from the beginning again, since members may have been passed
before they were old enough. It is shorter for a rule with a shorter age: a worker that is minutes behind adds members
that are already due to a part of the list that was read before."""

MIN_RESTART_SECONDS = 60.0
"""Least time between two reads of a whole list, however short the age of its rule: many members may stay in the list.
"""

TRIM_SECONDS = 3600.0
"""Time between two trims."""

TRIMMED_AT_ONCE = 1000
"""Members of a sorted set that one command removes, which takes a millisecond. Removing all at once, such as the half a
million replies that a site can post in an hour, would block Redis for 0.1 s."""

Handler = Callable[[Sequence[str], int], Awaitable[int]]
"""Handles members whose time is the second argument (ms by the clock of Redis) or earlier. Returns how many it changed.
Raises StoreUnavailable."""


class RetentionRule(msgspec.Struct, frozen=True):
    """What is done to the members of a list when they are old enough."""

    name: str
    listed: str
    days: float
    """The least age at which a member is handled."""
    handle: Handler


class Trim(msgspec.Struct, frozen=True):
    """A stream, or a set sorted by time, from which old entries are removed."""

    key: str
    days: float
    sorted_set: bool = False


class _Walk:
    """The position of one rule in its list."""

    def __init__(self, store: Store, rule: RetentionRule) -> None:
        self.rule = rule
        self._cursor = TimeCursor(store, rule.listed)
        self._began = time.monotonic()
        self._lasts = min(RESTART_SECONDS, max(MIN_RESTART_SECONDS, rule.days * DAY_MS / 1000))

    async def next(self, before: int) -> Sequence[str]:
        """Return the next members whose time is `before` (ms) or earlier. If there are none and a restart is due, the
        next call begins at the oldest member again. Raises StoreUnavailable.
        """
        members = await self._cursor.next(before, BATCH_SIZE)
        if not members and time.monotonic() - self._began >= self._lasts:
            self.restart()
        return members

    def restart(self) -> None:
        """Go back to the oldest member."""
        self._began = time.monotonic()
        self._cursor.restart()


class Retention:
    """All rules of a node."""

    def __init__(self, store: Store, rules: Sequence[RetentionRule], trims: Sequence[Trim]) -> None:
        self._store = store
        self._walks = [_Walk(store, rule) for rule in rules]
        self._trims = trims
        self._trimmed = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep every LOOK_SECONDS until `stop` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable):  # `node.store` logs it
                await self.look(WORK_SECONDS)
            await sleep_unless_stopped(stop, LOOK_SECONDS)

    async def look(self, seconds: float) -> int:
        """Handle members that are old enough, for about `seconds`. Returns how many members changed.

        A rule whose list or next members are out of reach is skipped; the other rules go on. Raises StoreUnavailable if
        the clock of Redis cannot be read.
        """
        began = time.monotonic()
        now = await now_ms(self._store, tag(self._store.serving_partition() or 0))
        if began - self._trimmed >= TRIM_SECONDS:
            await self._trim(now)
            self._trimmed = began
        changed, left = 0, deque(self._walks)
        while left and time.monotonic() - began < seconds:
            # Round robin, so that a long list does not hold up the others.
            walk = left.popleft()
            self._walks.remove(walk)
            self._walks.append(walk)  # the next sweep begins with the walks that had no turn in this one
            try:
                before = now - round(walk.rule.days * DAY_MS)
                members = await walk.next(before)
                handled = await self._handle(walk, members, before)
            except StoreUnavailable:
                continue
            if members:
                changed += handled
                left.append(walk)
                if handled:
                    log.debug("retention", rule=walk.rule.name, changed=handled)
        return changed

    async def _trim(self, now: int) -> None:
        for trim in self._trims:
            oldest = max(0, now - round(trim.days * DAY_MS))  # Redis accepts no stream id before 1970
            with suppress(StoreUnavailable):  # `node.store` logs it
                if trim.sorted_set:
                    await self._trim_set(trim.key, oldest)
                else:
                    await self._store.command("XTRIM", trim.key, "MINID", oldest)

    async def _trim_set(self, key: str, oldest: int) -> None:
        old = ("ZRANGE", key, "-inf", f"({oldest}", "BYSCORE", "LIMIT", 0, TRIMMED_AT_ONCE)
        while members := cast("list[bytes]", await self._store.command(*old)):
            await self._store.command("ZREM", key, *members)

    async def _handle(self, walk: _Walk, members: Sequence[str], before: int) -> int:
        """Handle members together, and if that fails, one by one, so that a failing member does not hold up others. It
        is retried when the list is read from the beginning again."""
        if not members:
            return 0
        try:
            return await walk.rule.handle(members, before)
        except StoreUnavailable:
            walk.restart()  # the members just passed have not been handled
            raise
        except Exception:
            if len(members) == 1:
                log.exception("retention failed", rule=walk.rule.name, member=members[0])
                return 0
        return sum([await self._handle(walk, [member], before) for member in members])
