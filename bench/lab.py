"""What a scenario works with: it starts servers, loads them, and keeps the figures.

A measurement is a warm-up and then several runs of the same load, each on fresh connections; a row
holds the median of the runs and their spread. Scenarios say what to send and what to compare.
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
"""Length of a run of things that are compared. A shared host changes its speed within seconds: the ratio of two
neighbouring runs is the surer the shorter they are, and the median of many such ratios is surer than that of three."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asked for; a rate of None lets a scenario find its own."""

    rate: float | None = None
    seconds: float = 2.0
    warmup: float = 1.0
    runs: int = 3
    connections: int = CONNECTIONS
    url: str = ""
    full: bool = False
    peers: bool = True


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Another server that does a comparable thing, and the request that makes it do it."""

    name: str
    about: str
    start: Callable[[Path], AbstractAsyncContextManager[Server]]
    calls: Calls


class Lab:
    """The bench of one scenario: options in, rows and points out."""

    def __init__(self, scenario: str, options: Options, results: Results) -> None:
        self.scenario = scenario
        self.options = options
        self.results = results
        # One number per request of this lab: no payload is sent twice, nor by a second run against the same node.
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
        """The node: the one at --url, else a new one with these settings beyond the usual ones, its command after
        the words of `prefix`. `home`: where its data is, if another one has been there before."""
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
        """Those of the peers that can run here, all at once, with their requests; what cannot is noted."""
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
        """Whether only the node is wanted: at an address or a rate the caller named, or without peers."""
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
        """Open loop at `rate` requests a second."""
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
        """Closed loop: as many requests as `connections` connections get answered."""
        [row] = await self._taken([self._closed_loop(server, calls, what, connections)], runs)
        return row

    async def at_ceilings(self, server: Server, kinds: Mapping[str, Calls]) -> list[Row]:
        """Several kinds of request at their ceilings, their runs in turn, so that their costs can be compared."""
        return await self._compared([self._closed_loop(server, calls, what) for what, calls in kinds.items()])

    async def side_by_side(
        self, pairs: Sequence[tuple[Server, Calls]], what: str, rate: float | None = None
    ) -> list[Row]:
        """The same on several servers, their runs in turn, so that what else the machine does meets all alike.

        At `rate` if there is one, else at the ceiling. A server other than the first that fails is left out.
        """
        return await self._compared(
            [
                self._closed_loop(server, calls, what) if rate is None else self._open_loop(server, calls, what, rate)
                for server, calls in pairs
            ]
        )

    async def at_asked_rate(self, server: Server, calls: Calls) -> Row:
        """At --rate; without it, at half of the ceiling, which is measured first."""
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
        # Each connection has its turn at least every two seconds: after five, servers close an idle one.
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
        """Take as many seconds of each as of any other measurement, in more and shorter runs."""
        parts = max(1, round(self.options.seconds / COMPARED_SECONDS))
        return await self._taken(measurements, self.options.runs * parts, self.options.seconds / parts)

    async def _taken(
        self,
        measurements: list[Measurement],
        runs: int | None = None,
        seconds: float | None = None,
        warmup: float | None = None,
    ) -> list[Row]:
        """Take the runs of all measurements in turn and keep their rows."""
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
        """The same requests, numbered through all measurements of this lab instead of from 0 in each."""
        return lambda _index: calls(next(self.numbers))

    def pool(self, server: Server, size: int) -> Pool:
        """Connections from addresses no other pool of this lab has used."""
        first, self._first_address = self._first_address, self._first_address + size
        return Pool(server.host, server.port, size, dialect=server.dialect, first_address=first)

    async def fill(self, server: Server, calls: Calls, count: int, what: str, seconds: float = 600.0) -> Observed:
        """Send `count` requests as fast as they are answered, to have something to measure on. Raises Unfit."""
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
        """Note that something was not measured, and go on."""
        self.results.skipped.append(f"{what}: {why}")
        self.say(f"not measured: {what}: {why}")

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        print(f"[{self.scenario}] {text}", file=sys.stderr, flush=True)

    def progress(self, label: str) -> Callable[[Observed], None]:
        """On a terminal one line that changes every second, in a log a line every ten."""
        seconds = itertools.count(1)

        def show(seen: Observed) -> None:
            text = f"{label}: sent {seen.sent:,}, good {seen.good:,}, other {seen.bad:,}"
            second = next(seconds)
            if sys.stderr.isatty():
                print(f"\r\x1b[K[{self.scenario}] {text}", end="", file=sys.stderr, flush=True)
            elif second % 10 == 0:
                self.say(text)

        return show
