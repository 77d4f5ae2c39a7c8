"""The way of a request from Granian's threads into the event loop, with a door in it.

Granian parses a request on one thread, makes its ASGI scope on a second, and hands it to the event
loop. Under overload the requests queue in between, out of the application's sight, so the door is
there: a refusal is sent from Granian's thread, before the event loop, a task or the body have cost
anything. What is let in has its body asked for at once, so that it need not wait for it later.

Granian has no official place for this. `install` puts our scheduler in the place of its own; on a
Granian that is built differently it leaves all as it is and says so.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from importlib import import_module
from operator import itemgetter
from time import monotonic
from typing import Any

import structlog

from node.common import counters
from node.common.refusal import Refused
from node.overload.admission import CROWD, PATIENCE, Admission
from node.web.errors import refusal
from node.web.http import AGE_GROUP, FIRST_MESSAGE, ASGIMessage, Header, Response
from node.web.origin import CORS_OPEN

log = structlog.get_logger()

LOOK = 0.02
"""Seconds between two looks at the delay."""
AT_ONCE = 32
"""Requests that are begun in one turn of the event loop: those under way must get on as well."""
STORE_CALLS = 64
"""Calls to the store under way beyond which no request is begun: more wait here, where they can still be refused."""
PAUSE = 0.001
"""Seconds until the next turn, while requests wait for theirs."""
HOPS = 3
"""Times that a request that was begun waits in the event loop's queue: first step, body, and the store's reply."""
YOUNG = 0.25
"""Seconds after which a new generation begins. What is older than two of them waits for its client, not for us: it is
no work. Requests of which we know that they wait say so themselves (`Request.held`, slow bodies)."""

OVERLOADED = "node.overloaded"
BODIED = frozenset({"POST", "PUT"})
"""Methods whose body is asked for at once."""
ALWAYS = frozenset({"/health", "/ready"})
"""Paths that are answered whatever happens: they never wait at the door."""
RETRY_AFTER = 1.0
"""Seconds after which a refused client may come again."""

NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

SCHEDULER = "_cbsched_aioschedule"
"""Granian's function that makes the scheduler of requests (granian._futures, 2.8)."""

_name_of = itemgetter(0)

Serve = Callable[[Any], Coroutine[Any, Any, None]]
Schedule = Callable[[Any], None]
StoreLoad = Callable[[], tuple[int, int]]
"""Calls to the store that are under way, and those that have ended since the process started."""


class AgeGroup:
    """The requests that came within some time. Each number has one writer: Granian's thread, the event loop.

    `left` also counts those that wait for news or for their client, as long as they do.
    """

    __slots__ = ("entered", "inactive")

    def __init__(self) -> None:
        self.entered = 0
        self.inactive = 0


