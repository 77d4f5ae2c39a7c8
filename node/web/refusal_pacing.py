"""Delays refusals to a client that gets many of them, while several clients use the process (DESIGN 13.3)."""

import asyncio
from collections.abc import Callable
from time import monotonic

REFUSALS_AT_ONCE = 50
"""Burst: refusals to one client that are sent without delay while others use the process, if no limit counts them. A
site has SITE_SHARE times as many. Refusals cost little, but 250 connections that ask for what does not exist, or ignore
Retry-After, would otherwise get thousands a second."""

REFUSALS_A_SECOND = 50
"""Refusals a second beyond that burst. The others wait, without holding their client's turn."""

MAX_REFUSAL_DELAY_SECONDS = 1.0
"""Longest delay of a refusal."""

MAX_DELAYED_REFUSALS = 1024
"""Refusals that may wait in one process at a time. Further ones are sent without delay."""

MAX_REMEMBERED = 10_000
"""Clients and sites whose refusals are counted. When there are more, the counts of all are dropped."""


class RefusalPacing:
    """Paces the refusals of one process."""

    def __init__(self, is_shared: Callable[[], bool]) -> None:
        """`is_shared`: whether several clients are using the process now."""
        self._is_shared = is_shared
        self._due_at: dict[str, float] = {}
        """When the latest refusal to each client or site was or will be due (monotonic seconds)."""
        self._waiting = 0

    async def wait(self, name: str, share: int) -> None:
        """Delay a refusal if the client or site `name` gets many. `share`: how many clients the name counts as, 1 for a
        client."""
        if not self._is_shared() or self._waiting >= MAX_DELAYED_REFUSALS:
            return
        now = monotonic()
        if len(self._due_at) >= MAX_REMEMBERED and name not in self._due_at:
            self._due_at.clear()
        at_once = now - REFUSALS_AT_ONCE / REFUSALS_A_SECOND
        due = max(self._due_at.get(name, 0.0), at_once) + 1 / (REFUSALS_A_SECOND * share)
        self._due_at[name] = due = min(due, now + MAX_REFUSAL_DELAY_SECONDS)
        if due > now:
            self._waiting += 1
            try:
                await asyncio.sleep(due - now)
            finally:
                self._waiting -= 1
