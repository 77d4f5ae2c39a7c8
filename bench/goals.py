"""The performance goals (DESIGN 12), computed from the rows of one run: bounds, and ratios to peers of the same run."""

from collections.abc import Callable
from operator import ge, le, lt
from statistics import median

import msgspec

from bench.result import NODE, Results, Row
from bench.scenarios import (
    agents,
    claim,
    costs,
    follow,
    growth,
    held,
    idle,
    inbox,
    mcp,
    message,
    neighbours,
    overload,
    relay,
    search,
    session,
)

HOLDS: dict[str, Callable[[float, float], bool]] = {"at most": le, "at least": ge, "under": lt}


class Goal(msgspec.Struct, frozen=True):
    """A goal: a figure and its bound. `measured` returns None if the run did not take the figure."""

    what: str
    relation: str
    bound: float
    unit: str
    measured: Callable[[Results], float | None]
    against: str = ""

    @property
    def target(self) -> str:
        return f"{self.relation} {self.bound:g} {self.unit}".rstrip()


class Verdict(msgspec.Struct, frozen=True):
    """A goal and the measured value."""

    goal: Goal
    value: float

    @property
    def met(self) -> bool:
        return HOLDS[self.goal.relation](self.value, self.goal.bound)


def verdicts(results: Results) -> list[Verdict]:
    """Evaluate every goal that this run has the figures for."""
    measured = ((goal, goal.measured(results)) for goal in GOALS)
    return [Verdict(goal, value) for goal, value in measured if value is not None]


def _ratio(scenario: str, figure: str, peer: str, what: str) -> Callable[[Results], float | None]:
    """The node's figure divided by the peer's, from the same measurement."""

    def measured(results: Results) -> float | None:
        ours, theirs = results.row(scenario, NODE, what), results.row(scenario, peer, what)
        return _over(ours, theirs, figure)

    return measured


def _over(ours: Row | None, theirs: Row | None, figure: str) -> float | None:
    """Return the median ratio of the runs, paired in the order they were taken; None if a figure is missing."""
    if ours is None or theirs is None or figure not in ours.figures or figure not in theirs.figures:
        return None
    runs = zip(ours.figures[figure].runs, theirs.figures[figure].runs, strict=False)
    ratios = [above / below for above, below in runs if below]
    return median(ratios) if ratios else None


def _figure(scenario: str, what: str, figure: str) -> Callable[[Results], float | None]:
    def measured(results: Results) -> float | None:
        row = results.row(scenario, NODE, what)
        return row.median(figure) if row else None

    return measured


def _point(scenario: str, name: str) -> Callable[[Results], float | None]:
    def measured(results: Results) -> float | None:
        point = results.point(scenario, name)
        return point.value if point else None

    return measured


def _cost(scenario: str, what: str) -> Callable[[Results], float | None]:
    """CPU time of the web process for an operation, divided by that for an acknowledgement."""

    def measured(results: Results) -> float | None:
        return _over(results.row(scenario, NODE, what), results.row("costs", NODE, costs.ACK), "web_cpu_us")

    return measured


def _worst_p99(scenario: str, whats: list[str]) -> Callable[[Results], float | None]:
    def measured(results: Results) -> float | None:
        rows = [row for what in whats if (row := results.row(scenario, NODE, what)) is not None]
        return max((row.median("p99_ms") or 0.0 for row in rows), default=None)

    return measured


def _least(scenario: str, names: list[str]) -> Callable[[Results], float | None]:
    def measured(results: Results) -> float | None:
        points = [point.value for name in names if (point := results.point(scenario, name)) is not None]
        return min(points, default=None)

    return measured


def _web_peak(results: Results) -> float | None:
    rows = [row for row in results.rows if row.scenario == "relay" and row.subject == NODE]
    return max((peak for row in rows if (peak := row.median("web_peak_mb"))), default=None)


def _grown(results: Results) -> float | None:
    """CPU time of web process and Redis for an acknowledgement with the most entities stored, divided by that with the
    fewest."""
    rows = [results.row("growth", NODE, growth.AT.format(what="acknowledge", size=size)) for size in growth.SIZES]
    costs = [row.cpu_us for row in rows if row is not None]
    return costs[-1] / costs[0] if len(costs) == len(growth.SIZES) and costs[0] else None


RACES = claim.RACES + claim.BURSTS + 1  # the measured races, the bursts, and the warm-up
BESIDE_CROWDS = [idle.BESIDE.format(crowd=crowd.name) for crowd in idle.CROWDS]
ATTACKS = [neighbours.BESIDE.format(attack=name) for name in neighbours.NAMES]
CLOSED_CROWDS = [idle.CLOSED.format(crowd=crowd.name) for crowd in idle.CROWDS]

