"""The background worker: everything that an acknowledgement does not wait for (DESIGN 2).

It consumes the event outboxes. Any number of workers may run; each event is handled by one of them,
and by another if that one dies.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

import structlog

from node.artifacts.upkeep import Upkeep
from node.board.search_worker import SearchWorker
from node.config import Settings
from node.hooks.breaker import Breaker
from node.hooks.policy import policy_of
from node.hooks.queue import CallbackQueue
from node.hooks.resolve import SystemResolver
from node.hooks.sender import Sender
from node.hooks.service import Callbacks, Deliverer
from node.rooms import Rooms, Stores
from node.sign.node import webhook_key
from node.store import Store, StoreUnavailable
from node.store.events import Consumer, Event, Handler, Janitor

log = structlog.get_logger()

SWEEP = 1.0
"""Seconds between looks for claims whose lease has ended."""


async def main(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    stores = await Stores.open(settings)
    store = stores.main
    async with AsyncExitStack() as stack:
        stack.push_async_callback(stores.close)
        rooms = Rooms(settings, stores)
        search = SearchWorker(store, stores.documents, settings)
        stack.push_async_callback(rooms.close)
        queue = CallbackQueue(store)
        handlers: dict[str, Handler] = {
            "lists": Lists(rooms).handle,
            "index": search.handle,
            "hooks": Callbacks(queue, settings.public_url).handle,
            "artifacts": rooms.verifier.handle,
        }
        async with asyncio.TaskGroup() as work:
            for group, handle in handlers.items():
                work.create_task(Consumer(store, group, handle).run(stop))
            work.create_task(Janitor(store, handlers).run(stop))
            work.create_task(search.run(stop))
            work.create_task(deliverer_of(settings, store, queue).run(stop))
            work.create_task(Upkeep(rooms.artifacts, rooms.blobs).run(stop))
            work.create_task(sweep_leases(rooms, stop))


def deliverer_of(settings: Settings, store: Store, queue: CallbackQueue) -> Deliverer:
    """What sends callbacks in the name of this node. Raises ConfigError."""
    policy = policy_of(settings)
    sender = Sender(webhook_key(settings), policy, SystemResolver(), public_url=settings.public_url)
    return Deliverer(queue, sender, Breaker(store, settings.limits.callback), policy, settings.callback_schedule)


class Lists:
    """Keeps the lists that span partitions true to the entities."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def handle(self, events: Sequence[Event]) -> None:
        """Re-derive the place of every entity that changed; again changes nothing."""
        threads = {event.entity for event in events if event.kind.startswith(("thread.", "reply."))}
        tasks = {event.entity for event in events if event.kind.startswith("task.")}
        await asyncio.gather(*map(self._rooms.board.project, threads), *map(self._rooms.tasks.project, tasks))


async def sweep_leases(rooms: Rooms, stop: asyncio.Event) -> None:
    """Tell of claims whose lease has ended, until `stop` is set."""
    while not stop.is_set():
        with suppress(StoreUnavailable):
            while await rooms.tasks.sweep():
                pass
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SWEEP)
