"""Delivers callbacks: at least once, no faster than a receiver can take them, and not for ever (DESIGN 8).

Two parts, both in the worker: `Callbacks` turns events of the outbox into messages in the queue, and `Deliverer` sends
the messages that are due. The table in `attempt.py` lists how an attempt can end, and what follows.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus

import msgspec
import structlog

from node.callbacks.attempt import (
    AttemptResult,
    Delivered,
    Later,
    ReceiverGone,
    Rejected,
    Retry,
    TargetForbidden,
    delay,
)
from node.callbacks.breaker import MAX_TURN_MS, Breaker
from node.callbacks.concurrency import Concurrency
from node.callbacks.envelope import CALLBACKS
from node.callbacks.fair import if_admitted
from node.callbacks.model import TaskCallback
from node.callbacks.owners import Requester
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue, Ending, id_of_message
from node.callbacks.sender import Sender
from node.callbacks.sources import ENTITY_PAUSE_MS, CallbackSource, EntitySource, PreparedCallback
from node.callbacks.target import TargetRefused, parse
from node.config import Schedule
from node.store import StoreUnavailable
from node.store.outbox import Event
from node.store.partition_schedule import run_due

log = structlog.get_logger()

JITTER = 0.2
"""Share of a pause by which it is randomly lengthened or shortened, so that the retries to one receiver spread out."""

MAX_MISSES = 3
"""Number of 404 answers after which the receiver counts as gone, and the message is dropped."""

PUT_OFF = "waits for its turn: earlier callbacks to this receiver failed, or its limit is used up"
"""The error that the owner sees for a callback that could not be attempted yet, unless an earlier attempt failed."""

MAX_UNDER_WAY = 2000
"""Maximum number of callbacks that this process has taken and not settled. Most of them wait for Redis or for a
place."""

MAX_WAIT_MS = 48 * 3600_000
"""Longest wait of a message for its turn or for a breaker that opens again and again, in milliseconds. After that it is
given up."""

SETTLE_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries to record how an attempt ended. All tries end before the callback is due again
(`queue.HIDDEN_MS`)."""

MessagesOf = Callable[[Event], Awaitable[Sequence[CallbackMessage]]]
"""Returns the messages that a feature has for an event. Each is due at once."""


class Overdue(Exception):
    """This process stood still for so long after it took a callback that another worker may have taken it as well."""


class Callbacks:
    """Enqueues a message for each event of an entity that has a callback_url."""

    def __init__(self, queue: CallbackQueue, public_url: str, others: Mapping[str, MessagesOf]) -> None:
        """`others`: the messages of features whose callbacks say more, by kind of event."""
        self._queue = queue
        self._base = public_url
        self._others = others

    async def handle(self, events: Sequence[Event]) -> None:
        """Enqueue the messages for events of one partition. Handling the same events again may send a message twice.

        Raises StoreUnavailable.
        """
        messages = [message for event in events if (message := self._message(event))]
        if messages:
            await self._queue.enqueue(events[0].partition, messages, ENTITY_PAUSE_MS)
        for event in events:
            if event.kind in self._others and (more := await self._others[event.kind](event)):
                await self._queue.enqueue(event.partition, more)

    def _message(self, event: Event) -> CallbackMessage | None:
        """Return the message about an event; None if no callback is wanted for it."""
        callback_url, entity = event.fields.get("callback"), event.entity
        if not callback_url:
            return None
        message_id = id_of_message(event)
        name, kind, after = entity, event.kind, None
        api, seq = f"{self._base}/api/v1", int(event.fields.get("seq") or 0)
        match kind:
            case "reply.posted":
                kind = "relay.reply" if event.fields.get("source") == "relay" else "board.reply"
                after, api_url = seq - 1, f"{api}/board/threads/{entity}"  # `EntitySource` adds `since_seq`
                data = {"thread_id": entity, "seq": seq, "url": f"{self._base}/board/{entity}", "api_url": api_url}
            case "session.line":
                data = {"session_id": entity, "seq": seq, "url": f"{api}/sessions/{entity}/messages"}
            case "inbox.message":
                url = f"{api}/inboxes/{entity}/messages"
                data = {"address": entity, "id": event.fields["message"], "seq": seq, "url": url}
            case _ if CALLBACKS.get(kind) is TaskCallback:
                name = message_id  # each step of a contract has a message of its own, so there is no pause
                status, attempt = event.fields.get("status", ""), int(event.fields.get("attempt") or 0)
                data = {"task_id": entity, "status": status, "attempt": attempt, "url": f"{api}/tasks/{entity}"}
            case _:
                return None
        return CallbackMessage(name, message_id, callback_url, kind, event.at, data, after)


