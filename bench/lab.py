"""What a scenario works with: it starts servers, loads them, and keeps the figures.

A measurement is a warm-up and then several runs of the same load, each on fresh connections; a row
holds the median of the runs and their spread. Scenarios say what to send and what to compare.
"""

import contextlib
import itertools
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench import node
from bench.client import NO_ANSWER, Pool
from bench.histogram import Histogram
from bench.load import DRAIN_SECONDS, Calls, Observed, closed_loop, open_loop
from bench.meter import Usage, largest_web_process, redis_settings, usage
from bench.result import Point, Results, Row, Spread, merged
from bench.schedule import Schedule
from bench.server import Server, Unfit, given

CONNECTIONS = 64
FILLING_CONNECTIONS = 32
ROLES = ("web", "redis", "worker")  # as shown; the supervisor uses nothing
PERCENTILES = {"p50_ms": 50.0, "p90_ms": 90.0, "p99_ms": 99.0, "p99_9_ms": 99.9}


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


Once: TypeAlias = Callable[[Pool, float, str], Awaitable[Observed]]


class Lab:
    """The bench of one scenario: options in, rows and points out."""

    def __init__(self, scenario: str, options: Options, results: Results) -> None:
        self.scenario = scenario
        self.options = options
        self.results = results
        self.numbers = itertools.count()  # one number per request of this lab: no payload is sent twice
        self._first_address = 0

    # Servers

    @contextlib.asynccontextmanager
    async def node(self, part: node.Part = "serve", home: Path | None = None, **own: str) -> AsyncGenerator[Server]:
        """The node: the one at --url, else a new one with these settings beyond the usual ones."""
        if self.options.url:
            yield given(self.options.url)
            return
        with contextlib.ExitStack() as stack:
            place = home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            self.say(f"starting relay-node ({part})")
            async with node.running(place, own, part) as server:
                self.say(f"relay-node ({part}) answers after {server.start_seconds:.2f} s")
                yield server

    @contextlib.asynccontextmanager
    async def peer(self, peer: Peer) -> AsyncGenerator[Server | None]:
        """A peer, or None if it cannot run here, which is noted."""
        async with contextlib.AsyncExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            self.say(f"starting {peer.name}")
            try:
                server = await stack.enter_async_context(peer.start(home))
            except Unfit as unfit:
                self.skip(peer.name, unfit)
                server = None
            try:
                yield server
            except Unfit as unfit:
                self.skip(peer.name, unfit)

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
        options = self.options
        # Each connection has its turn at least every two seconds: after five, servers close an idle one.
        size = max(1, min(connections or options.connections, int(rate * 2)))

        def once(pool: Pool, seconds: float, label: str) -> Awaitable[Observed]:
            return open_loop(pool, calls, Schedule(rate, seconds), drain=drain, each_second=self.progress(label))

        row = Row(scenario=self.scenario, subject=server.name, what=what, rate=rate, connections=size)
        return await self._measure(server, row, once, runs, seconds, warmup)

    async def at_ceiling(
        self,
        server: Server,
        calls: Calls,
        what: str,
        *,
        connections: int | None = None,
        runs: int | None = None,
        seconds: float | None = None,
    ) -> Row:
        """Closed loop: as many requests as `connections` connections get answered."""
        size = connections or self.options.connections

        def once(pool: Pool, seconds: float, label: str) -> Awaitable[Observed]:
            return closed_loop(pool, calls, seconds, each_second=self.progress(label))

        row = Row(scenario=self.scenario, subject=server.name, what=what, connections=size)
        return await self._measure(server, row, once, runs, seconds)

    async def at_asked_rate(self, server: Server, calls: Calls) -> Row:
        """At --rate; without it, at half of the ceiling, which is measured first."""
        rate = self.options.rate
        if rate is None:
            ceiling = await self.at_ceiling(server, calls, "ceiling")
            return await self.at_rate(server, calls, "half of the ceiling", ceiling.requests_per_s / 2)
        return await self.at_rate(server, calls, "open loop", rate)

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

    async def _measure(
        self, server: Server, row: Row, once: Once, runs: int | None, seconds: float | None, warmup: float | None = None
    ) -> Row:
        options = self.options
        runs, seconds = runs or options.runs, seconds or options.seconds
        warmup = options.warmup if warmup is None else warmup
        label = f"{row.subject}: {row.what}" + (f", {row.rate:,.0f}/s" if row.rate else "")
        if warmup > 0:
            async with self.pool(server, row.connections) as pool:
                await once(pool, warmup, f"{label}, warm-up")
        figures: dict[str, list[float]] = {}
        observed: list[Observed] = []
        for run in range(1, runs + 1):
            async with self.pool(server, row.connections) as pool:
                before = usage(server)
                seen = await once(pool, seconds, f"{label}, run {run}/{runs}")
                used = usage(server).since(before)
            if seen.good == 0:
                raise Unfit(f"{label}: no answer as expected, statuses {merged([seen.statuses])}")
            for name, value in figures_of(seen, used).items():
                figures.setdefault(name, []).append(value)
            observed.append(seen)
        row.figures = {name: Spread.of(values) for name, values in figures.items()}
        if server.root is not None and (largest := largest_web_process(server)):
            row.figures["web_peak_mb"] = Spread.of([largest])
        row.statuses = merged([seen.statuses for seen in observed])
        row.settings = server.settings
        row.redis_settings = redis_settings(server.redis) if server.redis is not None else {}
        together = Histogram()
        for seen in observed:
            together.add(seen.latencies())
        row.distribution = together.encoded()
        self.results.rows.append(row)
        self._kinds(row, observed)
        self.say(f"{label}: {told(row)}")
        return row

    def _kinds(self, row: Row, observed: list[Observed]) -> None:
        """A row of latencies for each kind, where a load mixes several."""
        kinds = sorted({kind for seen in observed for kind in seen.tallies})
        for kind in kinds if len(kinds) > 1 else ():
            part = Row(
                scenario=row.scenario, subject=row.subject, what=f"{row.what}: {kind}", connections=row.connections
            )
            each = [seen.latencies(kind) for seen in observed]
            part.figures = {
                name: Spread.of([latencies.percentile(percent) for latencies in each])
                for name, percent in PERCENTILES.items()
            }
            part.statuses = merged([seen.tally(kind).statuses for seen in observed])
            self.results.rows.append(part)

    # Figures and progress

    def point(self, name: str, value: float, unit: str = "", note: str = "", subject: str = "relay-node") -> None:
        self.results.points.append(Point(self.scenario, subject, name, round(value, 4), unit, note))
        self.say(f"{subject}: {name}: {value:,.2f} {unit} {note}".rstrip())

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


