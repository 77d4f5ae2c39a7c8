"""Neighbours: the effect on others of one hostile address at its limits.

The others send two hundred requests a second of every kind from a thousand addresses, and claim a contract every
second and wait for its callback. This is measured without and beside each attack, and finally beside all attacks at
once from one address.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from functools import partial
from statistics import median

import msgspec

from bench.client import forwarded, request
from bench.lab import Lab
from bench.neighbours.attacks import (
    ATTACKS,
    BODIES,
    CROWD,
    MESSAGES,
    NOTHING,
    READS,
    REGISTRATIONS,
    RELAYED,
    REPLIES,
    SEARCHES,
    SHARED_HOST,
    SILENT_NAMES,
    Attack,
    Ground,
    under_attack,
)
from bench.neighbours.callbacks import Probe, probing, receiving
from bench.neighbours.day import HEALTH, SHARES, Day, client, prepared
from bench.neighbours.names import NameServer, led_to, name_server
from bench.node import AS_DELIVERED, no_prefix
from bench.payload import encoded
from bench.result import Row, Table, merged
from bench.scenario import Scenario
from bench.schedule import SECOND, now
from bench.server import Server, Unfit, ask

RATE = 200.0
CONNECTIONS = 300  # of others: enough even if one kind of request takes seconds
QUIET_SECONDS, SECONDS = 4.0, 7.0
EACH_OF_ALL = 3  # connections of each attack when all run together

READY_SECONDS = 60.0  # until the worker answers searches by meaning
# The node is calm after CALM_ANSWERS answers in a row within CALM_MS; CALM_SECONDS is the longest wait for that.
CALM_SECONDS, CALM_ANSWERS, CALM_MS = 15.0, 20, 20.0

DRAIN_SECONDS = 5.0  # wait for outstanding answers to others at the end, while the attack goes on

TOGETHER = "all of these together"
NAMES = (*(attack.name for attack in (*ATTACKS, CROWD, NOTHING, READS)), TOGETHER)
QUIET, BESIDE = "others, before: {attack}", "others, beside: {attack}"
TIMES = "worst p99 of others beside an attack, over the quiet p99"
FAILED = "5xx that others got, or no answer"
LATEST = "latest callback of others"
UNANSWERED = "look-ups that got no answer"

SETTINGS = AS_DELIVERED | {
    "RELAY_WORKERS": "2",
    "RELAY_TRUSTED_PROXIES": "127.0.0.0/8",
    "RELAY_CALLBACK_ALLOW_PRIVATE": "1",
}

# Each list gets a fresh node: the aftermath of its last attack would disturb further measurements.
NODES: tuple[tuple[tuple[Attack, ...], ...], ...] = (
    ((REPLIES,), (MESSAGES,), (RELAYED,), (BODIES,), (SEARCHES,)),
    ((SHARED_HOST,), (SILENT_NAMES,), (CROWD,), (NOTHING,), (READS,)),
    ((REGISTRATIONS,), ATTACKS),
)


HEAD = (
    "attack",
    "quiet p50 ms",
    "quiet p99 ms",
    "p50 ms",
    "p99 ms",
    "times",
    "5xx or none",
    "callbacks, quiet s",
    "callbacks s",
    "called",
    "the attacker's answers",
)


class Outcome(msgspec.Struct):
    """The rows of others without an attack and beside it, their latest callbacks, and the answers to the attacker."""

    name: str
    quiet: Row
    beside: Row
    quiet_latest: float  # seconds
    latest: float
    missing: int
    events: int
    answers: dict[str, int]

    @property
    def times(self) -> float:
        """p99 beside the attack, divided by the p99 without it."""
        return (self.beside.median("p99_ms") or 0.0) / max(0.001, self.quiet.median("p99_ms") or 0.0)

    @property
    def failed(self) -> int:
        """Number of requests of others that got a 5xx or no answer."""
        return sum(times for status, times in self.beside.statuses.items() if not status.isdigit() or status >= "500")

    def line(self) -> list[str | float]:
        rows = [row.median(figure) or 0.0 for row in (self.quiet, self.beside) for figure in ("p50_ms", "p99_ms")]
        figures = [*rows, self.times, self.failed, self.quiet_latest, self.latest]
        called = f"{self.events - self.missing} of {self.events}"
        return [self.name, *figures, called, ", ".join(f"{status}: {n:,}" for status, n in self.answers.items())]


async def run(lab: Lab) -> None:
    if lab.options.url:
        raise Unfit("neighbours need a node with settings and a resolver of their own: leave --url out")
    outcomes: list[Outcome] = []
    numbers = itertools.count()
    async with _resolver(lab) as names:
        prefix = partial(led_to, names) if names is not None else no_prefix
        for series in NODES:
            with _noted(lab, f"what begins with {series[0][0].name}"):
                async with lab.node("serve", prefix, **SETTINGS) as node:
                    day = await prepared(lab, node)
                    await _ready(lab, node)
                    for together in series:
                        attacks = [attack for attack in together if names is not None or not attack.names]
                        if attacks:
                            with _noted(lab, attacks[0].name):
                                outcomes.append(await _measured(lab, node, day, attacks, names, next(numbers)))
                        if together is not series[-1]:
                            await _calm(lab, node)
        if names is not None:
            lab.point(UNANSWERED, names.unanswered, "questions")
    if outcomes:
        _tell(lab, outcomes)


@contextlib.asynccontextmanager
async def _resolver(lab: Lab) -> AsyncGenerator[NameServer | None]:
    """Run a name server for the nodes. Yields None if this machine does not permit one, which the report says."""
    async with contextlib.AsyncExitStack() as stack:
        names: NameServer | None = None
        try:
            names = await stack.enter_async_context(name_server())
        except Unfit as unfit:
            lab.skip(SILENT_NAMES.name, unfit)
        yield names


@contextlib.contextmanager
def _noted(lab: Lab, what: str) -> Generator[None]:
    """Skip what cannot be measured, and go on: a node may not survive an attack."""
    try:
        yield
    except (Unfit, OSError) as wrong:
        lab.skip(what, wrong if str(wrong) else TimeoutError("no answer"))


async def _ready(lab: Lab, node: Server) -> None:
    """Wait, for at most READY_SECONDS, until the worker has loaded its model and searches are answered by meaning."""
    deadline = now() + READY_SECONDS * SECOND
    for number in itertools.count():
        query = encoded({"query": f"who can help with question {number}"})
        with contextlib.suppress(TimeoutError):
            _, body = await ask(node, forwarded(request("POST", "/api/v1/board/search", query), client(number)))
            if b'"mode":"both"' in body:
                return
        if now() > deadline:
            lab.say("the worker does not answer by meaning: measured without")
            return
        await asyncio.sleep(0.2)


async def _measured(
    lab: Lab, node: Server, day: Day, attacks: Sequence[Attack], names: NameServer | None, number: int
) -> Outcome:
    """Measure the others without, and then beside these attacks. Raises Unfit."""
    name = attacks[0].name if len(attacks) == 1 else TOGETHER
    address = f"127.77.{number}.1"  # a network of its own, so that counts per receiver are of this attack alone
    if names is not None:
        names.target = address
    async with receiving(address, f"shared-{number}", named=names is not None) as receiver:
        quiet = Probe(node, receiver, client, f"quiet-{number}")
        async with probing(quiet):
            before = await _others(lab, node, day, QUIET.format(attack=name), QUIET_SECONDS)
        await quiet.finish()
        for attack in attacks:
            if attack.prepare is not None:
                await attack.prepare(lab, node)
        ground = Ground(number, day.threads, receiver)
        connections = attacks[0].connections if len(attacks) == 1 else EACH_OF_ALL
        probe = Probe(node, receiver, client, f"beside-{number}")
        answers: list[Counter[int]] = []
        async with contextlib.AsyncExitStack() as stack:
            for attack in attacks:
                answers.append(
                    await stack.enter_async_context(under_attack(lab, node, attack.calls(ground), connections))
                )
            async with probing(probe):
                beside = await _others(lab, node, day, BESIDE.format(attack=name), SECONDS)
        await probe.finish()
        events = (quiet.latest, probe.latest, probe.missing, probe.events)
    return Outcome(name, before, beside, *events, merged(answers))


async def _others(lab: Lab, node: Server, day: Day, what: str, seconds: float) -> Row:
    rate = lab.options.rate or RATE
    return await lab.at_rate(
        node, day.call, what, rate, connections=CONNECTIONS, runs=1, seconds=seconds, warmup=0, drain=DRAIN_SECONDS
    )


async def _calm(lab: Lab, node: Server) -> None:
    """Wait until the node is calm after an attack, for at most CALM_SECONDS."""
    deadline, quick = now() + CALM_SECONDS * SECOND, 0
    while quick < CALM_ANSWERS:
        sent = now()
        with contextlib.suppress(OSError, TimeoutError):
            await ask(node, HEALTH)
        quick = quick + 1 if now() - sent < CALM_MS * SECOND / 1000 else 0
        if now() > deadline:
            lab.say(f"not calm {CALM_SECONDS:.0f} s after the attack")
            return
        await asyncio.sleep(0.02)


def _tell(lab: Lab, outcomes: Sequence[Outcome]) -> None:
    """Add the tables and the worst figures to the results."""
    lab.point(TIMES, max(one.times for one in outcomes), "times", max(outcomes, key=lambda one: one.times).name)
    lab.point(FAILED, sum(one.failed for one in outcomes), "requests")
    late = max(outcomes, key=lambda one: one.latest)
    missing = f", {late.missing} of {late.events} not yet called" if late.missing else ""
    lab.point(LATEST, late.latest, "s", f"after its event, {late.name}{missing}")
    lab.results.tables.append(
        Table(lab.scenario, "Others beside one hostile address", list(HEAD), [one.line() for one in outcomes])
    )
    lab.results.tables.append(_by_kind(lab, outcomes))


def _by_kind(lab: Lab, outcomes: Sequence[Outcome]) -> Table:
    """Return a table of p50 and p99 by kind of request, without and beside each attack. Hide the rows it sums up."""

    def figures(kind: str, whats: Sequence[str]) -> str:
        rows = [row for row in lab.results.rows if row.what in {f"{what}: {kind}" for what in whats}]
        for row in rows:
            row.shown = False
        if not any(row.median("p50_ms") for row in rows):
            return "none"
        return " / ".join(f"{median(row.median(name) or 0.0 for row in rows):.1f}" for name in ("p50_ms", "p99_ms"))

    lines: list[list[str | float]] = [
        [
            kind,
            figures(kind, [one.quiet.what for one in outcomes]),
            *(figures(kind, [one.beside.what]) for one in outcomes),
        ]
        for kind in SHARES
    ]
    return Table(
        lab.scenario, "p50 / p99 in ms, by kind of request", ["kind", "quiet", *(one.name for one in outcomes)], lines
    )


SCENARIO = Scenario("neighbours", "one hostile address at its limits, and what others notice", run, full_only=True)
