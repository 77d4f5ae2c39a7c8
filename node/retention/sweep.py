"""What grows and nobody needs any more is made smaller or removed, by the worker (README, "What is kept").

One mechanism for all of it: a rule goes through a list by time, from the oldest, and handles what is old
enough; the room knows how. It takes a part of the worker's time at most, so a long backlog delays nothing
else. Any number of workers may do it: each step changes what is still as it was seen, or nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.store import Store, StoreUnavailable
from node.store.cursor import TimeCursor

log = structlog.get_logger()

DAY_MS = 86_400_000

TICK = 2.0
"""Seconds between looks."""

SHARE = 0.5
"""Seconds of work in one look, about: a fifth of the worker's time when there is much to do."""

BATCH = 100
"""Members handled together."""

ANEW = 86_400.0
"""Seconds after which a walk begins again, for what was not old enough when it was passed."""

Handler = Callable[[Sequence[str], int], Awaitable[int]]
"""Handles members at a time (ms, by Redis' clock); how many it changed. Raises StoreUnavailable."""


class Rule(msgspec.Struct, frozen=True):
    """What happens to the members of a list when they are old."""

    name: str
    listed: str
    days: float
    """The least age at which a member is handled."""
    handle: Handler


class Trim(msgspec.Struct, frozen=True):
    """A stream whose entries have an end."""

    stream: str
    days: float


class Retention:
    """All rules of a node."""

    def __init__(self, store: Store, rules: Sequence[Rule], trims: Sequence[Trim]) -> None:
        self._store = store
        self._walks = [(rule, TimeCursor(store, rule.listed)) for rule in rules if rule.days]
        self._trims = [trim for trim in trims if trim.days]
        self._begun = time.monotonic()
        self._trimmed = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        """Look now and then until `stop` is set."""
        while not stop.is_set():
            with suppress(StoreUnavailable):  # the wire tells of it
                await self.look(SHARE)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK)

    async def look(self, seconds: float) -> int:
        """Handle what is old enough, for about that long; how much was changed. Raises StoreUnavailable."""
        began = time.monotonic()
        if began - self._begun >= ANEW:
            self._begun = began
            for _, walk in self._walks:
                walk.begin_anew()
        now = await self._now()
        if began - self._trimmed >= ANEW / 24:
            for trim in self._trims:
                await self._store.command("XTRIM", trim.stream, "MINID", now - round(trim.days * DAY_MS))
            self._trimmed = began
        changed, left = 0, list(self._walks)
        while left and time.monotonic() - began < seconds:
            # In turn, so that a long list does not hold up the others.
            rule, walk = left.pop(0)
            if members := await walk.next(now - round(rule.days * DAY_MS), BATCH):
                done = await self._handled(rule, walk, members, now)
                changed += done
                left.append((rule, walk))
                if done:
                    log.debug("retention", rule=rule.name, changed=done)
        return changed

    async def _handled(self, rule: Rule, walk: TimeCursor, members: Sequence[str], now: int) -> int:
        try:
            return await rule.handle(members, now)
        except StoreUnavailable:
            walk.begin_anew()  # what was passed is not done
            raise

    async def _now(self) -> int:
        seconds, micros = cast("list[bytes]", await self._store.command("TIME"))
        return int(seconds) * 1000 + int(micros) // 1000
