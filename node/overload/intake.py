"""Takes requests from Granian into the event loop, and under overload refuses them before they get there.

Granian parses requests on its own threads and schedules a task for each in the event loop. Under overload, tasks would
queue up there, where the application cannot see them. This module therefore replaces Granian's scheduler. It refuses
requests on Granian's thread, before they cost the event loop anything, and it has its own queue of requests that have
not begun, whose length and age it knows.

Granian has no official way to do this. When a worker starts, Granian calls `granian._futures._cbsched_aioschedule(loop,
context, serve)`. The result is a function that Granian calls on its thread with each request's *watcher*:

- `watcher.scope` is the ASGI scope;
- `watcher.proto` has ASGI's `receive` and `send`. They may be called on any thread and take effect immediately. The
  result of `receive` is similar to an asyncio.Future, whose callbacks run in the event loop;
- `watcher.taskref(task)` keeps a reference to the task that serves the request;
- `watcher.done()` and `watcher.err(failure)` report how the application ended. Without an answer, Granian sends 500;
- `serve(watcher)` is the coroutine that runs the application and reports that. `Intake._run` does it with fewer calls.

`install` replaces `_cbsched_aioschedule` with `Intake.scheduler`. It changes nothing if Granian lacks that function.
"""

import asyncio
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextvars import Context
from importlib import import_module
from operator import itemgetter
from time import monotonic
from typing import Any

import msgspec
import structlog

from node.common import counters
from node.common.cohort import COHORT, STAGES
from node.common.refusal import Refused
from node.overload.admission import MAX_NORMAL_REQUESTS, MAX_QUEUE_SECONDS, Admission
from node.share.site import site_of
from node.web.errors import CLOSE, refusal
from node.web.http import FIRST_MESSAGE, NOSNIFF, ASGIApp, ASGIMessage, Header, Response, Scope
from node.web.origin import CORS_OPEN
from node.web.turn import AGE_GROUP

log = structlog.get_logger()

OBSERVE_SECONDS = 0.02
"""Interval between two measurements of the delay."""
BEGUN_PER_TURN = 32
"""Most requests that begin in one turn of the event loop. This leaves time for the requests under way."""
MAX_STORE_CALLS = 64
"""Calls to Redis under way at which no further request begins: a request that is still in this queue can be refused."""
TURN_SECONDS = 0.001
"""Time until the next turn while requests are queued."""
LOOP_PASSES = 3
"""How often a request waits in the event loop's own queue: for its first step, its body, and the reply of Redis; in a
cohort in step also after each of its STAGES."""
AGE_GROUP_SECONDS = 0.25
"""Time after which a new AgeGroup begins. A request older than two groups is assumed to wait for its client or for a
change, which is no work for the process. (`AgeGroup.inactive` subtracts at once those known to wait.)"""

OVERLOADED = "node.overloaded"
WITH_BODY = frozenset({"POST", "PUT"})
"""Methods whose body is requested at once. Such a request begins when its body has arrived. Beginning earlier and
waiting would cost a second wake-up of the event loop, a tenth of an acknowledgement."""
BODY_SECONDS = 0.02
"""How long a request is held for its body. After that it begins without: the sender is slow, or sends no body."""
NEVER_QUEUED = frozenset({"/health", "/ready"})
"""Paths that are served at once, whatever the load."""
UNREAD_BYTES = 8192
"""Largest body that Granian itself drops after a refusal, if the body has arrived, so that the connection stays open.
With a larger body Granian closes the connection, and the refusal announces that."""
UNREAD_HEADERS = frozenset({b"transfer-encoding", b"expect"})
"""Headers of requests whose body has an unknown size, or is sent only on demand."""
RETRY_AFTER_SECONDS = 1.0
"""Seconds after which a refused client may try again."""

SCHEDULER = "_cbsched_aioschedule"
"""The function of `granian._futures` that is replaced (Granian 2.8)."""

_name_of = itemgetter(0)

Schedule = Callable[[Any], None]
StoreLoad = Callable[[], tuple[int, int]]
"""Returns the number of calls to Redis under way, and the number that have ended since the process started."""


