"""What the requests of one turn of the event loop want done, done together."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class PerTurn(Generic[T]):
    """Collects items, and acts on all of a turn of the event loop at the beginning of the next one.

    So it is done before this process reads another request, but not before its caller goes on.
    """

    def __init__(self, act: Callable[[Sequence[T]], None]) -> None:
        """`act` must not raise: nobody would hear of it."""
        self._act = act
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """Act on this item soon; items keep their order."""
        if not self._items:
            asyncio.get_running_loop().call_soon(self._turn)
        self._items.append(item)

    def _turn(self) -> None:
        items, self._items = self._items, []
        self._act(items)
