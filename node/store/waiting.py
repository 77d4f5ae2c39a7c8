"""The requests of this process that wait for a change: the limit on their number, and their release at shutdown."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

MAX_WAITING = 8192
"""Most requests that may wait in a process at the same time, by default (RELAY_MAX_WAITING)."""


class Wakeable(Protocol):
    """A waiter that can be woken."""

    def hear(self, message: bytes) -> None:
        """Stop waiting."""
        ...


class Waiters:
    """All waiters for changes on behalf of clients. One for each `WakeUps`."""

    def __init__(self) -> None:
        self.most = MAX_WAITING
        """Most waiters at the same time."""
        self.released = False
        """Whether waiting is over: present waits end, and no new ones begin."""
        self._waiters: set[Wakeable] = set()

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def may_wait(self) -> bool:
        return not self.released and len(self._waiters) < self.most

    @contextmanager
    def place(self, waiter: Wakeable) -> Generator[bool]:
        """Count a waiter while the block runs. If no more may wait, yield False and do not count it."""
        if not self.may_wait:
            yield False
            return
        self._waiters.add(waiter)
        try:
            yield True
        finally:
            self._waiters.discard(waiter)

    def release(self) -> None:
        """End all waits, so that the requests are answered with the present state, and allow no new ones."""
        self.released = True
        for waiter in self._waiters:
            waiter.hear(b"")
