"""Lists go on without an entity that cannot be read: one that lost fields, or that a later version of the node wrote.

It is left out and logged, once by each process. Whoever asks for that entity alone gets the failure.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import structlog

from node.store.errors import StoreUnavailable

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")

log = structlog.get_logger()

MAX_LOGGED = 1000
"""Entities about which one process logs."""

LEFT_OUT = "entity not read, lists are without it"

_logged: set[Hashable] = set()


async def read_each(entities: Sequence[K], read: Callable[[Sequence[K]], Awaitable[Sequence[T]]]) -> dict[K, T]:
    """What `read` returns, a value for each entity, without those on which it fails.

    They are read together, and if that fails, each half by itself. Raises StoreUnavailable.
    """
    try:
        return dict(zip(entities, await read(entities), strict=True))
    except StoreUnavailable:
        raise
    except Exception:
        if len(entities) == 1:
            if _is_news(entities[0]):
                log.exception(LEFT_OUT, entity=str(entities[0]))
            return {}
    middle = len(entities) // 2
    return await read_each(entities[:middle], read) | await read_each(entities[middle:], read)


def show_each(rows: Iterable[tuple[K, S]], show: Callable[[K, S], T]) -> dict[K, T]:
    """What `show` makes of each entity and what was read of it, without those on which it fails."""
    found: dict[K, T] = {}
    for entity, row in rows:
        try:
            found[entity] = show(entity, row)
        except Exception:
            if _is_news(entity):
                log.exception(LEFT_OUT, entity=str(entity))
    return found


def _is_news(entity: Hashable) -> bool:
    """Whether nothing was logged about that entity, and there is room for it."""
    is_news = entity not in _logged and len(_logged) < MAX_LOGGED
    if is_news:
        _logged.add(entity)
    return is_news
