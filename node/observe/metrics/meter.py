"""Writes what a process counts to a file once a second, off the acknowledgement path.

The metrics process adds up the files of its instance and answers Prometheus (`server`).
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

from node.common import counters
from node.common.counters import AnswerCounts
from node.common.stopping import sleep_unless_stopped
from node.config import Settings
from node.observe.metrics.families import Role
from node.observe.metrics.snapshots import Reading, Snapshot, new_path, take_over, write
from node.store import Store
from node.web.route import Route

log = structlog.get_logger()

WRITE_SECONDS = 1.0
"""Interval between writes, in seconds. A process that is killed loses what it has counted since the last one."""

Readings = Callable[[], Iterable[Reading]]

OUTCOMES = ("delivered", "retry", "dropped", "dead")
"""How an attempt at a callback ends. Each is shown as 0 from the start, so that the first one is an increase."""

CHECK_OUTCOMES = (
    *("listed", "stays", "rejected", "stale"),
    *("open", "gated", "wrong_protocol", "unreachable", "unknown", "gone", "later"),
)
"""How a check of an agent ends: first for a posted URL, then for a listed agent."""

ALERTED = ("disk.low", "memory.low", "node.full", "node.overloaded", "server.bug")
"""Refusals that deploy/prometheus/alerts.yml alerts on. Each is shown as 0 from the start: Prometheus sees no increase
in a counter that appears with 1, so nobody would be alerted to the node's first fault.
"""

ACKNOWLEDGING = {"POST", "PUT", "DELETE"}


class Meter:
    """Writes the readings of one process for as long as it runs, if the settings ask for them (RELAY_ADMIN_PORT).

    `of_role` returns the readings that only processes of its role have.
    """

    def __init__(self, settings: Settings, role: Role, store: Store, of_role: Readings) -> None:
        self._settings = settings
        self._role = role
        self._store = store
        self._of_role = of_role
        self._inherited: list[Reading] = []
        self._took_a_place = False
        self._lag = 0.0
        self._fails = False
        if settings.metrics_dir:
            self._path = new_path(Path(settings.metrics_dir), role, os.getpid())
            with suppress(OSError):
                self._inherited, self._took_a_place = take_over(self._path)

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Write until cancelled or `stop` is set, and once more at the end."""
        if not self._settings.metrics_dir:
            return
        stop = stop or asyncio.Event()
        loop = asyncio.get_running_loop()
        writing = None
        try:
            while not stop.is_set():
                # In a thread: a slow disk must not hold up requests.
                writing = asyncio.ensure_future(asyncio.to_thread(self._write, self._snapshot()))
                await asyncio.shield(writing)
                due = loop.time() + WRITE_SECONDS
                await sleep_unless_stopped(stop, WRITE_SECONDS)
                self._lag = max(0.0, loop.time() - due)
        finally:
            if writing:  # it may still be under way, and would replace what is written now
                await writing
            self._write(self._snapshot())

    def _snapshot(self) -> Snapshot:
        readings = [*self._of_role(), *self._common()]
        return Snapshot(self._role, os.getpid(), time.monotonic(), readings, self._inherited)

    def _write(self, snapshot: Snapshot) -> None:
        try:
            write(self._path, snapshot)
        except OSError as error:  # a full disk must not fail requests, nor fill the log with a line each second
            if not self._fails:
                log.warning("metrics not written", reason=str(error))
            self._fails = True
        else:
            self._fails = False

    def _common(self) -> Iterator[Reading]:
        """Yield what processes of all roles count."""
        role = (self._role,)
        used, stats = resource.getrusage(resource.RUSAGE_SELF), self._store.stats
        yield Reading("relay_process_cpu_seconds_total", role, used.ru_utime + used.ru_stime)
        yield Reading("relay_process_memory_bytes", role, _resident_bytes())
        yield Reading("relay_process_starts_total", role, 1)
        yield Reading("relay_process_restarts_total", role, int(self._took_a_place))
        yield Reading("relay_event_loop_lag_seconds", role, self._lag)
        yield Reading("relay_store_calls_total", role, stats.calls)
        yield Reading("relay_store_batches_total", role, stats.batches)
        yield Reading("relay_store_reconnects_total", role, stats.reconnects)
        yield Reading("relay_store_in_flight", role, stats.in_flight)
        yield Reading("relay_store_in_flight_limit", role, self._store.max_in_flight)
        yield from _counts("relay_background_failures_total", counters.RESTARTS)
        yield from _counts("relay_artifact_states_total", counters.ARTIFACTS)


def of_web(routes: Sequence[Route], store: Store, followers: Callable[[], Mapping[str, int]]) -> Readings:
    """Return what only web processes count: requests, and clients that wait or follow."""

    def readings() -> Iterator[Reading]:
        for route in routes:
            yield from _answers(route.method, route.path, route.counts)
        yield from _answers("(any)", "(none)", counters.UNROUTED)
        yield from _answers("(any)", "(blobs)", counters.MOUNTED)
        yield from _counts("relay_refusals_total", dict.fromkeys(ALERTED, 0) | counters.REFUSALS)
        yield from _counts(
            "relay_gate_verdicts_total", dict(zip(("refused", "passed"), counters.VERDICTS, strict=True))
        )
        for outcome, counted in (("taken", counters.LIMIT_TAKEN), ("refused", counters.LIMIT_REFUSED)):
            for limit, count in counted.items():
                yield Reading("relay_limits_total", (limit, outcome), count)
        yield Reading("relay_held_requests", (), len(store.wakeups.waiters))
        yield from _counts("relay_followers", followers())

    return readings


def of_worker(callbacks: Mapping[str, int], checks: Mapping[str, int]) -> Readings:
    """Return what only workers count: attempts at callbacks and checks of agents, both by how they ended."""

    def readings() -> Iterator[Reading]:
        yield from _counts("relay_callbacks_total", dict.fromkeys(OUTCOMES, 0) | dict(callbacks))
        yield from _counts("relay_agent_checks_total", dict.fromkeys(CHECK_OUTCOMES, 0) | dict(checks))

    return readings


def _answers(method: str, route: str, counts: AnswerCounts) -> Iterator[Reading]:
    for digit, count in enumerate(counts.classes):
        if count or (digit == 5 and any(counts.classes)):  # shown as 0 for the alert on 5xx, as with ALERTED
            yield Reading("relay_requests_total", (method, route, f"{digit}xx"), count)
    if method in ACKNOWLEDGING and any(counts.buckets):
        yield Reading("relay_ack_seconds", (method, route), counts.seconds, list(counts.buckets))


def _counts(family: str, counted: Mapping[str, int]) -> Iterator[Reading]:
    for label, count in counted.items():
        yield Reading(family, (label,), count)


def _resident_bytes() -> int:
    """Return the resident memory in bytes; without /proc, its maximum so far."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
