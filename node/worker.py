"""The background worker: everything that an acknowledgement does not wait for (DESIGN 2).

It consumes the event outboxes. Any number of workers may run; each event is handled by one of them,
and by another if that one dies.
"""

import asyncio
from collections.abc import Sequence

from node.board.service import Board
from node.board.store import BoardStore
from node.config import Settings
from node.hooks.policy import TargetPolicy
from node.store import connect
from node.store.events import Consumer, Event, Janitor


async def main(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    store = await connect(settings.redis_url, timeout=settings.store_timeout, max_in_flight=settings.max_in_flight)
    try:
        lists = Lists(
            Board(
                BoardStore(store, settings.idempotency_ttl),
                settings,
                TargetPolicy(settings.public_url, allow_private=settings.callback_allow_private),
            )
        )
        async with asyncio.TaskGroup() as work:
            work.create_task(Consumer(store, "lists", lists.handle).run(stop))
            work.create_task(Janitor(store).run(stop))
    finally:
        await store.close()


class Lists:
    """Keeps the lists that span partitions true to the entities."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def handle(self, events: Sequence[Event]) -> None:
        """Re-derive the place of every entity that changed; again changes nothing."""
        threads = {event.entity for event in events if event.kind.startswith(("thread.", "reply."))}
        await asyncio.gather(*(self._board.project(thread) for thread in threads))
