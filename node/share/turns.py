"""Fair queueing: a few places, shared by many keys, are given to the keys in turn.

A key is whoever must not hold up the others: a client, a publisher, a receiving domain. One that asks a hundred times
waits for itself; another that asks once is next. Nothing here is shared between processes: what is shared out is
this process' own time and connections.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Crowded(Exception):
    """The key has as many waiting already as one key may have."""


class Turns:
    """`places` at a time, at most `each` of them for one key; `waiting` of one key may wait beyond that.

    Waiting keys are served round robin, the requests of one key in the order in which they came. Every step is
    O(1), however many keys wait.
    """

    def __init__(self, places: int, *, each: int = 1, waiting: int = 1000) -> None:
        self._free = places
        self._each = each
        self._most_waiting = waiting
        self._taken: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._next: OrderedDict[str, None] = OrderedDict()
        """Keys that wait and may have another place, the one whose turn it is first."""

    @asynccontextmanager
    async def of(self, key: str) -> AsyncGenerator[None]:
        """Hold a place for the key while the block runs. Raises Crowded."""
        await self._enter(key)
        try:
            yield
        finally:
            self._leave(key)

    def waiting(self, key: str) -> int:
        """How many of the key wait for a place."""
        return len(self._queues.get(key, ()))

    async def _enter(self, key: str) -> None:
        # Whoever waits has a key that is at its bound, or finds no place: neither is passed by here.
        if self._free and self._taken[key] < self._each and key not in self._queues:
            self._take(key)
            return
        queue = self._queues.setdefault(key, deque())
        if len(queue) >= self._most_waiting:
            raise Crowded(key)
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        if self._taken[key] < self._each:
            self._next.setdefault(key)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place was given at the same moment
                self._leave(key)
            else:
                self._forget(key, turn)
            raise

    def _take(self, key: str) -> None:
        self._free -= 1
        self._taken[key] += 1

    def _leave(self, key: str) -> None:
        self._free += 1
        self._taken[key] -= 1
        if not self._taken[key]:
            del self._taken[key]
        if key in self._queues:
            self._next.setdefault(key)
        while self._free and self._next:
            following, _ = self._next.popitem(last=False)
            turn = self._first(following)
            if turn is None:
                continue
            self._take(following)
            if following in self._queues and self._taken[following] < self._each:
                self._next[following] = None  # behind all others
            turn.set_result(None)

    def _first(self, key: str) -> asyncio.Future[None] | None:
        """Take the first of the key's queue that still waits: of one that gave up the task may not know it yet."""
        queue = self._queues[key]
        turn = None
        while queue and (turn is None or turn.cancelled()):
            turn = queue.popleft()
        if not queue:
            del self._queues[key]
        return None if turn is None or turn.cancelled() else turn

    def _forget(self, key: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(key)
        if queue is None or turn not in queue:
            return  # passed over already
        queue.remove(turn)
        if not queue:
            del self._queues[key]
            self._next.pop(key, None)
