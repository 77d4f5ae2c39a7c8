"""What a process counts, made known to the others of its instance: once a second, off the acknowledgement path.

The metrics process (`server`) adds the files up and answers Prometheus.
"""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from node import VERSION
from node.common import counters
from node.common.counters import Calls
from node.config import Settings
from node.observe.metrics.snapshots import Reading, Snapshot, write
from node.store import Store, long_poll
from node.web.route import Route

log = structlog.get_logger()

PERIOD = 1.0
"""Seconds between two writes: what a process that is killed has counted since the last one is lost."""

Source = Callable[[], Iterable[Reading]]

OUTCOMES = ("delivered", "retry", "dropped", "dead")
"""How an attempt at a callback ends; each is there from the start, so that the first one is an increase."""

ACKNOWLEDGING = {"POST", "PUT", "DELETE"}


class Meter:
    """Writes the figures of this process for as long as it runs."""

    def __init__(self, settings: Settings, role: str, sources: Sequence[Source]) -> None:
        self._role = role
        self._sources = [of_process(role, settings), *sources]
        self._path = Path(settings.metrics_dir) / f"{role}-{os.getpid()}-{time.time_ns()}.counts"
        self._lag = 0.0

    async def run(self) -> None:
        """Write until cancelled, and once more then."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                # The disk is waited for in a thread: a slow one must not hold up requests.
                await asyncio.to_thread(self._write, self.snapshot())
                due = loop.time() + PERIOD
                await asyncio.sleep(PERIOD)
                self._lag = max(0.0, loop.time() - due)
        finally:
            self._write(self.snapshot())

    def snapshot(self) -> Snapshot:
        """What there is to say now."""
        readings = [reading for source in self._sources for reading in source()]
        readings.append(Reading("relay_event_loop_lag_seconds", (self._role,), self._lag))
        return Snapshot(self._role, os.getpid(), time.monotonic(), readings)

    def _write(self, snapshot: Snapshot) -> None:
        try:
            write(self._path, snapshot)
        except OSError as error:  # a full disk costs figures, not requests
            log.warning("metrics not written", reason=str(error))


async def metered(settings: Settings, role: str, sources: Sequence[Source], stop: asyncio.Event) -> None:
    """Write figures until `stop` is set; none where nobody asks for them (RELAY_ADMIN_PORT)."""
    if not settings.metrics_dir:
        return
    writing = asyncio.ensure_future(Meter(settings, role, sources).run())
    await stop.wait()
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing


def of_operations(routes: Sequence[Route]) -> Source:
    """What is counted where requests are answered."""

    def readings() -> Iterator[Reading]:
        for route in routes:
            yield from _answers(route.method, route.path, route.calls)
        yield from _answers("(any)", "(none)", counters.UNROUTED)
        yield from _answers("(any)", "(blobs)", counters.MOUNTED)
        yield from _counts("relay_refusals_total", counters.REFUSALS)
        refused, passed = counters.VERDICTS
        yield Reading("relay_gate_verdicts_total", ("passed",), passed)
        yield Reading("relay_gate_verdicts_total", ("refused",), refused)
        for outcome, counted in (("taken", counters.TAKEN), ("refused", counters.OVER)):
            for limit, count in counted.items():
                yield Reading("relay_limits_total", (limit, outcome), count)

    return readings


def of_artifacts() -> Iterator[Reading]:
    """Web processes and workers both move artifacts on."""
    yield from _counts("relay_artifact_states_total", counters.ARTIFACTS)


def of_callbacks(outcomes: Mapping[str, int]) -> Source:
    """Attempts by how they ended, counted by whoever makes them."""
    return lambda: _counts("relay_callbacks_total", dict.fromkeys(OUTCOMES, 0) | dict(outcomes))


def of_store(store: Store, role: str) -> Source:
    """The wire to Redis, and the requests that are held for its news."""

    def readings() -> Iterator[Reading]:
        stats = store.stats
        yield Reading("relay_store_calls_total", (role,), stats.calls)
        yield Reading("relay_store_batches_total", (role,), stats.batches)
        yield Reading("relay_store_reconnects_total", (role,), stats.reconnects)
        yield Reading("relay_store_in_flight", (role,), stats.in_flight)
        yield Reading("relay_store_in_flight_limit", (role,), store.max_in_flight)
        if role == "web":
            yield Reading("relay_held_requests", (), long_poll.waiting_count(store.wakeups))

    return readings


def of_process(role: str, settings: Settings) -> Source:
    """What the operating system knows of this process."""

    def readings() -> Iterator[Reading]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        yield Reading("relay_process_cpu_seconds_total", (role,), used.ru_utime + used.ru_stime)
        yield Reading("relay_process_memory_bytes", (role,), _resident())
        yield Reading("relay_process_starts_total", (role,), 1)
        yield from _counts("relay_background_failures_total", counters.RESTARTS)
        yield Reading("relay_build_info", (VERSION, settings.node_id, settings.durability), 1)

    return readings


def _answers(method: str, route: str, calls: Calls) -> Iterator[Reading]:
    for digit, count in enumerate(calls.classes):
        if count:
            yield Reading("relay_requests_total", (method, route, f"{digit}xx"), count)
    if method in ACKNOWLEDGING and any(calls.buckets):
        yield Reading("relay_ack_seconds", (method, route), calls.seconds, list(calls.buckets))


def _counts(family: str, counted: Mapping[str, int]) -> Iterator[Reading]:
    for label, count in counted.items():
        yield Reading(family, (label,), count)


def _resident() -> int:
    """Bytes of memory; where there is no /proc, the most there ever were."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
