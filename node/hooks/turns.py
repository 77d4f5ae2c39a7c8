"""Turns for those who give up waiting at any moment: on a deadline, or because the process ends.

A future that waits is cancelled at once, and its task learns of it later. A place that becomes free in between is not
for that one.
"""

import asyncio
from collections import deque

from node.share import turns


class Turns(turns.Turns):
    """`node.share.turns.Turns`, which hands no place to whoever has just given up."""

    def _leave(self, key: str) -> None:
        self._pass_over(key)
        while self._next and not self._pass_over(next(iter(self._next))):
            pass
        super()._leave(key)

    def _forget(self, key: str, turn: asyncio.Future[None]) -> None:
        if turn in self._queues.get(key, ()):
            super()._forget(key, turn)

    def _pass_over(self, key: str) -> bool:
        """Take those who have given up off the key's queue; whether anybody is left."""
        queue = self._queues.get(key)
        if queue is None:
            return False
        waiting = deque(turn for turn in queue if not turn.cancelled())
        if waiting:
            self._queues[key] = waiting
        else:
            del self._queues[key]
            self._next.pop(key, None)
        return bool(waiting)