class AgeGroup:
    """The requests that arrived in one period of AGE_GROUP_SECONDS. Each count is written by one thread only."""

    __slots__ = ("ended_by_site", "entered", "entered_by_site", "inactive")

    def __init__(self) -> None:
        self.entered = 0
        """Admitted requests; written by Granian's thread."""
        self.inactive = 0
        """How many of these have ended, or wait for a change or for their client; written by the event loop."""
        self.entered_by_site: dict[str, int] = {}
        """Requests admitted during overload, by the site of their client; written by Granian's thread."""
        self.ended_by_site: dict[str, int] = {}
        """How many of the requests in `entered_by_site` have ended; written by the event loop."""

    def under_way(self, site: str) -> int:
        """Return how many requests of a site that were admitted during overload have not ended."""
        return self.entered_by_site.get(site, 0) - self.ended_by_site.get(site, 0)


class AdmittedRequest(msgspec.Struct):
    """A request that was admitted."""

    watcher: Any
    group: AgeGroup
    """The group in which it is counted."""
    at: float = 0.0
    """When it arrived, by the clock of the intake."""
    site: str = ""
    """The site of its client; empty if it is not counted by site."""

    def end(self) -> None:
        """Count the request as ended."""
        self.group.inactive += 1
        if self.site:
            self.group.ended_by_site[self.site] = self.group.ended_by_site.get(self.site, 0) + 1


