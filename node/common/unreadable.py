"""Lists leave out entities that cannot be read: those that lost fields, or that a later version of the node wrote.

Each process logs such an entity once. A request for that entity alone gets the failure.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import structlog

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")

log = structlog.get_logger()

LEFT_OUT = "entity not read, lists are without it"
"""Message that is logged with the exception."""

MAX_LOGGED = 1000
"""Most entities that one process logs."""

_logged: set[tuple[Hashable, str]] = set()


def show_each(rows: Iterable[tuple[K, S]], show: Callable[[K, S], T]) -> dict[K, T]:
    """Call `show` with each entity and what was read of it, and return the results by entity.

    Entities on which `show` fails are left out and logged.
    """
    found: dict[K, T] = {}
    for entity, row in rows:
        try:
            found[entity] = show(entity, row)
        except Exception:
            if is_news(entity):
                log.exception(LEFT_OUT, entity=str(entity))
    return found


def is_news(entity: Hashable, said: str = LEFT_OUT) -> bool:
    """Return whether to log `said` about the entity: True at the first call only, up to MAX_LOGGED entities."""
    if (entity, said) in _logged or len(_logged) >= MAX_LOGGED:
        return False
    _logged.add((entity, said))
    return True
