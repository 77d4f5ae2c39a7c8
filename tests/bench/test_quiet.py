"""What else the machine does during a run: waited for, reported, and compared with other runs on the same machine."""

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from bench import quiet, report
from bench.compare import changes, last_of
from bench.quiet import CoreTimes
from bench.result import Results, Row, Spread


def run(taken: str, memory: str = "24 GiB", **figures: float) -> Results:
    row = Row(
        scenario="relay",
        subject="relay-node",
        what="ceiling",
        figures={name: Spread.of([value]) for name, value in figures.items()},
    )
    return Results(taken=taken, arguments=[], machine={"memory": memory}, rows=[row])


def recorded(results: Results, directory: Path) -> None:
    directory.mkdir()
    (directory / "results.json").write_bytes(msgspec.json.encode(results))


def test_shares_are_those_of_all_cores() -> None:
    before, now = CoreTimes(1000, 800, 10), CoreTimes(1200, 900, 20)
    assert (now.busy_since(before), now.stolen_since(before)) == (0.5, 0.05)
    assert CoreTimes.now().total > 0
    assert quiet.speed() > 0


async def test_a_busy_machine_is_waited_for_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([CoreTimes(0, 0, 0), CoreTimes(100, 20, 0), *(CoreTimes(100 * n, 100 * n, 0) for n in range(2, 9))])
    monkeypatch.setattr(CoreTimes, "now", lambda: next(times))
    monkeypatch.setattr(quiet, "QUIET_SECONDS", 1)
    said: list[str] = []
    await quiet.quiet(said.append, most_seconds=30)
    assert "busy (80% of all cores)" in said[0]
    assert said[-1].endswith("the machine is quiet")


async def test_a_machine_that_stays_busy_is_waited_for_no_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, clock = iter([CoreTimes(0, 0, 0), CoreTimes(100, 0, 0)]), Mock(side_effect=[0.0, 0.0, 30.0, 30.0])
    monkeypatch.setattr(CoreTimes, "now", lambda: next(times))
    monkeypatch.setattr(quiet, "time", Mock(monotonic=clock))
    said: list[str] = []
    assert await quiet.quiet(said.append, most_seconds=30) == 30
    assert said[-1] == "waited for 30 s; the machine is still busy"


def test_the_last_run_of_the_same_machine_is_compared_and_no_other(tmp_path: Path) -> None:
    now = run("now", requests_per_s=9000, p99_ms=4)
    assert last_of(now, tmp_path) is None
    recorded(run("first", requests_per_s=8000, p99_ms=5), tmp_path / "20260101-relay")
    recorded(run("elsewhere", "8 GiB", requests_per_s=1), tmp_path / "20260102-relay")
    recorded(run("now", requests_per_s=9000), tmp_path / "20260103-relay")
    before = last_of(now, tmp_path)
    assert before is not None
    assert before.taken == "first"
    assert [(each.figure, each.now / each.before) for each in changes(before, now)] == [
        ("answered/s", 1.125),
        ("p99 ms", 0.8),
    ]
    text = report.compared(before, now)
    assert "Beside the run of first" in text
    assert "| relay | ceiling | answered/s | 8,000 | 9,000 | 1.12 |" in text


def test_a_row_that_the_machine_disturbed_says_so() -> None:
    calm = run("now", requests_per_s=1, stolen_share=0.0, speed_share=1.0)
    disturbed = run("now", requests_per_s=1, stolen_share=0.05, speed_share=0.8)
    assert "stolen" not in report.markdown(calm)
    assert "5.0% stolen, 80% of the speed" in report.markdown(disturbed)
