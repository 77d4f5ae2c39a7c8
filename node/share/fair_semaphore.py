"""A semaphore that gives its few places to many keys in turn (fair queueing).

A key stands for a party that must not delay others: a client, a publisher, a receiving domain. A key with a hundred
waiting requests delays only its own requests; the single request of another key comes next. The places are those of one
process.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class QueueFull(Exception):
    """The key has as many waiting requests as one key may have."""


class FairSemaphore:
    """A semaphore of `places`. One key has at most `each` of them, and at most `waiting` requests that wait.

    Waiting keys are served round robin, and the requests of one key in order of arrival. Every operation takes O(1),
    however many keys wait.
    """

    def __init__(self, places: int, *, each: int = 1, waiting: int = 1000) -> None:
        self._free = places
        self._each = each
        self._most_waiting = waiting
        self._taken: dict[str, int] = {}  # not a Counter: its `del` is written in Python, and every request passes here
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting requests by key. No queue is empty."""
        self._next: OrderedDict[str, None] = OrderedDict()
        """Waiting keys that may have another place. The first one is served next."""

    @asynccontextmanager
    async def of(self, key: str) -> AsyncGenerator[None]:
        """Hold a place for the key while the block runs. Raises QueueFull."""
        await self.enter(key)
        try:
            yield
        finally:
            self.leave(key)

    def waiting(self, key: str) -> int:
        """Return how many requests of the key wait for a place."""
        return len(self._queues.get(key, ()))

    def enter_now(self, key: str) -> bool:
        """Take a place for the key, until `leave`, if it need not wait for one. Return whether it was taken."""
        # This overtakes no waiting request: a key waits only if no place is free, or if it has all the places that it
        # may have.
        if self._free and self._taken.get(key, 0) < self._each:
            self.take(key)
            return True
        return False

    async def enter(self, key: str) -> None:
        """Wait for a place for the key and take it, until `leave`. Raises QueueFull."""
        if self.enter_now(key):
            return
        if self.waiting(key) >= self._most_waiting:
            raise QueueFull(key)
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(turn)
        if self._taken.get(key, 0) < self._each:
            self._next.setdefault(key)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the place was given to it at the same moment
                self.leave(key)
            else:
                self._forget(key, turn)
            raise

    def take(self, key: str) -> None:
        """Take a place for the key, until `leave`, even beyond the key's share or the number of places."""
        self._free -= 1
        self._taken[key] = self._taken.get(key, 0) + 1

    def leave(self, key: str) -> None:
        """Give back a place of the key."""
        self._free += 1
        left = self._taken.pop(key) - 1
        if left:
            self._taken[key] = left
        if key in self._queues and left < self._each:  # with `take`, a key can have more than `each`
            self._next.setdefault(key)
        while self._free and self._next:
            following, _ = self._next.popitem(last=False)
            turn = self._first(following)
            if turn is None:
                continue
            self.take(following)
            if following in self._queues and self._taken[following] < self._each:
                self._next[following] = None  # after all other keys
            turn.set_result(None)

    def _first(self, key: str) -> asyncio.Future[None] | None:
        """Remove and return the first request of the key that still waits; None if all were cancelled just now."""
        queue = self._queues[key]
        turn = queue.popleft()
        while queue and turn.cancelled():
            turn = queue.popleft()
        if not queue:
            del self._queues[key]
        return None if turn.cancelled() else turn

    def _forget(self, key: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(key)
        if queue is None or turn not in queue:
            return  # `_first` has removed it already
        queue.remove(turn)
        if not queue:
            del self._queues[key]
            self._next.pop(key, None)