class Intake:
    """Admits requests to one web process, or refuses them."""

    _loop: asyncio.AbstractEventLoop
    _context: Context
    application: ASGIApp
    """The application that serves the requests. Must be set before the worker starts."""

    def __init__(
        self,
        admission: Admission,
        store_load: StoreLoad,
        clock: Callable[[], float] = monotonic,
        cors: tuple[Header, ...] = (CORS_OPEN,),
    ) -> None:
        """`cors`: the CORS headers of refusals."""
        self.admission = admission
        self._store_load = store_load
        self._clock = clock
        self._common_headers = (NOSNIFF, *cors)
        self.client_of: Callable[[Scope], str] | None = None
        """Finds the client of a request (`node.web.address`). None: all clients have one share of the process."""
        self._queue: deque[AdmittedRequest] = deque()
        """Requests that were admitted and have not begun."""
        self._without_body: dict[Any, AdmittedRequest] = {}
        """Requests that wait for their body before they are queued, by the future of the body."""
        self._turn_is_due = False
        """Whether `_begin_queued` is scheduled."""
        self.age_group = AgeGroup()
        """The group of the requests that arrive now."""
        self._previous_group = AgeGroup()
        self._group_ends = 0.0
        self._last_call_end = clock()
        self._calls_ended = 0
        self._request_prefix = os.urandom(5).hex()
        self._refusal = self._messages(refusal(overloaded()))
        self._refusals_by_path: dict[str, tuple[int, list[Header], ASGIMessage]] = {}

    @property
    def working(self) -> int:
        """Requests that the process works on or has queued."""
        group, previous = self.age_group, self._previous_group
        return group.entered - group.inactive + previous.entered - previous.inactive

    def answer_as(self, responses: Mapping[str, Response]) -> None:
        """Refuse requests to these paths with these answers, which have the error format of their protocol."""
        self._refusals_by_path = {path: self._messages(response) for path, response in responses.items()}

    def scheduler(self, loop: asyncio.AbstractEventLoop, context: Context, serve: object) -> Schedule:
        """Granian calls this when the worker starts. Return the function that it then calls with each request."""
        self._loop, self._context = loop, context
        loop.call_soon(self._observe_later)
        return self._schedule

    def _schedule(self, watcher: Any) -> None:
        """Refuse a request or queue it. Runs on Granian's thread."""
        limit, group, scope = self.admission.limit, self.age_group, watcher.scope
        if scope["path"] in NEVER_QUEUED:
            group.entered += 1
            self._loop.call_soon_threadsafe(self._begin, AdmittedRequest(watcher, group), context=self._context)
            return
        site = ""
        if limit is not None:
            site = self.site_of(scope)
            if self.working >= limit and self._under_way(site) >= self._share(limit):
                self.admission.refused_early += 1
                self._refuse(watcher)
                return
            if site:
                group.entered_by_site[site] = group.entered_by_site.get(site, 0) + 1
        group.entered += 1
        request = AdmittedRequest(watcher, group, self._clock(), site)
        # Requesting the body would tell a client that sent Expect to send it, although its headers may be a reason to
        # refuse.
        if scope.get("method") in WITH_BODY and b"expect" not in map(_name_of, scope["headers"]):
            body = scope[FIRST_MESSAGE] = watcher.proto.receive()
            if not body.done():
                # Add the callback first: Granian keeps only the last one. Once the event loop can find the request, it
                # may begin it at any time, and the application then waits for the body with its own callback.
                body.add_done_callback(self._queue_with_body, context=self._context)
                self._without_body[body] = request
                return
        self._queue.append(request)
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon_threadsafe(self._begin_queued, context=self._context)

    def client(self, scope: Scope) -> str:
        """Return the client of a request; empty if clients are not known."""
        return self.client_of(scope) if self.client_of else ""

    def site_of(self, scope: Scope) -> str:
        """Return the site of a request's client; empty if clients are not known."""
        return site_of(self.client(scope))

    def _share(self, limit: int, sites: int = 1) -> int:
        """Return each site's share of the limit, so that only sites with hundreds of requests at a time are refused.
        The limit is divided by the number of sites admitted lately, but at least by `sites`."""
        return limit // max(len(self.age_group.entered_by_site), len(self._previous_group.entered_by_site), sites)

    def _under_way(self, site: str) -> float:
        """Return the number of a site's requests that were admitted during overload and have not ended; infinite if
        `site` is empty."""
        return self.age_group.under_way(site) + self._previous_group.under_way(site) if site else math.inf

    def _queue_with_body(self, body: Any) -> None:
        """Queue a request whose body has begun to arrive; `_queue_those_without_body` queues one not noted yet."""
        request = self._without_body.pop(body, None)
        if request is not None:
            self._queue_now(request)

    def _queue_those_without_body(self, now: float) -> None:
        """Queue the requests whose body is late. Their handlers decide how long to wait for it."""
        # Copied in one step: Granian's thread may add a request even while a list is being made.
        for body, request in self._without_body.copy().items():
            if request.at > now - BODY_SECONDS:
                return
            if self._without_body.pop(body, None) is not None:
                request.at = now  # as if it arrived now: the sender caused the delay
                self._queue_now(request)

    def _queue_now(self, request: AdmittedRequest) -> None:
        self._queue.append(request)
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_soon(self._begin_queued, context=self._context)

    def _begin_queued(self) -> None:
        """Begin as many requests as one turn of the event loop takes."""
        queue = self._queue
        self._turn_is_due = False  # first, so that a request that arrives from now on schedules its own turn
        if not queue:
            return
        take = queue.popleft
        oldest_in_time = self._clock() - MAX_QUEUE_SECONDS
        limit = self.admission.limit
        if queue[0].at < oldest_in_time and (limit is not None or self.working > MAX_NORMAL_REQUESTS):
            # Newest first, since the oldest are late already. Not with few requests: clients that call again and again
            # would keep the oldest ones from ever beginning.
            take = queue.pop
            if limit is not None and self.admission.is_refusing:
                self._refuse_queued(oldest_in_time, limit)
        calls, _ = self._store_load()
        size = min(BEGUN_PER_TURN, len(queue), MAX_STORE_CALLS - calls)
        if size > 0:
            COHORT.begin(size)
        for _ in range(size):
            self._begin(take())
        if queue:
            self._turn_is_due = True
            self._loop.call_later(TURN_SECONDS, self._begin_queued, context=self._context)

    def _begin(self, request: AdmittedRequest) -> None:
        watcher = request.watcher
        watcher.scope[AGE_GROUP] = request.group
        # `create_task` would take longer, and so would generating a name.
        watcher.taskref(asyncio.Task(self._run(request), loop=self._loop, name="request"))

    async def _run(self, request: AdmittedRequest) -> None:
        watcher = request.watcher
        try:
            await self.application(watcher.scope, watcher.proto.receive, watcher.proto.send)
        except BaseException as failure:  # noqa: BLE001 - whatever it is, Granian logs it and answers
            watcher.err(failure)
        else:
            watcher.done()
        request.end()
        _cancel_body(watcher)

    def _refuse_queued(self, oldest_in_time: float, limit: int) -> None:
        """Refuse the queued requests that arrived before `oldest_in_time`, except those of sites within their share."""
        queue = self._queue
        late: list[AdmittedRequest] = []
        while queue and queue[0].at < oldest_in_time:
            late.append(queue.popleft())
        # Requests from before the overload are counted by site only now: not all of their clients contribute to the
        # overload.
        uncounted = Counter(self.site_of(request.watcher.scope) for request in late if not request.site)
        share = self._share(limit, max(1, len(uncounted)))
        kept: list[AdmittedRequest] = []
        for request in late:
            site = request.site or self.site_of(request.watcher.scope)
            if self._under_way(site) + uncounted[site] <= share:
                kept.append(request)
                continue
            if not request.site:
                uncounted[site] -= 1
            request.end()
            self.admission.refused_late += 1
            self._refuse(request.watcher)
        queue.extendleft(reversed(kept))

    def _refuse(self, watcher: Any) -> None:
        status, headers, body = self._refusals_by_path.get(watcher.scope["path"], self._refusal)
        request_id = b"%s%08x" % (self._request_prefix.encode(), self.admission.refused)
        headers = [*headers, (b"x-request-id", request_id)]
        if _ends_connection(watcher.scope):
            headers.append(CLOSE)
        _cancel_body(watcher)
        start = {"type": "http.response.start", "status": status, "headers": headers}
        # Both calls take effect immediately. Their results need not be awaited.
        watcher.proto.send(start)
        watcher.proto.send(body)

    def _messages(self, response: Response) -> tuple[int, list[Header], ASGIMessage]:
        headers = [*response.headers, *self._common_headers, (b"content-length", b"%d" % len(response.body))]
        return response.status, headers, {"type": "http.response.body", "body": response.body}

    def _observe_later(self) -> None:
        # Through call_soon, `_observe` runs after everything that is in the event loop's queue when the time has come,
        # so it is as late as the next step of a request would be.
        due = self._clock() + OBSERVE_SECONDS
        self._loop.call_later(OBSERVE_SECONDS, self._loop.call_soon, self._observe, due)

    def _observe(self, due: float) -> None:
        """Measure how long a request takes now: in this queue, in the event loop's queue, and in Redis."""
        now = self._clock()
        queued = now - self._queue[0].at if self._queue else 0.0
        passes = LOOP_PASSES + (STAGES if COHORT.in_step else 0)
        delay = queued + passes * max(0.0, now - due) + self._store_delay(now)
        self.admission.observe(now, delay, self.working)
        self._queue_those_without_body(now)
        if self.admission.refused:
            counters.REFUSALS[OVERLOADED] = self.admission.refused
        if now >= self._group_ends:
            self._previous_group, self.age_group = self.age_group, AgeGroup()
            self._group_ends = now + AGE_GROUP_SECONDS
        self._observe_later()

    def _store_delay(self, now: float) -> float:
        """Return the seconds that a call to Redis takes now: calls under way divided by calls ended per second
        (Little's law)."""
        under_way, ended = self._store_load()
        elapsed, lately = now - self._last_call_end, ended - self._calls_ended
        if lately or not under_way:
            self._last_call_end, self._calls_ended = now, ended
            return elapsed * under_way / max(1, lately)
        return elapsed


