"""What the requests of one turn of the event loop have to tell Redis, told together."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from node.store.errors import StoreUnavailable
from node.store.scripts import Arg
from node.store.steps import Step
from node.store.store import Store

T = TypeVar("T")


class Batcher(Generic[T]):
    """Collects items, and sends all of a turn of the event loop together, ahead of what is asked after the first.

    Nobody waits for it, so it is for work that is done again if it fails (`Store.send`).
    """

    def __init__(self, store: Store, commands_of: Callable[[Sequence[T]], Iterable[Step | Sequence[Arg]]]) -> None:
        """`commands_of`: the steps and plain commands that tell of items, which it is given in the order of `add`."""
        self._store = store
        self._commands_of = commands_of
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """Tell of this item soon."""
        self._items.append(item)
        if len(self._items) == 1:
            self._store.before_sending(self._send)

    def _send(self) -> None:
        items, self._items = self._items, []
        for wanted in self._commands_of(items):
            with suppress(StoreUnavailable):
                self._store.send(wanted, ahead=True)