GOALS: tuple[Goal, ...] = (
    Goal(
        "relay ack: CPU of one web process per request, at the ceiling",
        "at most",
        2.5,
        "times",
        _ratio("relay", "web_cpu_us", "bare granian", relay.CEILING),
        "bare Granian",
    ),
    Goal(
        "relay ack: requests per second, one web process",
        "at least",
        0.34,
        "times",
        _ratio("relay", "requests_per_s", "bare granian", relay.CEILING),
        "bare Granian",
    ),
    *(
        Goal(f"{what}: {name} at half of the ceiling, worker embedding", "under", bound, "ms", measured)
        for what, scenario, row in (("relay ack", "relay", relay.HALF), ("session send", "session", session.HALF))
        for name, bound, measured in (
            ("p99", 20, _figure(scenario, row, "p99_ms")),
            ("p99.9", 40, _figure(scenario, row, "p99_9_ms")),
        )
    ),
    Goal(
        "message:send: requests per second",
        "at least",
        20,
        "times",
        _ratio("message", "requests_per_s", "a2a-sdk", message.CEILING),
        "a2a-sdk",
    ),
    Goal(
        "MCP tools/call: requests per second",
        "at least",
        10,
        "times",
        _ratio("mcp", "requests_per_s", "mcp sdk", mcp.CEILING),
        "MCP SDK",
    ),
    Goal("1,000 claimers on one task: p99", "under", 20, "ms", _figure("claim", claim.RACE, "p99_ms")),
    Goal("1,000 claimers on one task: exactly one winner", "at least", RACES, "races", _point("claim", claim.WON)),
    *(
        Goal(f"search by meaning, {threads:,} threads: {what}", relation, bound, unit, _figure("search", row, figure))
        for threads in (search.THREADS_FULL, search.THREADS)
        for what, relation, bound, unit, row, figure in (
            ("p50", "at most", 8, "ms", search.BY_MEANING.format(threads=threads), "p50_ms"),
            ("p99", "at most", 25, "ms", search.BY_MEANING.format(threads=threads), "p99_ms"),
            ("at the ceiling", "at least", 500, "a second", search.CEILING.format(threads=threads), "requests_per_s"),
            ("memory of the worker", "at most", 250, "MB", search.BY_MEANING.format(threads=threads), "worker_rss_mb"),
        )
    ),
    *(
        Goal(f"{what}: CPU of one web process", "at most", bound, "times", _cost(scenario, row), "a relay ack")
        for what, bound, scenario, row in (
            ("board post", 1.6, "costs", costs.POST),
            ("list of 20 threads", 1.1, "costs", costs.THREAD_LIST),
            ("list of 20 offered contracts", 1.1, "costs", costs.OFFER_LIST),
            ("list of 20 agents", 1.1, "agents", agents.PAGE),
            ("claim", 1.6, "costs", costs.CLAIM),
            ("poll with nothing new", 0.7, "costs", costs.POLL),
        )
    ),
    *(
        Goal(f"search among {count:,} agents: {figure}", "at most", bound, "ms", _figure("agents", row, f"{figure}_ms"))
        for count in (agents.AGENTS_FULL, agents.AGENTS)
        for row in (agents.BY_MEANING.format(agents=count),)
        for figure, bound in (("p50", 8), ("p99", 25))
    ),
    Goal("search among agents: answered by meaning", "at least", 99, "%", _point("agents", search.ANSWERED)),
    Goal("search: recall@10 of hnsw", "at least", 0.95, "", _point("search", search.RECALL), "exact order"),
    Goal("a new thread is found by meaning", "under", 2, "s", _point("search", search.FRESH.format(mode="meaning"))),
    Goal("worker: first search by meaning after its start", "at most", 2, "s", _point("search", search.READY)),
    Goal("relay ack with 10⁶ entities: CPU of web and Redis", "at most", 1.2, "times", _grown, "10⁴ entities"),
    Goal("web process: first answer after its start", "under", 1, "s", _point("relay", relay.START)),
    Goal("web process: peak memory under load", "under", 100, "MB", _web_peak),
    Goal(
        "beside 2,000 followers of 100 events a second: p99",
        "under",
        20,
        "ms",
        _figure("follow", follow.during(100), "p99_ms"),
    ),
    Goal("wake-up of a follower: p99", "under", 50, "ms", _point("follow", follow.WAKE_UP.format(99, 1.0))),
    Goal(
        "message to an inbox and its owner's answer, two web processes: median",
        "under",
        10,
        "ms",
        _figure("inbox", inbox.CALLS, "p50_ms"),
    ),
    Goal("beside 2,000 held requests: p99", "under", 20, "ms", _figure("held", held.DURING, "p99_ms")),
    Goal("beside 2,000 idle sockets, worst crowd: p99", "under", 20, "ms", _worst_p99("idle", BESIDE_CROWDS)),
    Goal(
        "idle sockets closed within 10 s, worst crowd",
        "at least",
        idle.SOCKETS,
        "sockets",
        _least("idle", CLOSED_CROWDS),
    ),
    Goal(
        "at twice the ceiling: p99 of what is accepted",
        "under",
        50,
        "ms",
        _figure("overload", overload.FLOOD, "p99_ms"),
    ),
    Goal(
        "in the second second after the flood: p99",
        "under",
        20,
        "ms",
        _figure("overload", overload.AFTER.format(second=2), "p99_ms"),
    ),
    Goal(
        "beside one hostile address, worst attack: p99 of others",
        "under",
        50,
        "ms",
        _worst_p99("neighbours", ATTACKS),
    ),
    Goal(
        "beside one hostile address, worst attack: p99 of others",
        "under",
        3,
        "times",
        _point("neighbours", neighbours.TIMES),
        "without it",
    ),
    Goal(
        "beside one hostile address: 5xx of others",
        "at most",
        0,
        "requests",
        _point("neighbours", neighbours.FAILED),
    ),
    Goal(
        "beside one hostile address: latest callback of others",
        "at most",
        5,
        "s",
        _point("neighbours", neighbours.LATEST),
    ),
)
