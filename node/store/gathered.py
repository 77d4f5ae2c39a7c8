"""What the requests of one turn of the event loop have to tell Redis, told together."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from node.store.store import Store

T = TypeVar("T")


class Gathered(Generic[T]):
    """Collects items, and sends all of a turn of the event loop together, ahead of what is asked after the first."""

    def __init__(self, store: Store, send: Callable[[Sequence[T]], None]) -> None:
        """`send` sends them `ahead` (`Store.send`), and must not raise: nobody would hear of it."""
        self._store = store
        self._send = send
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """Send this item soon; items keep their order."""
        self._items.append(item)
        if len(self._items) == 1:
            self._store.before_sending(self._send_all)

    def _send_all(self) -> None:
        items, self._items = self._items, []
        self._send(items)
