"""Callbacks from events to receivers: at least once, politely, and not for ever (DESIGN 8).

`Callbacks.handle` turns events into messages under way; `Deliverer` sends what is due. Both run in
the worker.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.hooks.breaker import Breaker
from node.hooks.envelope import Envelope, EventType
from node.hooks.queue import Callback, CallbackQueue, Ending
from node.hooks.sender import Delivered, Failed, Gone, Outcome, Refused, Retry, Sender, delay
from node.hooks.target import Policy, TargetRefused, parse
from node.store import StoreUnavailable, keys
from node.store.events import Event

log = structlog.get_logger()

SCHEDULE = (5, 60, 300, 1800, 7200, 18000)
"""Seconds before the second and each further attempt; after the last the message is a dead letter."""

JITTER = 0.2
"""Share by which a pause is longer or shorter, so that retries to one receiver spread."""

PAUSE_MS = 5000
"""Between two messages about one thread, or one session: what happens in between is told together."""

NOT_FOUND = (404, 3)
"""A receiver that answers 404 for the third time is not there: the callback is dropped."""

HOST_CONCURRENCY = 4
CONCURRENCY = 100
LOOK = 0.5
"""Seconds between looks for what is due."""

TASK_EVENTS = {"task.claimed", "task.in_progress", "task.completed", "task.canceled", "task.expired"}


class Callbacks:
    """Puts a message under way for each event that somebody asked to be told of."""

    def __init__(self, queue: CallbackQueue, public_url: str) -> None:
        self._queue = queue
        self._base = public_url

    async def handle(self, events: Sequence[Event]) -> None:
        """Enqueue for a batch of one partition; again changes nothing but may send twice. Raises StoreUnavailable."""
        for event in events:
            url = event.fields.get("callback")
            if not url:
                continue
            at = int(event.id.partition("-")[0])
            message_id = f"msg_{event.partition:02x}_{event.id.replace('-', '_')}"
            data: dict[str, object]
            if event.kind == "reply.posted":
                kind = "relay.reply" if event.fields.get("source") == "relay" else "board.reply"
                data = {"thread_id": event.entity, "seq": int(event.fields["seq"])}
                await self._enqueue(event, event.entity, message_id, PAUSE_MS, url, kind, at, data)
            elif event.kind == "session.line":
                data = {"session_id": event.entity, "seq": int(event.fields["seq"])}
                await self._enqueue(event, event.entity, message_id, PAUSE_MS, url, event.kind, at, data)
            elif event.kind in TASK_EVENTS:
                data = {"task_id": event.entity, "attempt": int(event.fields.get("attempt") or 0)}
                await self._enqueue(event, message_id, message_id, 0, url, event.kind, at, data)

    async def _enqueue(
        self,
        event: Event,
        name: str,
        message_id: str,
        pause_ms: int,
        url: str,
        kind: str,
        at: int,
        data: dict[str, object],
    ) -> None:
        place = {"task": "api/v1/tasks/{}", "session": "api/v1/sessions/{}/messages"}.get(
            kind.partition(".")[0], "board/{}"
        )
        data = {**data, "url": f"{self._base}/{place.format(event.entity)}"}
        message = {"url": url, "type": kind, "at": at, "data": msgspec.json.encode(data)}
        await self._queue.enqueue(event.partition, name, message_id, pause_ms, message)


class Deliverer:
    """Sends what is due, with an eye on every host."""

    def __init__(self, queue: CallbackQueue, sender: Sender, breaker: Breaker, policy: Policy) -> None:
        self._queue = queue
        self._sender = sender
        self._breaker = breaker
        self._policy = policy
        self._places = asyncio.Semaphore(CONCURRENCY)
        # Concurrency is a matter of this process; rate and breaker hold over all workers.
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(HOST_CONCURRENCY))
        self._busy: set[str] = set()
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        """Attempts by how they ended, for the metrics."""

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; attempts under way are finished."""
        async with asyncio.TaskGroup() as attempts:
            while not stop.is_set():
                with suppress(StoreUnavailable):
                    found = await asyncio.gather(*map(self._queue.take, range(keys.PARTITIONS)))
                    for callback in (callback for partition in found for callback in partition):
                        if callback.id not in self._busy:
                            self._busy.add(callback.id)
                            attempts.create_task(self._attempt(callback))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK)

    async def _attempt(self, callback: Callback) -> None:
        try:
            await self._deliver(callback)
        except StoreUnavailable:
            pass  # it becomes due again by itself
        finally:
            self._busy.discard(callback.id)

    async def _deliver(self, callback: Callback) -> None:
        try:
            target = parse(callback.url, self._policy)
        except TargetRefused as refused:
            await self._end(callback, "dropped", 0, str(refused))
            return
        wait = await self._breaker.wait(target.host)
        if wait:
            await self._queue.settle(callback, "postpone", wait)
            return
        kind = cast("EventType", callback.type)
        envelope = Envelope.of(callback.id, kind, callback.at, callback.data, host=target.host)
        async with self._places, self._hosts[target.host]:
            outcome = await self._sender.send(target, envelope)
        if isinstance(outcome, Delivered):
            await self._breaker.succeeded(target.host)
        elif isinstance(outcome, Retry):
            await self._breaker.failed(target.host)
        await self._conclude(callback, outcome)

    async def _conclude(self, callback: Callback, outcome: Outcome) -> None:
        match outcome:
            case Delivered():
                await self._end(callback, "delivered", PAUSE_MS, "")
            case Gone():
                await self._end(callback, "dropped", 0, "the receiver answered 410")
                await self._queue.forget_target(_entity(callback))
            case Refused(reason):
                await self._end(callback, "dropped", 0, reason)
            case Failed(reason, status) if (status, callback.attempt + 1) >= NOT_FOUND and status == NOT_FOUND[0]:
                await self._end(callback, "dropped", 0, reason)
            case Failed(reason) | Retry(reason):
                asked = outcome.after if isinstance(outcome, Retry) else None
                if callback.attempt >= len(SCHEDULE):
                    await self._end(callback, "dead", 0, reason)
                else:
                    pause = delay(SCHEDULE[callback.attempt], asked) * random.uniform(1 - JITTER, 1 + JITTER)
                    await self._end(callback, "retry", round(pause * 1000), reason)

    async def _end(self, callback: Callback, ending: Ending, pause_ms: int, reason: str) -> None:
        self.outcomes[ending] += 1
        if ending in {"dropped", "dead"}:
            log.warning("callback given up", ending=ending, webhook_id=callback.id, type=callback.type, reason=reason)
        await self._queue.settle(callback, ending, pause_ms, reason)


def _entity(callback: Callback) -> str:
    for name in ("thread_id", "task_id", "session_id"):
        if name in callback.data:
            return str(callback.data[name])
    return callback.name
