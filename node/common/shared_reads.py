"""One read for all who want the same at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedReads(Generic[K, V]):
    """Reads by key, of which one at a time is under way for each key.

    Those who come while it is share the next one. So a caller gets what was read after it asked, as if it had read by
    itself, and however many ask, they cost as many reads as follow one another. Nothing is kept in between.
    """

    def __init__(self, read: Callable[[K], Awaitable[V]]) -> None:
        self._read = read
        self._waiting: dict[K, list[asyncio.Future[V]]] = {}
        """Who waits for the read that begins next, by key; a key is there as long as reads of it follow one another."""
        self._under_way: set[asyncio.Task[V]] = set()

    def get(self, key: K) -> "asyncio.Future[V]":
        """The result of a read that begins after this call, or its exception."""
        outcome: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [outcome]
            self._follow(key)
        else:
            waiting.append(outcome)
        return outcome

    def _follow(self, key: K) -> None:
        """Read for those who wait; those who come in this turn of the event loop are among them."""
        task = asyncio.get_running_loop().create_task(self._begin(key))
        self._under_way.add(task)
        task.add_done_callback(partial(self._settle, key, self._waiting[key]))

    async def _begin(self, key: K) -> V:
        self._waiting[key] = []
        return await self._read(key)

    def _settle(self, key: K, callers: "list[asyncio.Future[V]]", task: "asyncio.Task[V]") -> None:
        self._under_way.discard(task)
        if task.cancelled():  # the process ends
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
