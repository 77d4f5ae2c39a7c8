"""The load generator: an open loop at a constant rate, and a closed loop that finds the ceiling.

Open loop: requests fall due by the clock, whatever the server does, and latency counts from the due
time. A request that finds no free connection waits for one, and that wait counts too. Closed loop:
every connection sends its next request as soon as it is answered; this measures throughput, never latency
under load. The generator also measures itself: how often it was late by its own fault, and how busy it was.
"""

import asyncio
import gc
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from bench.client import NO_ANSWER, TIMED_OUT, TIMEOUT_NS, UNANSWERED, Call, Connection, Pool
from bench.histogram import Histogram
from bench.schedule import LATE_NS, MOST_REQUESTS, SECOND, Schedule, Ticker, now

Calls: TypeAlias = Callable[[int], Call]
Second: TypeAlias = Callable[["Observed"], None]

DRAIN_SECONDS = 10.0
HEAD_START_NS = SECOND // 10  # from the start of the loop to its first request


class Counts:
    """Outcomes of the requests of one kind; latencies in nanoseconds."""

    __slots__ = ("missing", "others", "samples", "statuses")

    def __init__(self) -> None:
        self.samples = array("q")  # latencies of answers with an expected status
        self.others = array("q")  # latencies of all other answers
        self.missing = array("q")  # for requests without an answer: how long the generator waited
        self.statuses: Counter[int] = Counter()


class Observed:
    """The outcome of one run: counts for each kind of request, and figures about the generator itself."""

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = {}
        self.sent = 0
        self.late = 0  # requests sent more than 1 ms after their due time because the generator was busy
        self.delayed = 0  # requests that found no free connection
        self.seconds = 0.0
        self.busy = 0.0  # share of one core that the generator used

    def counts_of(self, kind: str) -> Counts:
        counts = self.counts.get(kind)
        if counts is None:
            counts = self.counts[kind] = Counts()
        return counts

    def latencies(self, kind: str | None = None) -> Histogram:
        """Latencies of expected and of missing answers, of one kind or of all.

        A request without an answer counts with the time that the generator waited for it: if it were left out, a
        server that stops answering would look faster than one that answers late. Answers with an unexpected status,
        such as refusals, are not included.
        """
        histogram = Histogram()
        for name, counts in self.counts.items():
            if kind is None or name == kind:
                histogram.record(counts.samples)
                histogram.record(counts.missing)
        return histogram

    @property
    def statuses(self) -> Counter[int]:
        return sum((counts.statuses for counts in self.counts.values()), Counter[int]())

    @property
    def good(self) -> int:
        return sum(len(counts.samples) for counts in self.counts.values())

    @property
    def bad(self) -> int:
        return sum(len(counts.others) + len(counts.missing) for counts in self.counts.values())


def _nothing(_observed: Observed) -> None:
    """Ignore progress."""


async def open_loop(
    pool: Pool, calls: Calls, schedule: Schedule, *, drain: float = DRAIN_SECONDS, each_second: Second = _nothing
) -> Observed:
    """Send `schedule.count` requests at their due times, then wait up to `drain` seconds for outstanding answers."""
    observed = Observed()
    waiting: deque[Call] = deque()
    idle = pool.idle
    over = asyncio.get_running_loop().create_future()
    start = 0

    def settle(call: Call, status: int, body: bytes) -> None:
        _count(observed, call, status, body)
        if observed.sent == schedule.count and not waiting and pool.under_way == 0:
            _end(over)

    def ready(connection: Connection) -> None:
        if waiting:
            connection.send(waiting.popleft(), now())
        else:
            idle.append(connection)

    def send_due() -> None:
        at = now()
        due_by = schedule.due_by(at - start)
        while observed.sent < due_by:
            call = calls(observed.sent)
            call.due = start + schedule.due(observed.sent)
            observed.sent += 1
            if at - call.due > LATE_NS:
                observed.late += 1
            if idle:
                idle.popleft().send(call, at)
            else:
                observed.delayed += 1
                waiting.append(call)
            at = now()

    def expire() -> None:
        while waiting and waiting[0].due < now() - TIMEOUT_NS:
            settle(waiting.popleft(), TIMED_OUT, b"")

    pool.done, pool.ready = settle, ready
    with _watched(pool, observed, over, each_second, expire):
        start = now() + HEAD_START_NS
        limit = HEAD_START_NS / SECOND + schedule.count / schedule.rate + drain
        with Ticker(start, schedule.tick, send_due):
            try:
                await asyncio.wait_for(over, limit)
            except TimeoutError:
                for call in (*waiting, *pool.calls):
                    _count(observed, call, UNANSWERED, b"")
        observed.seconds = (now() - start) / SECOND
    return observed


