"""The requests of this process that wait for a change: how many may, and how they are released when it stops."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

MAX_WAITING = 8192
"""Requests that may wait in a process at the same time, by default (RELAY_MAX_WAITING)."""


class Wakeable(Protocol):
    """Somebody who waits and can be woken."""

    def hear(self, message: bytes) -> None:
        """Stop waiting."""
        ...


class Waiters:
    """All who wait for a change on behalf of a client. One for each `WakeUps`."""

    def __init__(self) -> None:
        self.most = MAX_WAITING
        """How many may wait at the same time."""
        self.released = False
        """Whether nobody is to wait any more."""
        self._waiters: set[Wakeable] = set()

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def may_wait(self) -> bool:
        return not self.released and len(self._waiters) < self.most

    @contextmanager
    def place(self, waiter: Wakeable) -> Generator[bool]:
        """Count a waiter while the block runs. Yields False, and does not count it, if no more may wait."""
        if not self.may_wait:
            yield False
            return
        self._waiters.add(waiter)
        try:
            yield True
        finally:
            self._waiters.discard(waiter)

    def release(self) -> None:
        """End all waits, so that their requests are answered with what there is, and allow no more."""
        self.released = True
        for waiter in self._waiters:
            waiter.hear(b"")
