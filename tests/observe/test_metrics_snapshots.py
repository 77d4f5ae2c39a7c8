"""What processes have counted is added up: nothing is lost with a process, nothing is counted twice."""

import os
import subprocess
import sys
import time
from pathlib import Path

from node.observe.metrics import snapshots
from node.observe.metrics.snapshots import Reading, Snapshot, add, alive, drain, fold, folder_of, read, write

REQUESTS = ("GET", "/health", "2xx")


def dead_pid() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def snapshot(pid: int, requests: int, in_flight: int = 0, age: float = 0.0) -> Snapshot:
    readings = [
        Reading("relay_requests_total", REQUESTS, requests),
        Reading("relay_store_in_flight", ("web",), in_flight),
        Reading("relay_ack_seconds", ("POST", "/"), requests * 0.5, [requests, 0]),
    ]
    return Snapshot("web", pid, time.monotonic() - age, readings)


def sums(folder: Path) -> dict[str, float]:
    return {reading.family: reading.value for reading in add(read(folder))}


def test_counters_are_of_all_processes_and_gauges_of_those_that_live(tmp_path: Path) -> None:
    write(tmp_path / "a.counts", snapshot(os.getpid(), 3, in_flight=2))
    write(tmp_path / "b.counts", snapshot(os.getpid(), 4, in_flight=5))
    write(tmp_path / "c.counts", snapshot(dead_pid(), 5, in_flight=7))
    found = {reading.family: reading for reading in add(read(tmp_path))}
    assert found["relay_requests_total"].value == 12
    assert found["relay_store_in_flight"].value == 7
    assert (found["relay_ack_seconds"].value, found["relay_ack_seconds"].buckets) == (6.0, [12, 0])


def test_the_slowest_event_loop_speaks_for_all(tmp_path: Path) -> None:
    for name, lag in (("a", 0.2), ("b", 0.1)):
        late = Reading("relay_event_loop_lag_seconds", ("web",), lag)
        write(tmp_path / f"{name}.counts", Snapshot("web", os.getpid(), time.monotonic(), [late]))
    assert sums(tmp_path) == {"relay_event_loop_lag_seconds": 0.2}


def test_a_process_that_is_stuck_does_not_count_as_alive(tmp_path: Path) -> None:
    write(tmp_path / "a.counts", snapshot(os.getpid(), 1, in_flight=1, age=snapshots.HEARD + 1))
    assert alive(read(tmp_path)) == {"web": 0}
    write(tmp_path / "b.counts", snapshot(os.getpid(), 1))
    assert alive(read(tmp_path)) == {"web": 1}


def test_files_of_the_dead_are_folded_and_the_sum_stays(tmp_path: Path) -> None:
    gone = dead_pid()
    write(tmp_path / "living.counts", snapshot(os.getpid(), 1, in_flight=1))
    for number in range(snapshots.MOST_DEAD + 1):
        write(tmp_path / f"{number}.counts", snapshot(gone, 2))
    before = sums(tmp_path)
    fold(tmp_path)
    assert [path.name for path in tmp_path.glob("*.counts")] == ["living.counts"]
    assert sums(tmp_path) == before
    for number in range(100, 100 + snapshots.MOST_DEAD + 1):
        write(tmp_path / f"{number}.counts", snapshot(gone, 2))
    fold(tmp_path)
    assert sums(tmp_path)["relay_requests_total"] == before["relay_requests_total"] + 2 * (snapshots.MOST_DEAD + 1)


def test_a_fold_that_was_cut_off_counts_nothing_twice(tmp_path: Path) -> None:
    gone = dead_pid()
    left = [snapshot(gone, 2) for _ in range(snapshots.MOST_DEAD + 1)]
    for number, each in enumerate(left):
        write(tmp_path / f"{number}.counts", each)
    before = sums(tmp_path)
    fold(tmp_path)
    write(tmp_path / "0.counts", left[0])  # what a fold that died had not removed yet
    assert sums(tmp_path) == before
    fold(tmp_path)
    assert sums(tmp_path) == before
    assert not (tmp_path / "0.counts").exists()


def test_few_files_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.counts", snapshot(dead_pid(), 2))
    fold(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.counts"]


def test_a_folder_made_for_a_run_goes_with_it_and_a_given_one_stays(tmp_path: Path) -> None:
    with folder_of("") as made:
        assert made.stat().st_mode & 0o077 == 0
        drain(str(made))
        assert list(made.iterdir())
    assert not made.exists()
    given = tmp_path / "counts"
    with folder_of(str(given)) as folder:
        drain(str(folder))
    with folder_of(str(given)):
        assert list(given.iterdir()) == []  # the instance that begins is not about to stop


def test_without_a_folder_there_is_nobody_to_tell(tmp_path: Path) -> None:
    drain("")
    assert list(tmp_path.iterdir()) == []
