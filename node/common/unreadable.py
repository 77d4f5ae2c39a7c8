"""Lists go on without an entity that cannot be read: one that lost fields, or that a later version of the node wrote.

It is left out and logged, once by each process. Whoever asks for that entity alone gets the failure.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import structlog

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")

log = structlog.get_logger()

LEFT_OUT = "entity not read, lists are without it"
"""The log message, which comes with the exception."""

MAX_LOGGED = 1000
"""Most entities about which one process logs."""

_logged: set[tuple[Hashable, str]] = set()


def show_each(rows: Iterable[tuple[K, S]], show: Callable[[K, S], T]) -> dict[K, T]:
    """The results of `show`, called with each entity and what was read of it; those on which it fails are left out."""
    found: dict[K, T] = {}
    for entity, row in rows:
        try:
            found[entity] = show(entity, row)
        except Exception:
            if is_news(entity):
                log.exception(LEFT_OUT, entity=str(entity))
    return found


def is_news(entity: Hashable, said: str = LEFT_OUT) -> bool:
    """Whether `said` is still to be logged about the entity, and may be (MAX_LOGGED). The next call says no."""
    if (entity, said) in _logged or len(_logged) >= MAX_LOGGED:
        return False
    _logged.add((entity, said))
    return True
