"""Batches writes that no request waits for: those of one turn of the event loop are sent together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from node.store.store import Store, Wanted

T = TypeVar("T")


class Batcher(Generic[T]):
    """Collects the items of one turn of the event loop, and sends them together by `Store.send_ahead`.

    Nobody waits for the result, so this is for work that is done again if it fails.
    """

    def __init__(self, store: Store, wanted_of: Callable[[Sequence[T]], Iterable[Wanted]]) -> None:
        """`wanted_of` makes steps and plain commands from the items, which it gets in the order of `add`."""
        self._store = store
        self._wanted_of = wanted_of
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """Send this item with the other items of this turn of the event loop."""
        self._items.append(item)
        if len(self._items) == 1:
            self._store.send_ahead(self._wanted)

    def _wanted(self) -> Iterable[Wanted]:
        items, self._items = self._items, []
        return self._wanted_of(items)
