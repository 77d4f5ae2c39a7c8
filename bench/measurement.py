"""One measurement of one server: a warm-up, then runs of the same load, then a row of figures.

lab.py supplies the load (open or closed loop) as `once`, and decides the order of runs when several servers
are measured side by side.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bench import quiet
from bench.client import NO_ANSWER, Pool
from bench.histogram import Histogram
from bench.load import Observed
from bench.meter import Usage, largest_web_process, redis_settings, usage
from bench.quiet import CoreTimes
from bench.result import Row, Spread, merged
from bench.server import Server, Unfit

ROLES = ("web", "redis", "worker")  # shown in this order; the supervisor uses next to no CPU
PERCENTILES = {"p50_ms": 50.0, "p90_ms": 90.0, "p99_ms": 99.0, "p99_9_ms": 99.9}

Once: TypeAlias = Callable[[Pool, float, str], Awaitable[Observed]]
Pools: TypeAlias = Callable[[Server, int], Pool]


class Measurement:
    """Collects the runs of `once` on `server`; `row` is complete after `finish`."""

    fastest = 0.0
    """Highest core speed measured so far, in loops per second; shared by all measurements of the process."""

    def __init__(self, server: Server, row: Row, pools: Pools, once: Once) -> None:
        self.row = row
        self.label = f"{row.subject}: {row.what}" + (f", {row.rate:,.0f}/s" if row.rate else "")
        self._server = server
        self._pools = pools
        self._once = once
        self._figures: dict[str, list[float]] = {}
        self._observed: list[Observed] = []

    async def warm_up(self, seconds: float) -> None:
        """Apply the same load and keep no figures of it."""
        if seconds > 0:
            async with self._pools(self._server, self.row.connections) as pool:
                await self._once(pool, seconds, f"{self.label}, warm-up")

    async def run(self, seconds: float, of: int) -> None:
        """Take one run on fresh connections; `of` is the number of runs. Raises Unfit if no answer was as expected."""
        label = f"{self.label}, run {len(self._observed) + 1}/{of}"
        async with self._pools(self._server, self.row.connections) as pool:
            speed, cores = quiet.speed(), CoreTimes.now()
            before = usage(self._server)
            seen = await self._once(pool, seconds, label)
            used = usage(self._server).since(before)
            stolen = CoreTimes.now().stolen_since(cores)
        if seen.good == 0:
            raise Unfit(f"{self.label}: no answer as expected, statuses {merged([seen.statuses])}")
        Measurement.fastest = max(Measurement.fastest, speed)
        machine = {"stolen_share": stolen, "speed_share": speed / Measurement.fastest}
        for name, value in (figures_of(seen, used) | machine).items():
            self._figures.setdefault(name, []).append(value)
        self._observed.append(seen)

    def finish(self) -> list[Row]:
        """Return the row and, if the load mixes several kinds of request, a row of latencies for each kind."""
        row, server = self.row, self._server
        row.figures = {name: Spread.of(values) for name, values in self._figures.items()}
        if server.root is not None and (largest := largest_web_process(server)):
            row.figures["web_peak_mb"] = Spread.of([largest])
        row.statuses = merged([seen.statuses for seen in self._observed])
        row.settings = server.settings
        row.redis_settings = redis_settings(server.redis) if server.redis is not None else {}
        together = Histogram()
        for seen in self._observed:
            together.add(seen.latencies())
        row.distribution = together.encoded()
        kinds = sorted({kind for seen in self._observed for kind in seen.counts})
        return [row, *(self._kind(kind) for kind in kinds if len(kinds) > 1)]

    def _kind(self, kind: str) -> Row:
        whole = self.row
        each = [seen.latencies(kind) for seen in self._observed]
        figures = {name: Spread.of([one.percentile(percent) for one in each]) for name, percent in PERCENTILES.items()}
        return Row(
            scenario=whole.scenario,
            subject=whole.subject,
            what=f"{whole.what}: {kind}",
            connections=whole.connections,
            figures=figures,
            statuses=merged([seen.counts_of(kind).statuses for seen in self._observed]),
        )


def figures_of(seen: Observed, used: Usage) -> dict[str, float]:
    """Return the figures of one run: rates, latencies in ms, the generator's own load, costs per answered request."""
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


def one_line(row: Row) -> str:
    """Format a row of figures as one line of text."""
    shown = {name: spread.median for name, spread in row.figures.items()}
    parts = [f"{shown['requests_per_s']:,.0f}/s"]
    parts += [f"{name.removesuffix('_ms').replace('_', '.')} {shown[name]:.2f} ms" for name in PERCENTILES]
    parts += [f"{role} {shown[name]:.0f} µs" for role in ROLES if (name := f"{role}_cpu_us") in shown]
    wrong = {status: times for status, times in row.statuses.items() if not status.startswith("2")}
    return ", ".join(parts) + (f", {wrong}" if wrong else "")
