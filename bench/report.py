"""Writes the report of a run: results.json, a Markdown page and the plots, in one directory."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import plots
from bench.compare import changes
from bench.goals import verdicts
from bench.measurement import ROLES
from bench.result import Results, Row, Spread

README = Path(__file__).parent / "README.md"
FRONT = README.parents[1] / "README.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"

# Beyond these, a row says that it was disturbed.
LATE = 0.01  # share of requests that the generator sent late
BUSY = 0.9  # share of a core that the generator used
STOLEN = 0.01  # share of all cores that other guests of the host used
SLOW = 0.9  # speed of a core, as a share of the fastest in this run


def write(results: Results, directory: Path) -> None:
    """Write everything to `directory`, which is created if needed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    pictures = plots.draw(results, directory)
    links = "".join(f"\n![{name}]({name})\n" for name in pictures)
    (directory / "report.md").write_text(f"# Benchmark of {results.taken}\n\n{markdown(results)}\n{links}")


def publish(results: Results, readme: Path = README, front: Path = FRONT) -> None:
    """Put the report between the markers in bench/README.md, its plots into results/ beside that file, and the table of
    targets between the markers in README.md."""
    pictures = plots.draw(results, readme.parent / "results")
    links = "".join(f"\n![{name}](results/{name})\n" for name in pictures)
    _replace(readme, f"Taken {results.taken}.\n\n{markdown(results)}\n{links}")
    _replace(front, f"{_targets(results)}\n")


def _replace(page: Path, text: str) -> None:
    """Replace the text between the markers of a page."""
    before, rest = page.read_text().split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}")


def compared(before: Results, now: Results) -> str:
    """Return a table of the node's figures beside those of an earlier run."""
    head = ("Scenario", "What", "Figure", "then", "now", "times")
    lines = [
        (each.scenario, each.what, each.figure, *map(_number, (each.before, each.now, each.now / each.before)))
        for each in changes(before, now)
    ]
    return f"### Beside the run of {before.taken}\n\n{_table(head, lines)}"


def markdown(results: Results) -> str:
    """Return the report without its plots."""
    parts = [_machine(results), _goals(results)]
    for scenario in dict.fromkeys([row.scenario for row in results.rows] + [p.scenario for p in results.points]):
        parts.append(_scenario(results, scenario))
    parts.append(_settings(results))
    if results.skipped:
        parts.append("Not measured:\n\n" + "\n".join(f"- {each}" for each in results.skipped))
    return "\n\n".join(part for part in parts if part)


def _machine(results: Results) -> str:
    told = "; ".join(f"{name}: {value}" for name, value in results.machine.items())
    command = re.sub(r" --out[ =]\S+", "", " ".join(["python -m bench", *results.arguments]))  # no path of that machine
    return f"`{command}`. Machine: {told}."


def _goals(results: Results) -> str:
    table = _targets(results)
    return f"### Targets\n\n{table}" if table else ""


def _targets(results: Results) -> str:
    rows = [
        (
            v.goal.what,
            v.goal.against,
            v.goal.target,
            f"{_number(v.value)} {v.goal.unit}".strip(),
            "met" if v.met else "**missed**",
        )
        for v in verdicts(results)
    ]
    return _table(("What", "Against", "Target", "Measured", ""), rows) if rows else ""


def _scenario(results: Results, scenario: str) -> str:
    rows = [row for row in results.rows if row.scenario == scenario and row.shown]
    roles = [role for role in ROLES if any(f"{role}_cpu_us" in row.figures for row in rows)]
    head = ("Server", "What", "due/s", "answered/s", "p50 ms", "p99 ms", "p99.9 ms", "worst ms")
    head += (*(f"{role} µs" for role in roles), "Redis commands", "scripts", "other answers", "disturbed")
    lines = [_line(row, roles) for row in rows]
    points = [
        f"- {point.subject}: {point.name}: {_number(point.value)} {point.unit} {point.note}".rstrip()
        for point in results.points
        if point.scenario == scenario
    ]
    tables = [
        f"{table.title}:\n\n"
        + _table(table.head, [[c if isinstance(c, str) else _number(c) for c in line] for line in table.lines])
        for table in results.tables
        if table.scenario == scenario
    ]
    parts = [f"### {scenario}", *tables, _table(head, lines) if lines else "", "\n".join(points)]
    return "\n\n".join(part for part in parts if part)


def _line(row: Row, roles: Sequence[str]) -> tuple[str, ...]:
    def shown(name: str) -> str:
        figure = row.figures.get(name)
        return "" if figure is None else _spread(figure)

    others = {status: times for status, times in row.statuses.items() if not status.startswith("2")}
    return (
        row.subject,
        row.what,
        f"{row.rate:,.0f}" if row.rate else "",
        *(shown(name) for name in ("requests_per_s", "p50_ms", "p99_ms", "p99_9_ms", "max_ms")),
        *(shown(f"{role}_cpu_us") for role in roles),
        shown("redis_commands"),
        shown("redis_scripts"),
        ", ".join(f"{status}: {times:,}" for status, times in others.items()),
        _disturbed(row),
    )


def _disturbed(row: Row) -> str:
    """Say what disturbed a row: a late or busy generator, stolen time, or a slow core. Empty if nothing did."""
    late, busy = row.median("late_share") or 0.0, row.median("generator_busy") or 0.0
    stolen, speed = row.median("stolen_share") or 0.0, row.median("speed_share") or 1.0
    told = [
        f"{late:.1%} late" if late > LATE else "",
        f"{busy:.0%} busy" if busy > BUSY else "",
        f"{stolen:.1%} stolen" if stolen > STOLEN else "",
        f"{speed:.0%} of the speed" if speed < SLOW else "",
    ]
    return ", ".join(filter(None, told))


def _settings(results: Results) -> str:
    """List the settings of each server, once for each different set."""
    lines: dict[str, str] = {}
    for row in results.rows:
        if row.settings:
            told = "; ".join(f"{name}={value}" for name, value in row.settings.items())
            redis = "; ".join(f"{name} {value or '(none)'}" for name, value in row.redis_settings.items())
            lines.setdefault(
                f"{row.subject}|{told}", f"- {row.subject}: {told}" + (f". Redis: {redis}" if redis else "")
            )
    return "### Settings\n\n" + "\n".join(lines.values()) if lines else ""


def _spread(figure: Spread) -> str:
    """Format the median, and the range of the runs if they differ."""
    median, low, high = _number(figure.median), _number(figure.low), _number(figure.high)
    return median if low == high else f"{median} ({low}-{high})"


def _number(value: float) -> str:
    """Format a number with about three significant digits and no exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return re.sub(r"\.?0+$", "", f"{value:.1f}") if abs(value) >= 10 else f"{value:.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    kept = [n for n, name in enumerate(head) if name == "What" or any(row[n] for row in rows)]
    lines = [[head[n] for n in kept], ["---"] * len(kept), *([row[n] for n in kept] for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
