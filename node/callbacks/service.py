"""Callbacks from events to receivers: at least once, politely, and not for ever (DESIGN 8).

`Callbacks.handle` turns events into messages under way; `Deliverer` sends what is due. Both run in
the worker.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import msgspec
import structlog

from node.callbacks.breaker import Breaker, NotNow, called
from node.callbacks.envelope import Envelope, EventType
from node.callbacks.places import Places
from node.callbacks.publisher import site_part
from node.callbacks.queue import Callback, CallbackQueue, Ending
from node.callbacks.sender import (
    AttemptResult,
    Delivered,
    Later,
    ReceiverGone,
    Rejected,
    Retry,
    Sender,
    TargetForbidden,
    Throttled,
    Unreachable,
    delay,
)
from node.callbacks.target import Policy, TargetRefused, parse
from node.config import Schedule
from node.store import StoreUnavailable
from node.store.outbox import Event

log = structlog.get_logger()

JITTER = 0.2
"""Share by which a pause is longer or shorter, so that retries to one receiver spread."""

PAUSE_MS = 5000
"""Between two messages about one thread, or one session: what happens in between is told together."""

NOT_FOUND = 404
MISSES = 3
"""A receiver that answers 404 so often is not there: the message is dropped."""

UNDER_WAY = 2000
"""Callbacks that this process has taken and not yet settled. Most wait for Redis, which is soon over, or their turn."""

LONGEST_TURN_MS = 3600_000
"""A message whose turn comes later than that is given up: its publisher, or what it calls, has too many waiting."""

LONGEST_WAIT_MS = 48 * 3600_000
"""For so long a message waits for a URL or an address whose breaker opens again and again."""

PAUSE = 0.5
"""Seconds until the next look when too many callbacks are under way, or Redis is out of reach."""

SETTLE_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries to tell Redis how an attempt ended; all within the time for which it is not due."""

GRACE = 3.0
"""Seconds that attempts under way get when the worker stops; what is cut off then is sent again."""

TASK_EVENTS = {"task.claimed", "task.in_progress", "task.completed", "task.canceled", "task.expired"}


class Callbacks:
    """Puts a message under way for each event that somebody asked to be told of."""

    def __init__(self, queue: CallbackQueue, public_url: str) -> None:
        self._queue = queue
        self._base = public_url

    async def handle(self, events: Sequence[Event]) -> None:
        """Enqueue for a batch of one partition; again changes nothing but may send twice. Raises StoreUnavailable."""
        await asyncio.gather(*(self._tell(event) for event in events if event.fields.get("callback")))

    async def _tell(self, event: Event) -> None:
        message_id = f"msg_{event.partition:02x}_{event.id.replace('-', '_')}"
        entity = event.entity
        if event.kind == "reply.posted":
            kind = "relay.reply" if event.fields.get("source") == "relay" else "board.reply"
            data = {"thread_id": entity, "seq": int(event.fields["seq"]), "url": f"{self._base}/board/{entity}"}
            await self._enqueue(event, entity, message_id, PAUSE_MS, kind, data)
        elif event.kind == "session.line":
            url = f"{self._base}/api/v1/sessions/{entity}/messages"
            data = {"session_id": entity, "seq": int(event.fields["seq"]), "url": url}
            await self._enqueue(event, entity, message_id, PAUSE_MS, event.kind, data)
        elif event.kind in TASK_EVENTS:
            attempt = int(event.fields.get("attempt") or 0)
            data = {"task_id": entity, "attempt": attempt, "url": f"{self._base}/api/v1/tasks/{entity}"}
            await self._enqueue(event, message_id, message_id, 0, event.kind, data)

    async def _enqueue(
        self, event: Event, name: str, message_id: str, pause_ms: int, kind: str, data: dict[str, str | int]
    ) -> None:
        message = {
            "url": event.fields["callback"],
            "type": kind,
            "at": int(event.id.partition("-")[0]),
            "data": msgspec.json.encode(data),
        }
        await self._queue.enqueue(event.partition, name, message_id, pause_ms, message)


