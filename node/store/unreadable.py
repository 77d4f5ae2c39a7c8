"""Reads of many entities that succeed although some entities cannot be read (`node.common.unreadable`)."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import structlog

from node.common.unreadable import LEFT_OUT, is_news
from node.store.errors import StoreUnavailable
from node.store.link import RedisReply

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

log = structlog.get_logger()


async def read_each(
    entities: Sequence[K], read: Callable[[Sequence[K]], Awaitable[Sequence[T]]], said: str = LEFT_OUT
) -> dict[K, T]:
    """Return the value that `read` gives for each entity. Entities on which it fails are left out, and logged with
    `said`.

    All are read together; if that fails, each half is read separately. Raises StoreUnavailable.
    """
    try:
        return dict(zip(entities, await read(entities), strict=True))
    except StoreUnavailable:
        raise
    except Exception:
        if len(entities) == 1:
            if is_news(entities[0], said):
                log.exception(said, entity=str(entities[0]))
            return {}
    middle = len(entities) // 2
    return await read_each(entities[:middle], read, said) | await read_each(entities[middle:], read, said)


async def read_reachable(
    entities: Sequence[K], read: Callable[[Sequence[K]], Awaitable[Sequence[T | StoreUnavailable]]]
) -> tuple[dict[K, T], list[K]]:
    """Return the values of the entities, as `read_each` does, and the list of the entities that are out of reach.

    `read` returns an error in place of an entity whose server is out of reach. Raises StoreUnavailable.
    """
    found = await read_each(entities, read)
    there = {entity: value for entity, value in found.items() if not isinstance(value, StoreUnavailable)}
    return there, [entity for entity in found if entity not in there]


def reached(wanted: Iterable[T], replies: Iterable[RedisReply | StoreUnavailable]) -> list[tuple[T, RedisReply]]:
    """Pair each `wanted` item with its reply. Items whose server was out of reach are left out
    (`Store.run_reachable`)."""
    pairs = zip(wanted, replies, strict=True)
    return [(each, reply) for each, reply in pairs if not isinstance(reply, StoreUnavailable)]