async def closed_loop(
    pool: Pool, calls: Calls, seconds: float, *, count: int = MOST_REQUESTS, each_second: Second = _nothing
) -> Observed:
    """Keep every connection of the pool busy for `seconds`, or until `count` requests have been sent."""
    observed = Observed()
    over = asyncio.get_running_loop().create_future()
    end = 0

    def send(connection: Connection) -> None:
        at = now()
        if at < end and observed.sent < count:
            call = calls(observed.sent)
            call.due = at
            observed.sent += 1
            connection.send(call, at)
        else:
            pool.idle.append(connection)
            if pool.under_way == 0:
                _end(over)

    def settle(call: Call, status: int, body: bytes) -> None:
        _count(observed, call, status, body)

    pool.done, pool.ready = settle, send
    with _watched(pool, observed, over, each_second, _no_queue):
        start = now()
        end = start + round(seconds * SECOND)
        idle = list(pool.idle)
        pool.idle.clear()
        for connection in idle:
            send(connection)
        try:
            await asyncio.wait_for(over, seconds + DRAIN_SECONDS)
        except TimeoutError:
            for call in pool.calls:
                _count(observed, call, UNANSWERED, b"")
        observed.seconds = (now() - start) / SECOND
    return observed


def keep_asking(pool: Pool, next_call: Callable[[int], Call]) -> None:
    """Have every connection send its next request as soon as it is answered, until the pool is closed.

    `next_call` gets the number of the connection. A connection that replaces a lost one sends nothing.
    """
    numbers = {connection: number for number, connection in enumerate(pool.idle)}
    pool.idle.clear()

    def send(connection: Connection) -> None:
        if connection in numbers:
            connection.send(next_call(numbers[connection]), now())

    pool.done = lambda call, status, body: call.answered(status, body) if call.answered else None
    pool.ready = send
    for connection in numbers:
        send(connection)


def _no_queue() -> None:
    """Do nothing: in a closed loop no request waits for a connection."""


def _end(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)


def _count(observed: Observed, call: Call, status: int, body: bytes) -> None:
    latency = now() - call.due
    counts = observed.counts.get(call.kind) or observed.counts_of(call.kind)
    counts.statuses[status] += 1
    if status in call.expect:
        counts.samples.append(latency)
    elif status in NO_ANSWER:
        counts.missing.append(latency)
    else:
        counts.others.append(latency)
    if call.answered is not None:
        call.answered(status, body)


@contextmanager
def _watched(
    pool: Pool,
    observed: Observed,
    over: "asyncio.Future[None]",
    each_second: Second,
    expire: Callable[[], None],
) -> Generator[None]:
    """Report progress and expire requests once a second, disable garbage collection, measure the generator's CPU use.

    An exception in a callback ends the measurement; otherwise it would look like a lost answer.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def tick() -> None:
        nonlocal timer
        pool.expire()
        expire()
        each_second(observed)
        timer = loop.call_later(1.0, tick)

    def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not over.done():
            over.set_exception(context.get("exception") or RuntimeError(context["message"]))

    # A caller that has frozen its objects has already collected garbage. Another collection may take so long that the
    # server closes idle connections.
    was_frozen = gc.get_freeze_count() > 0
    if not was_frozen:
        gc.collect()
        gc.freeze()
    gc.disable()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(failed)
    wall, busy = now(), time.process_time_ns()
    timer = loop.call_later(1.0, tick)
    try:
        yield
    finally:
        timer.cancel()
        observed.busy = (time.process_time_ns() - busy) / max(1, now() - wall)
        loop.set_exception_handler(handler)
        gc.enable()
        if not was_frozen:
            gc.unfreeze()
        pool.ready = pool.idle.append