def figures_of(seen: Observed, used: Usage) -> Mapping[str, float]:
    """One run in figures: rates, latencies in ms, the generator's own share, costs per answered request."""
    latencies = seen.latencies()
    answered = max(1, sum(times for status, times in seen.statuses.items() if status not in NO_ANSWER))
    figures = {
        "requests_per_s": seen.good / seen.seconds,
        **{name: latencies.percentile(percent) for name, percent in PERCENTILES.items()},
        "max_ms": latencies.largest,
        "late_share": seen.late / max(1, seen.sent),
        "delayed_share": seen.delayed / max(1, seen.sent),
        "generator_busy": seen.busy,
        "failed": float(seen.bad),
    }
    figures |= {f"{role}_cpu_us": 1e6 * seconds / answered for role, seconds in used.cpu.items()}
    figures |= {f"{role}_rss_mb": megabytes for role, megabytes in used.rss.items()}
    if used.commands:
        figures["redis_commands"] = sum(used.commands.values()) / answered
        figures["redis_scripts"] = used.commands.get("evalsha", 0) / answered
    return figures


def told(row: Row) -> str:
    """A row in one line."""
    shown = {name: spread.median for name, spread in row.figures.items()}
    parts = [f"{shown['requests_per_s']:,.0f}/s"]
    parts += [f"{name.removesuffix('_ms').replace('_', '.')} {shown[name]:.2f} ms" for name in PERCENTILES]
    parts += [f"{role} {shown[name]:.0f} µs" for role in ROLES if (name := f"{role}_cpu_us") in shown]
    wrong = {status: times for status, times in row.statuses.items() if not status.startswith("2")}
    return ", ".join(parts) + (f", {wrong}" if wrong else "")