def _cancel_body(watcher: Any) -> None:
    """Stop waiting for the body: Granian closes a connection whose body does not come only when no reader is left."""
    requested = watcher.scope.get(FIRST_MESSAGE)
    if requested is not None:
        requested.cancel()


def _ends_connection(scope: Scope) -> bool:
    """Return whether Granian closes the connection of a request that is refused now, because its body is not read."""
    named = dict(scope["headers"])
    announced = int(named.get(b"content-length", b"0"))
    requested = scope.get(FIRST_MESSAGE)
    if requested is None:
        return announced > UNREAD_BYTES or not UNREAD_HEADERS.isdisjoint(named)
    if not requested.done():
        return True
    message = requested.result()
    # Granian reports the end of a body with another, empty message, which is not needed if the length is known.
    return message.get("more_body", False) and len(message["body"]) != announced


def overloaded() -> Refused:
    """Return the refusal of a request under overload."""
    return Refused(OVERLOADED, retry_after=RETRY_AFTER_SECONDS)


def install(intake: Intake) -> bool:
    """Make Granian use `intake` in this process, before its worker starts. Returns False if that is impossible."""
    futures = import_module("granian._futures")
    if not hasattr(futures, SCHEDULER):
        log.warning("this Granian has no place for admission control: overload is not refused early")
        return False
    setattr(futures, SCHEDULER, intake.scheduler)
    return True