class Deliverer:
    """Sends the callbacks that are due, within the shares of their publishers and as far as the breakers allow."""

    def __init__(
        self,
        queue: CallbackQueue,
        sender: Sender,
        breaker: Breaker,
        retries: Schedule,
        concurrency: Concurrency,
        sources: Mapping[str, CallbackSource],
    ) -> None:
        """`concurrency`: the places that its attempts share with other calls.

        `sources`: the sources of callbacks that are not about an entity, by type of callback.
        """
        self._queue = queue
        self._sender = sender
        self._breaker = breaker
        self._retry_seconds = retries.seconds
        self._concurrency = concurrency
        self._entities = EntitySource(queue)
        self._sources = sources
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        """Number of attempts by how they ended, for the metrics."""

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set. Attempts under way then have `partition_schedule.STOP_SECONDS` to end."""
        await run_due(self._queue.schedule, self._queue.take, self._attempt, most=MAX_UNDER_WAY, stop=stop)

    async def _attempt(self, callback: Callback) -> None:
        """Attempt a callback, and settle it. A failure here does not affect other callbacks.

        If the callback cannot be settled, for example because Redis is out of reach, it becomes due again by itself.
        """
        try:
            try:
                await self._deliver(callback)
            except (StoreUnavailable, Overdue):
                raise
            except Exception:
                log.exception("callback not sent", webhook_id=callback.id, type=callback.type)
                await self._retry(callback, Retry("an error of the node, see its log"))
        except (StoreUnavailable, Overdue):
            pass  # the connection logs the first; after the second, another worker settles the callback
        except Exception:
            log.exception("callback not settled", webhook_id=callback.id, type=callback.type)

    async def _deliver(self, callback: Callback) -> None:
        try:
            target = parse(callback.url, self._sender.policy)
        except TargetRefused as refused:
            await self._end(callback, "dropped", 0, str(refused))
            return
        source = self._sources.get(callback.type, self._entities)
        prepared = await source.prepare(callback, target.host)
        if prepared is None:
            await self._end(callback, "dropped", 0, "what it tells of is gone, or names this receiver no more")
            return
        requester = Requester(prepared.publisher, callback.name)

        async def send() -> AttemptResult:
            if asyncio.get_running_loop().time() >= callback.ours_until:
                raise Overdue
            return await self._sender.send(target, prepared.envelope, requester)

        result, has_failed = await if_admitted(self._breaker, self._concurrency, target, requester, send)
        # Settled before the breaker is told: if that fails, a receiver that has the message does not get it again.
        await self._settle(callback, result, source, prepared)
        await self._breaker.note(target, requester, result, works=has_failed and isinstance(result, Delivered))

    async def _settle(
        self, callback: Callback, result: AttemptResult, source: CallbackSource, prepared: PreparedCallback
    ) -> None:
        match result:
            case Delivered():
                if prepared.following:  # replaces this message in the queue, and stays when this one is settled
                    await self._queue.enqueue(callback.partition, [prepared.following])
                await self._end(callback, "delivered", source.pause_ms, "")
            case ReceiverGone():
                await source.forget(callback)
                await self._end(callback, "dropped", 0, "the receiver answered 410")
            case TargetForbidden(reason):
                await self._end(callback, "dropped", 0, reason)
            case Later(wait_ms):
                await self._postpone(callback, wait_ms, prepared.publisher)
            case Rejected(reason, status) if status == HTTPStatus.NOT_FOUND:
                missed = msgspec.structs.replace(callback, misses=callback.misses + 1)
                if missed.misses >= MAX_MISSES:
                    await self._end(missed, "dropped", 0, reason)
                else:
                    await self._retry(missed, result, prepared.publisher)
            case Rejected() | Retry():
                await self._retry(callback, result, prepared.publisher)

    async def _postpone(self, callback: Callback, wait_ms: int, publisher: str) -> None:
        """Postpone the callback by `wait_ms` and a random delay; give it up if it has waited, or would
        wait, too long.
        """
        if wait_ms > MAX_TURN_MS:
            await self._end(callback, "dead", 0, "too many callbacks wait before it", publisher)
        elif callback.waited > MAX_WAIT_MS:
            await self._end(callback, "dead", 0, "the receiver failed all the time", publisher)
        else:
            await self._queue.settle(callback, "postpone", wait_ms + random.randint(0, 1000), PUT_OFF)

    async def _retry(self, callback: Callback, result: Rejected | Retry, publisher: str = "") -> None:
        """Try again when the schedule says so. After the last attempt, the callback becomes a dead letter."""
        if callback.attempt >= len(self._retry_seconds):
            await self._end(callback, "dead", 0, result.reason, publisher)
            return
        asked = result.after if isinstance(result, Retry) else None
        pause = delay(self._retry_seconds[callback.attempt], asked) * random.uniform(1 - JITTER, 1 + JITTER)
        await self._end(callback, "retry", round(pause * 1000), result.reason)

    async def _end(self, callback: Callback, ending: Ending, pause_ms: int, reason: str, publisher: str = "") -> None:
        """Record how the attempt ended, with a few tries. Raises StoreUnavailable if all fail."""
        self.outcomes[ending] += 1
        if ending in {"dropped", "dead"}:
            # Not a warning: whoever gives a URL could cause one for every callback to it.
            log.info("callback given up", ending=ending, webhook_id=callback.id, type=callback.type, reason=reason)
        for pause in SETTLE_PAUSES:
            with suppress(StoreUnavailable):
                await self._queue.settle(callback, ending, pause_ms, reason, publisher)
                return
            await asyncio.sleep(pause)
        await self._queue.settle(callback, ending, pause_ms, reason, publisher)
