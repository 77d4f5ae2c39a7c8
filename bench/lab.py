"""The lab that a scenario works with: it starts servers, puts load on them, and keeps the figures.

A measurement is a warm-up followed by several runs of the same load, each on fresh connections. A row
holds the median of the runs and their spread. Scenarios decide what to send and what to compare.
"""

import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from bench import node
from bench.client import Pool
from bench.load import DRAIN_SECONDS, Calls, Observed, closed_loop, open_loop
from bench.measurement import Measurement, one_line
from bench.result import NODE, Point, Results, Row, merged
from bench.schedule import Schedule
from bench.server import Server, Unfit, given

CONNECTIONS = 64
FILLING_CONNECTIONS = 32

COMPARED_SECONDS = 1.0
"""Length of a run that is compared with others. The speed of a shared host changes within seconds: the shorter two
neighbouring runs are, the more reliable is their ratio, and the median of many ratios is better than that of three."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line. If `rate` is None, a scenario chooses its own."""

    rate: float | None = None
    seconds: float = 2.0
    warmup: float = 1.0
    runs: int = 3
    connections: int = CONNECTIONS
    url: str = ""
    full: bool = False
    peers: bool = True


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Another server that does something comparable, and the requests for it."""

    name: str
    about: str
    start: Callable[[Path], AbstractAsyncContextManager[Server]]
    calls: Calls


class Lab:
    """Runs the measurements of one scenario as the options say, and adds rows and points to the results."""

    def __init__(self, scenario: str, options: Options, results: Results) -> None:
        self.scenario = scenario
        self.options = options
        self.results = results
        # A number for each request of this lab. It starts with the time, so a second run against the same node
        # repeats no payload either.
        self.numbers = itertools.count(time.time_ns() // 1_000_000)
        self._first_address = 0

    # Servers

    @contextlib.asynccontextmanager
    async def node(
        self,
        role: node.Role = "serve",
        prefix: node.Prefix = node.no_prefix,
        home: Path | None = None,
        /,
        **own: str,
    ) -> AsyncGenerator[Server]:
        """Yield the node at --url, or else start one.

        `own`: its settings beyond the usual ones. `prefix`: makes the words that precede its command. `home`: the
        directory of an earlier node whose data it takes over; by default it gets an empty one.
        """
        if self.options.url:
            yield given(self.options.url)
            return
        with tempfile.TemporaryDirectory(prefix="bench-") as fresh:
            self.say(f"starting relay-node ({role})")
            async with node.running(home or Path(fresh), own, role, prefix) as server:
                self.say(f"relay-node ({role}) answers after {server.start_seconds:.2f} s")
                yield server

    @contextlib.asynccontextmanager
    async def peers(self, peers: Sequence[Peer]) -> AsyncGenerator[list[tuple[Server, Calls]]]:
        """Start all peers that can run here and yield them with their requests. The results note the others."""
        running: list[tuple[Server, Calls]] = []
        async with contextlib.AsyncExitStack() as stack:
            for peer in peers:
                home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
                self.say(f"starting {peer.name}")
                try:
                    running.append((await stack.enter_async_context(peer.start(home)), self.numbered(peer.calls)))
                except Unfit as unfit:
                    self.skip(peer.name, unfit)
            yield running

    @property
    def alone(self) -> bool:
        """Whether to measure only the node: because of --url, --rate or --no-peers."""
        return bool(self.options.url) or self.options.rate is not None or not self.options.peers

    @property
    def seconds_of_a_measurement(self) -> float:
        return self.options.warmup + self.options.runs * self.options.seconds

    # Measurements

    async def at_rate(
        self,
        server: Server,
        calls: Calls,
        what: str,
        rate: float,
        *,
        connections: int | None = None,
        runs: int | None = None,
        seconds: float | None = None,
        warmup: float | None = None,
        drain: float = DRAIN_SECONDS,
    ) -> Row:
        """Measure an open loop at `rate` requests per second."""
        measurement = self._open_loop(server, calls, what, rate, connections, drain)
        [row] = await self._taken([measurement], runs, seconds, warmup)
        return row

    async def at_ceiling(
        self,
        server: Server,
        calls: Calls,
        what: str,
        *,
        connections: int | None = None,
        runs: int | None = None,
    ) -> Row:
        """Measure a closed loop: as many requests as `connections` connections get answered."""
        [row] = await self._taken([self._closed_loop(server, calls, what, connections)], runs)
        return row

    async def at_ceilings(self, server: Server, kinds: Mapping[str, Calls]) -> list[Row]:
        """Measure several kinds of request at their ceilings. Their runs alternate, which makes costs comparable."""
        return await self._compared([self._closed_loop(server, calls, what) for what, calls in kinds.items()])

    async def side_by_side(
        self, pairs: Sequence[tuple[Server, Calls]], what: str, rate: float | None = None
    ) -> list[Row]:
        """Measure the same load on several servers, at `rate` if given, else at the ceiling.

        Their runs alternate, so that other work on the machine affects all servers alike. A server that fails is left
        out, unless it is the first: then its Unfit is raised.
        """
        return await self._compared(
            [
                self._closed_loop(server, calls, what) if rate is None else self._open_loop(server, calls, what, rate)
                for server, calls in pairs
            ]
        )

    async def at_asked_rate(self, server: Server, calls: Calls) -> Row:
        """Measure at --rate; without it, measure the ceiling first and then half of it."""
        rate = self.options.rate
        if rate is None:
            ceiling = await self.at_ceiling(server, calls, "ceiling")
            return await self.at_rate(server, calls, "half of the ceiling", ceiling.requests_per_s / 2)
        return await self.at_rate(server, calls, "open loop", rate)

    def _open_loop(
        self,
        server: Server,
        calls: Calls,
        what: str,
        rate: float,
        connections: int | None = None,
        drain: float = DRAIN_SECONDS,
    ) -> Measurement:
        # Every connection is used at least every two seconds: servers close one that is idle for five.
        size = max(1, min(connections or self.options.connections, int(rate * 2)))

        def once(pool: Pool, seconds: float, label: str) -> Awaitable[Observed]:
            return open_loop(pool, calls, Schedule(rate, seconds), drain=drain, each_second=self.progress(label))

        row = Row(scenario=self.scenario, subject=server.name, what=what, rate=rate, connections=size)
        return Measurement(server, row, self.pool, once)

    def _closed_loop(self, server: Server, calls: Calls, what: str, connections: int | None = None) -> Measurement:
        def once(pool: Pool, seconds: float, label: str) -> Awaitable[Observed]:
            return closed_loop(pool, calls, seconds, each_second=self.progress(label))

        size = connections or self.options.connections
        return Measurement(
            server,
            Row(scenario=self.scenario, subject=server.name, what=what, connections=size),
            self.pool,
            once,
        )

    async def _compared(self, measurements: list[Measurement]) -> list[Row]:
        """Take runs of about COMPARED_SECONDS, which together last as long as those of any other measurement."""
        parts = max(1, round(self.options.seconds / COMPARED_SECONDS))
        return await self._taken(measurements, self.options.runs * parts, self.options.seconds / parts)

    async def _taken(
        self,
        measurements: list[Measurement],
        runs: int | None = None,
        seconds: float | None = None,
        warmup: float | None = None,
    ) -> list[Row]:
        """Take the runs of all measurements in turn, and keep and return their rows."""
        runs, seconds = runs or self.options.runs, seconds or self.options.seconds
        for measurement in measurements:
            await measurement.warm_up(self.options.warmup if warmup is None else warmup)
        failed: set[Measurement] = set()
        for _ in range(runs):
            for measurement in measurements:
                if measurement not in failed:
                    try:
                        await measurement.run(seconds, runs)
                    except Unfit as unfit:
                        if measurement is measurements[0]:
                            raise
                        failed.add(measurement)
                        self.skip(measurement.row.subject, unfit)
        taken = [measurement for measurement in measurements if measurement not in failed]
        for measurement in taken:
            self.results.rows += measurement.finish()
            self.say(f"{measurement.label}: {one_line(measurement.row)}")
        return [measurement.row for measurement in taken]

    def numbered(self, calls: Calls) -> Calls:
        """Number the requests across all measurements of this lab, instead of from 0 in each."""
        return lambda _index: calls(next(self.numbers))

    def pool(self, server: Server, size: int) -> Pool:
        """Return a pool whose addresses no other pool of this lab has used."""
        first, self._first_address = self._first_address, self._first_address + size
        return Pool(server.host, server.port, size, dialect=server.dialect, first_address=first)

    async def fill(self, server: Server, calls: Calls, count: int, what: str, seconds: float = 600.0) -> Observed:
        """Prepare a measurement: send `count` requests as fast as they are answered. Raises Unfit if any one fails."""
        async with self.pool(server, min(FILLING_CONNECTIONS, count)) as pool:
            label = f"{server.name}: preparing {count:,} {what}"
            seen = await closed_loop(pool, calls, seconds, count=count, each_second=self.progress(label))
        if seen.good != count:
            raise Unfit(f"{label}: {seen.good} answered as expected, statuses {merged([seen.statuses])}")
        return seen

    # Figures and progress

    def point(self, name: str, value: float, unit: str = "", note: str = "") -> None:
        self.results.points.append(Point(self.scenario, NODE, name, round(value, 4), unit, note))
        self.say(f"{NODE}: {name}: {value:,.2f} {unit} {note}".rstrip())

    def skip(self, what: str, why: Exception) -> None:
        """Note in the results that something was not measured, and why."""
        self.results.skipped.append(f"{what}: {why}")
        self.say(f"not measured: {what}: {why}")

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        print(f"[{self.scenario}] {text}", file=sys.stderr, flush=True)

    def progress(self, label: str) -> Callable[[Observed], None]:
        """Return a callback that shows progress: one line updated every second on a terminal, or a line every 10 s."""
        seconds = itertools.count(1)

        def show(seen: Observed) -> None:
            text = f"{label}: sent {seen.sent:,}, good {seen.good:,}, other {seen.bad:,}"
            second = next(seconds)
            if sys.stderr.isatty():
                print(f"\r\x1b[K[{self.scenario}] {text}", end="", file=sys.stderr, flush=True)
            elif second % 10 == 0:
                self.say(text)

        return show