class Deliverer:
    """Sends what is due, each out of its publisher's share, and asks the breaker before."""

    def __init__(
        self, queue: CallbackQueue, sender: Sender, breaker: Breaker, policy: Policy, schedule: Schedule
    ) -> None:
        self._queue = queue
        self._sender = sender
        self._breaker = breaker
        self._policy = policy
        self._schedule = schedule.seconds
        self._places = Places()
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        """Attempts by how they ended, for the metrics."""

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; attempts under way get a moment to end."""
        under_way: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as attempts:
            while not stop.is_set():
                if len(under_way) >= UNDER_WAY:
                    await _pause(stop)
                    continue
                for callback in await self._due(stop):
                    task = attempts.create_task(self._attempt(callback))
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
                await self._queue.agenda.wait(stop)
            if under_way:
                _, late = await asyncio.wait(under_way, timeout=GRACE)
                for task in late:
                    task.cancel()

    async def _due(self, stop: asyncio.Event) -> list[Callback]:
        partitions = self._queue.agenda.due()
        try:
            found = await asyncio.gather(*map(self._queue.take, partitions))
        except StoreUnavailable:
            for partition in partitions:
                self._queue.agenda.expect(partition)
            await _pause(stop)
            return []
        return [callback for partition in found for callback in partition]

    async def _attempt(self, callback: Callback) -> None:
        """Bring a callback one step further. Whatever goes wrong with one does not touch the others."""
        try:
            try:
                await self._deliver(callback)
            except StoreUnavailable:
                pass  # it becomes due again by itself
            except Exception:
                log.exception("callback not sent", webhook_id=callback.id, type=callback.type)
                await self._again(callback, Retry("an error of the node, see its log"))
        except StoreUnavailable:
            pass

    async def _deliver(self, callback: Callback) -> None:
        try:
            target = parse(callback.url, self._policy)
        except TargetRefused as refused:
            await self._end(callback, "dropped", 0, str(refused))
            return
        publisher = await self._queue.publisher(callback)
        if publisher is None:
            await self._end(callback, "dropped", 0, "what it tells of is gone, or names this receiver no more")
            return
        url, site = called(target), site_part(publisher)
        has_failed = False
        try:
            # In one round trip: if one refuses, the other has counted a call of this publisher's for nothing.
            _, has_failed = await asyncio.gather(self._breaker.allow(publisher), self._breaker.admit(*url, site))
            async with self._places.of(site, target.host):
                kind = cast("EventType", callback.type)
                envelope = Envelope.of(callback.id, kind, callback.at, callback.data, host=target.host)
                outcome = await self._sender.send(target, envelope, site)
        except NotNow as not_now:
            outcome = Later(not_now.wait_ms)
        # The end of the message first: a receiver that has it is not to get it again.
        await self._conclude(callback, outcome)
        await self._learn(url, outcome, has_failed=has_failed)

    async def _learn(self, url: tuple[str, str], outcome: AttemptResult, *, has_failed: bool) -> None:
        """Tell the breaker what the outcome says of the URL; of the address, the guard has told it."""
        match outcome:
            case Delivered() if has_failed:
                await self._breaker.succeeded(*url)
            case Throttled(_, after):
                await self._breaker.pause(*url, after or 0.0)
            case Retry() if not isinstance(outcome, Unreachable):
                await self._breaker.failed(*url)
            case _:
                pass

    async def _put_off(self, callback: Callback, wait_ms: int) -> None:
        """Wait for a turn, a little apart from the others that do, but not for ever."""
        if wait_ms > LONGEST_TURN_MS:
            await self._end(callback, "dead", 0, "too many callbacks wait before it")
        elif time.time() * 1000 - callback.since > LONGEST_WAIT_MS:
            await self._end(callback, "dead", 0, "the receiver failed all the time")
        else:
            await self._queue.settle(callback, "postpone", wait_ms + random.randint(0, 1000))

    async def _conclude(self, callback: Callback, outcome: AttemptResult) -> None:
        match outcome:
            case Delivered():
                await self._end(callback, "delivered", PAUSE_MS, "")
            case ReceiverGone():
                await self._queue.forget_target(callback)
                await self._end(callback, "dropped", 0, "the receiver answered 410")
            case TargetForbidden(reason):
                await self._end(callback, "dropped", 0, reason)
            case Later(wait_ms):
                await self._put_off(callback, wait_ms)
            case Rejected(reason, status) if status == NOT_FOUND:
                missed = msgspec.structs.replace(callback, misses=callback.misses + 1)
                if missed.misses >= MISSES:
                    await self._end(missed, "dropped", 0, reason)
                else:
                    await self._again(missed, outcome)
            case Rejected() | Retry():
                await self._again(callback, outcome)

    async def _again(self, callback: Callback, outcome: Rejected | Retry) -> None:
        """Try again when the schedule says so; after the last attempt it is a dead letter."""
        if callback.attempt >= len(self._schedule):
            await self._end(callback, "dead", 0, outcome.reason)
            return
        asked = outcome.after if isinstance(outcome, Retry) else None
        pause = delay(self._schedule[callback.attempt], asked) * random.uniform(1 - JITTER, 1 + JITTER)
        await self._end(callback, "retry", round(pause * 1000), outcome.reason)

    async def _end(self, callback: Callback, ending: Ending, pause_ms: int, reason: str) -> None:
        """Tell Redis, and again if it does not answer. Raises StoreUnavailable if it never does."""
        self.outcomes[ending] += 1
        if ending in {"dropped", "dead"}:
            log.warning("callback given up", ending=ending, webhook_id=callback.id, type=callback.type, reason=reason)
        for pause in SETTLE_PAUSES:
            with suppress(StoreUnavailable):
                await self._queue.settle(callback, ending, pause_ms, reason)
                return
            await asyncio.sleep(pause)
        await self._queue.settle(callback, ending, pause_ms, reason)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), PAUSE)
