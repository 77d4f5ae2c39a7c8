"""Shares one read among all callers that want the same value at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedReads(Generic[K, V]):
    """Shares reads of the same key.

    At most one read of a key runs at a time. Callers that arrive meanwhile share the next read, so each caller gets a
    value that was read after its call. No value is cached for later callers.
    """

    def __init__(self, read: Callable[[K], Awaitable[V]]) -> None:
        self._read = read
        self._waiting: dict[K, list[asyncio.Future[V]]] = {}
        """Callers that wait for the next read, by key. A key is present as long as a read of it runs."""
        self._under_way: set[asyncio.Task[V]] = set()

    def get(self, key: K) -> "asyncio.Future[V]":
        """Return the future result, or exception, of a read that begins after this call."""
        outcome: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [outcome]
            self._follow(key)
        else:
            waiting.append(outcome)
        return outcome

    def _follow(self, key: K) -> None:
        """Read for the callers that wait, including those that arrive later in this turn of the event loop."""
        task = asyncio.get_running_loop().create_task(self._begin(key))
        self._under_way.add(task)
        task.add_done_callback(partial(self._settle, key, self._waiting[key]))

    async def _begin(self, key: K) -> V:
        self._waiting[key] = []
        return await self._read(key)

    def _settle(self, key: K, callers: "list[asyncio.Future[V]]", task: "asyncio.Task[V]") -> None:
        self._under_way.discard(task)
        if task.cancelled():  # the process is ending
            for outcome in [*callers, *self._waiting.pop(key)]:
                outcome.cancel()
            return
        failure = task.exception()
        for outcome in callers:
            if outcome.done():  # its caller is gone
                continue
            if failure is None:
                outcome.set_result(task.result())
            else:
                outcome.set_exception(failure)
        if self._waiting[key]:
            self._follow(key)
        else:
            del self._waiting[key]
