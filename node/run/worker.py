"""The background worker: everything that an acknowledgement does not wait for (DESIGN 2).

It consumes the event outboxes. Any number of workers may run; each event is handled by one of them, and by another if
that one dies.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial

import structlog

from node.a2a.inboxes.pushes import PUSH, PushSource
from node.agents.checks import AgentChecks
from node.artifacts.verify import CONCURRENT_VERIFICATIONS
from node.callbacks.breaker import Breaker
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.fair import FairCaller
from node.callbacks.queue import CallbackQueue
from node.callbacks.resolve import SystemResolver
from node.callbacks.sender import Sender
from node.callbacks.service import Callbacks, Deliverer
from node.callbacks.target_check import policy_of
from node.common.background import Background, CoroutineFunction
from node.common.stopping import sleep_unless_stopped
from node.config import Settings
from node.events.feed import FeedCopier
from node.observe.memory import MemoryAlarm
from node.observe.metrics.meter import Meter, of_worker
from node.observe.tracing import tracing_of
from node.retention.rules import retention_of
from node.run.corpora import corpora_of
from node.run.reload import on_hangup
from node.run.services import Services, Stores
from node.search.worker import SearchWorker
from node.share.capacity import Capacity
from node.sign.node_key import NodeKey, webhook_key
from node.store import Store, StoreUnavailable, clock, durability
from node.store.heartbeats import Heartbeat, new_name
from node.store.outbox import Consumer, Event, Handler, OutboxTrimmer

log = structlog.get_logger()

LEASE_SWEEP_SECONDS = 1.0
"""Interval between two sweeps for claims whose lease has ended."""

ARTIFACT_SWEEP_SECONDS = 10.0
"""Interval between two sweeps for artifacts that have expired."""

AGENT_SWEEP_SECONDS = 10.0
"""Interval between two sweeps for agents whose entries have expired."""

PUSH_SWEEP_SECONDS = 2.0
"""Interval between two sweeps for expired messages about which somebody is to be notified."""


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
        search = SearchWorker(store, stores.searched, corpora_of(store), settings)
        stack.push_async_callback(services.close)
        stack.callback(search.close)
        pushes = PushSource(services.inbox_agents.view, services.pushes)
        # On the untraced store: an attempt is one span, and its calls to Redis get no spans.
        outgoing = Outgoing(settings, opened.main)
        deliverer = outgoing.deliverer(services.callbacks, pushes, tracing.sender if tracing else Sender)
        checks = outgoing.checks(store, services)
        on_hangup(settings, outgoing.change, end=stop.set)
        handlers: dict[str, Handler] = {
            "lists": Projections(services, checks).handle,
            "index": search.handle,
            "hooks": Callbacks(services.callbacks, settings.public_url, {PUSH: pushes.messages}).handle,
            "artifacts": services.verifier.handle,
            "feed": FeedCopier(store, settings.feed_events).handle,
        }
        name = new_name()
        # A batch of the group `artifacts` reads whole artifacts; batches of the other groups only call Redis.
        at_once = {"artifacts": CONCURRENT_VERIFICATIONS}
        consumers = [Consumer(store, group, handle, name, at_once.get(group, 1)) for group, handle in handlers.items()]
        heartbeat = Heartbeat(store, name, [consumer.inherit for consumer in consumers])
        # If one of these tasks fails, on one contract for example, all others go on: nothing waits for it.
        background = Background(stop)
        stack.push_async_callback(background.close)
        for task, run in housekeeping(settings, store, services, handlers, stop).items():
            background.start(task, run)
        meter = Meter(settings, "worker", store, of_worker(deliverer.outcomes, checks.outcomes))
        # Once `stop` is set, these finish what they have begun; after that, the other tasks are cancelled.
        orderly: dict[str, CoroutineFunction] = {
            "heartbeat": partial(heartbeat.run, stop),
            "search": partial(search.run, stop),
            "callbacks": partial(deliverer.run, stop),
            "checks": partial(checks.run, stop),
            "meter": partial(meter.run, stop),
        }
        working = [background.start(task, run) for task, run in orderly.items()]
        working += [background.start(consumer.name, partial(consumer.run, stop)) for consumer in consumers]
        await asyncio.wait(working)
        await heartbeat.leave()


def housekeeping(
    settings: Settings, store: Store, services: Services, groups: Collection[str], stop: asyncio.Event
) -> dict[str, CoroutineFunction]:
    """Return the tasks that run at intervals until `stop` is set. `groups`: all groups that read the outboxes."""
    return {
        "durability": partial(durability.watch, store, settings.durability, stop),
        "clock": partial(clock.watch, store, stop),
        "trimmer": partial(OutboxTrimmer(store, groups).run, stop),
        "artifacts": partial(sweep, services.artifacts.sweep, ARTIFACT_SWEEP_SECONDS, stop),
        "leases": partial(sweep, services.tasks.sweep, LEASE_SWEEP_SECONDS, stop),
        "agents": partial(sweep, services.agents.sweep, AGENT_SWEEP_SECONDS, stop),
        "pushes": partial(sweep, services.pushes.expire, PUSH_SWEEP_SECONDS, stop),
        "memory": partial(MemoryAlarm(store, settings, Capacity(), logs=True).run, stop),
        "retention": partial(retention_of(settings, store).run, stop),
    }


class Outgoing:
    """Makes the services that call URLs of clients. They share one policy, resolver, breaker and set of places."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._breaker = Breaker(store, settings.limits.callback, settings.limits.callback_client)
        self._caller = Caller(policy_of(settings), SystemResolver(), self._breaker)
        self._concurrency = Concurrency()

    def change(self, settings: Settings) -> None:
        """Take over the rates, and the networks that must not be called, from the next attempt on."""
        self._breaker.change(settings.limits.callback, settings.limits.callback_client)
        self._caller.policy = policy_of(settings)

    def deliverer(
        self, queue: CallbackQueue, pushes: PushSource, make: Callable[[NodeKey, Caller, str], Sender]
    ) -> Deliverer:
        """Return the service that sends this node's callbacks. Raises ConfigError."""
        settings = self._settings
        sender = make(webhook_key(settings), self._caller, settings.public_url)
        return Deliverer(queue, sender, self._breaker, settings.callback_schedule, self._concurrency, {PUSH: pushes})

    def checks(self, store: Store, services: Services) -> AgentChecks:
        """Return the service that checks and probes the agents of the directory."""
        calls = FairCaller(self._caller, self._breaker, self._concurrency)
        return AgentChecks(store, services.agent_store, services.agent_lists, calls, self._settings.public_url)


class Projections:
    """Keeps the lists that span partitions in step with the entities."""

    def __init__(self, services: Services, checks: AgentChecks) -> None:
        self._services = services
        self._checks = checks

    async def handle(self, events: Sequence[Event]) -> None:
        """Put every entity that changed into the right lists, according to its present state. Idempotent."""
        threads = {event.entity for event in events if event.kind.startswith(("thread.", "reply."))}
        tasks = {event.entity for event in events if event.kind.startswith("task.")}
        agents = {event.entity for event in events if event.kind.startswith(("agent.", "check."))}
        await self._services.provenance.handle(events)
        await self._services.board.project(*threads)
        await self._services.tasks.project(*tasks)
        await self._services.agents.project(*agents)
        self._checks.hear(events)


async def sweep(work: Callable[[], Awaitable[object]], seconds: float, stop: asyncio.Event) -> None:
    """Every `seconds` until `stop` is set, call `work` until it finds nothing more to do."""
    while not stop.is_set():
        with suppress(StoreUnavailable):  # the connection logs it
            while not stop.is_set() and await work():
                pass
        await sleep_unless_stopped(stop, seconds)
