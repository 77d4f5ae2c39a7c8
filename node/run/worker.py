"""The background worker: everything that an acknowledgement does not wait for (DESIGN 2).

It consumes the event outboxes. Any number of workers may run; each event is handled by one of them,
and by another if that one dies.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress

import structlog

from node.artifacts.expiry import ArtifactExpiry
from node.artifacts.verify import CONCURRENT_VERIFICATIONS
from node.board.thread_reader import ThreadReader
from node.callbacks.breaker import Breaker, Dials
from node.callbacks.policy import policy_of
from node.callbacks.queue import CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Callbacks, Deliverer
from node.config import Settings
from node.observe.memory import MemoryAlarm
from node.observe.metrics.meter import Meter, of_worker
from node.observe.tracing import tracing_of
from node.retention.rules import retention_of
from node.run.services import Services, Stores
from node.search.worker import SearchWorker
from node.share.capacity import Capacity
from node.sign.node_key import webhook_key
from node.store import Store, StoreUnavailable, durability
from node.store.heartbeats import Heartbeat, new_name
from node.store.outbox import Consumer, Event, Handler, OutboxTrimmer

log = structlog.get_logger()

SWEEP_SECONDS = 1.0
"""Between two looks for claims whose lease has ended."""


async def main(settings: Settings, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    opened = await Stores.open(settings)
    tracing = tracing_of(settings, "worker")
    stores = opened.wrapped_by(tracing.store) if tracing else opened
    store = stores.main
    async with AsyncExitStack() as stack:
        if tracing:
            stack.push_async_callback(tracing.close)
        stack.push_async_callback(stores.close)
        services = Services(settings, stores)
        search = SearchWorker(store, stores.documents, ThreadReader(store), settings)
        stack.push_async_callback(services.close)
        # On the store that is not traced: an attempt is one span, its calls to Redis are none.
        deliverer = deliverer_of(settings, opened.main, services.callbacks, tracing.sender if tracing else Sender)
        handlers: dict[str, Handler] = {
            "lists": Projections(services).handle,
            "index": search.handle,
            "hooks": Callbacks(services.callbacks, settings.public_url).handle,
            "artifacts": services.verifier.handle,
        }
        name = new_name()
        # Whose batches read whole artifacts; those of the others only call Redis.
        at_once = {"artifacts": CONCURRENT_VERIFICATIONS}
        consumers = [Consumer(store, group, handle, name, at_once.get(group, 1)) for group, handle in handlers.items()]
        async with asyncio.TaskGroup() as work:
            work.create_task(Heartbeat(store, name, [consumer.inherit for consumer in consumers]).run(stop))
            for consumer in consumers:
                work.create_task(consumer.run(stop))
            work.create_task(durability.watch(store, settings.durability, stop))
            work.create_task(OutboxTrimmer(store, handlers).run(stop))
            work.create_task(search.run(stop))
            work.create_task(deliverer.run(stop))
            work.create_task(ArtifactExpiry(services.artifacts, services.blobs).run(stop))
            work.create_task(sweep_leases(services, stop))
            work.create_task(MemoryAlarm(store, settings, Capacity(), logs=True).run(stop))
            work.create_task(retention_of(settings, store).run(stop))
            work.create_task(Meter(settings, "worker", store, of_worker(deliverer.outcomes)).run(stop))


def deliverer_of(
    settings: Settings, store: Store, queue: CallbackQueue, make: Callable[..., Sender] = Sender
) -> Deliverer:
    """What sends callbacks in the name of this node. Raises ConfigError."""
    policy = policy_of(settings)
    breaker = Breaker(store, settings.limits.callback, settings.limits.callback_client)
    resolver, dials = SystemResolver(), Dials(breaker)
    sender = make(webhook_key(settings), policy, resolver, public_url=settings.public_url, dials=dials)
    return Deliverer(queue, sender, breaker, policy, settings.callback_schedule)


class Projections:
    """Keeps the lists that span partitions true to the entities."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, events: Sequence[Event]) -> None:
        """Derive anew the place of every entity that changed; doing so twice changes nothing more."""
        threads = {event.entity for event in events if event.kind.startswith(("thread.", "reply."))}
        tasks = {event.entity for event in events if event.kind.startswith("task.")}
        await self._services.board.project(*threads)
        await self._services.tasks.project(*tasks)


async def sweep_leases(services: Services, stop: asyncio.Event) -> None:
    """End claims whose lease is over, every SWEEP_SECONDS until `stop` is set."""
    while not stop.is_set():
        with suppress(StoreUnavailable):
            while await services.tasks.sweep():
                pass
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SWEEP_SECONDS)