class Intake:
    """The door of one web process."""

    def __init__(
        self,
        admission: Admission,
        store_load: StoreLoad,
        clock: Callable[[], float] = monotonic,
        cors: tuple[Header, ...] = (CORS_OPEN,),
    ) -> None:
        """`cors`: what a refusal tells a browser, whichever page asks."""
        self._common = (NOSNIFF, *cors)
        self.admission = admission
        self._store_load = store_load
        self._clock = clock
        self._queue: deque[tuple[float, Any, AgeGroup]] = deque()
        """Requests that are let in and not begun, with the time they came."""
        self._beginning = False
        self.generation = AgeGroup()
        """The youngest requests; those of the one before count as well."""
        self._older = AgeGroup()
        self._young_until = 0.0
        self._last_end = clock()
        self._ended = 0
        self._request_prefix = os.urandom(5).hex()
        self._usual = self._messages(refusal(overloaded()))
        self._own: dict[str, tuple[int, list[Header], ASGIMessage]] = {}

    @property
    def working(self) -> int:
        """Requests that are worked on."""
        young, older = self.generation, self._older
        return young.entered - young.inactive + older.entered - older.inactive

    def answer_as(self, responses: Mapping[str, Response]) -> None:
        """Refuse requests to these paths in the form of their protocol."""
        self._own = {path: self._messages(response) for path, response in responses.items()}

    def scheduler(self, loop: asyncio.AbstractEventLoop, context: Context, serve: Serve) -> Schedule:
        """What Granian's thread calls with each request; `serve` makes the coroutine that answers it."""
        admission, clock, queue = self.admission, self._clock, self._queue
        call_soon_threadsafe, create_task = loop.call_soon_threadsafe, loop.create_task

        def schedule(watcher: Any) -> None:
            limit = admission.limit
            generation = self.generation
            scope = watcher.scope
            if scope["path"] in ALWAYS:
                generation.entered += 1
                call_soon_threadsafe(start, watcher, generation, context=context)
                return
            if limit is not None and self.working >= limit:
                admission.refused_early += 1
                self._refuse(watcher)
                return
            generation.entered += 1
            if scope.get("method") in BODIED and b"expect" not in map(_name_of, scope["headers"]):
                # Granian fetches it on its other thread meanwhile: when the request begins, the body is mostly there.
                # Who expects a 100 would be told to send it, though the headers alone may be reason to refuse.
                scope[FIRST_MESSAGE] = watcher.proto.receive()
            queue.append((clock(), watcher, generation))
            if not self._beginning:
                self._beginning = True
                call_soon_threadsafe(begin, context=context)

        def begin() -> None:
            self._beginning = False  # first: what comes from now on must not rely on this turn
            if not queue:
                return
            take = queue.popleft
            late = clock() - PATIENCE
            if queue[0][0] < late and (admission.limit is not None or self.working > CROWD):
                # Few must take their turns, or the oldest would starve behind clients that ask again and again.
                take = queue.pop
                if admission.impatient:
                    self._refuse_late(late)
            under_way, _ = self._store_load()
            for _ in range(min(AT_ONCE, len(queue), STORE_CALLS - under_way)):
                _, watcher, generation = take()
                start(watcher, generation)
            if queue:
                self._beginning = True
                loop.call_later(PAUSE, begin, context=context)

        def start(watcher: Any, generation: AgeGroup) -> None:
            watcher.scope[AGE_GROUP] = generation
            watcher.taskref(create_task(run(watcher, generation)))

        async def run(watcher: Any, generation: AgeGroup) -> None:
            await serve(watcher)  # which lets no exception out
            generation.inactive += 1
            _let_go(watcher)

        loop.call_soon(self._wait, loop)
        return schedule

    def _refuse_late(self, late: float) -> None:
        """Refuse what came before `late`: its answer would come late, and others are turned away for it."""
        queue = self._queue
        while queue and queue[0][0] < late:
            _, watcher, generation = queue.popleft()
            generation.inactive += 1
            self.admission.refused_late += 1
            self._refuse(watcher)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(LOOK, loop.call_soon, self._look, loop, self._clock() + LOOK)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Runs behind all that was in the event loop's queue at `due`: it has waited as long as a step would."""
        now = self._clock()
        queued = now - self._queue[0][0] if self._queue else 0.0
        delay = queued + HOPS * max(0.0, now - due) + self._store_delay(now)
        self.admission.look(now, delay, self.working)
        if self.admission.refused:
            counters.REFUSALS[OVERLOADED] = self.admission.refused
        if now >= self._young_until:
            self._older, self.generation = self.generation, AgeGroup()
            self._young_until = now + YOUNG
        self._wait(loop)

    def _store_delay(self, now: float) -> float:
        """Seconds that a call to the store takes at present, by Little's law: as many are under way as end in them."""
        under_way, ended = self._store_load()
        elapsed, lately = now - self._last_end, ended - self._ended
        if lately or not under_way:
            self._last_end, self._ended = now, ended
            return elapsed * under_way / max(1, lately)
        return elapsed

    def _refuse(self, watcher: Any) -> None:
        _let_go(watcher)
        status, headers, body = self._own.get(watcher.scope["path"], self._usual)
        number = b"%s%08x" % (self._request_prefix.encode(), self.admission.refused)
        start = {"type": "http.response.start", "status": status, "headers": [*headers, (b"x-request-id", number)]}
        # Both take effect when called. What they give is for awaiting, and there is nothing to await.
        watcher.proto.send(start)
        watcher.proto.send(body)

    def _messages(self, response: Response) -> tuple[int, list[Header], ASGIMessage]:
        headers = [*response.headers, *self._common, (b"content-length", b"%d" % len(response.body))]
        return response.status, headers, {"type": "http.response.body", "body": response.body}


def _let_go(watcher: Any) -> None:
    """Wait no more for the body: Granian closes a connection whose body does not come when its last reader is gone."""
    asked = watcher.scope.get(FIRST_MESSAGE)
    if asked is not None:
        asked.cancel()


def overloaded() -> Refused:
    """What a request is told that was not let in."""
    return Refused(OVERLOADED, retry_after=RETRY_AFTER)


def install(intake: Intake) -> bool:
    """Let requests come in through `intake`, in this process; before Granian's worker starts. False if it cannot."""
    futures = import_module("granian._futures")
    if not hasattr(futures, SCHEDULER):
        log.warning("this Granian has no place for admission control: overload is not refused early")
        return False
    setattr(futures, SCHEDULER, intake.scheduler)
    return True
