"""The counts of all processes are added up: nothing is lost when a process ends, nothing is counted twice."""

import asyncio
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import cast

import msgspec
import pytest

from node.observe.log import configure
from node.observe.metrics import snapshots
from node.observe.metrics.meter import Meter
from node.observe.metrics.snapshots import (
    Reading,
    Snapshot,
    add,
    alive,
    drain,
    folder_of,
    new_path,
    read,
    take_over,
    write,
)
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE

KILLED_INSTANCE = """
import os, signal, sys
from pathlib import Path
from node.observe.metrics import snapshots

snapshots.SHARED_MEMORY = Path(sys.argv[1])
with snapshots.folder_of(""):
    os.kill(os.getpid(), signal.SIGKILL)
"""
REQUESTS = ("GET", "/health", "2xx")


def dead_pid() -> int:
    """Return the id of a process that has ended."""
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
    # Too old, or later than now, because the clock of an earlier boot may have been ahead.
    for age in (snapshots.ALIVE_SECONDS + 1, -60):
        write(tmp_path / "a.counts", snapshot(os.getpid(), 1, in_flight=1, age=age))
        assert alive(read(tmp_path)) == {}
    write(tmp_path / "b.counts", snapshot(os.getpid(), 1))
    assert alive(read(tmp_path)) == {"web": 1}


def test_a_process_of_another_user_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    write(tmp_path / "a.counts", snapshot(os.getpid(), 1))
    assert alive(read(tmp_path)) == {"web": 1}


def test_what_only_another_version_counts_is_left_out(tmp_path: Path) -> None:
    unknown = Reading("relay_of_another_version_total", (), 1)
    write(tmp_path / "a.counts", Snapshot("web", os.getpid(), time.monotonic(), [unknown], [unknown]))
    assert sums(tmp_path) == {}


def test_a_process_that_starts_counts_on_from_one_that_died(tmp_path: Path) -> None:
    living, dead = new_path(tmp_path, "web", os.getppid()), new_path(tmp_path, "web", dead_pid())
    write(living, snapshot(os.getppid(), 1, in_flight=1))
    write(dead, snapshot(dead_pid(), 2, in_flight=4))
    before = sums(tmp_path)
    started = new_path(tmp_path, "web", os.getpid())
    inherited, _ = take_over(started)
    assert sums(tmp_path) == before  # even before the new process has written for the first time
    own = snapshot(os.getpid(), 0)
    own.inherited = inherited
    write(started, own)
    assert sums(tmp_path) == before
    assert sorted(tmp_path.iterdir()) == sorted([living, started])
    own.readings = snapshot(os.getpid(), 5).readings
    write(started, own)
    assert sums(tmp_path)["relay_requests_total"] == before["relay_requests_total"] + 5


def test_however_often_a_process_dies_it_leaves_one_file_and_loses_nothing(tmp_path: Path) -> None:
    for _ in range(20):
        path, pid = new_path(tmp_path, "worker", os.getpid()), dead_pid()
        inherited, _ = take_over(path)
        own = snapshot(pid, 3)
        own.inherited = inherited
        write(path, own)
    assert len(list(tmp_path.iterdir())) == 1
    (found,) = add(read(tmp_path), only=["histogram"])
    assert (found.value, found.buckets) == (30.0, [60, 0])
    assert sums(tmp_path)["relay_requests_total"] == 60


def test_of_two_that_start_at_a_time_one_takes_over_what_the_dead_counted(tmp_path: Path) -> None:
    write(new_path(tmp_path, "web", dead_pid()), snapshot(dead_pid(), 2))
    first, second = new_path(tmp_path, "web", os.getppid()), new_path(tmp_path, "web", os.getpid())
    taken, _ = take_over(first)
    # The first process has not written yet, so its file still has the counts of the dead one.
    assert take_over(second) == ([], False)
    for path, pid, inherited in ((first, os.getppid(), taken), (second, os.getpid(), [])):
        own = snapshot(pid, 1)
        own.inherited = inherited
        write(path, own)
    assert sums(tmp_path)["relay_requests_total"] == 2 + 1 + 1


def test_a_file_of_an_earlier_process_of_the_same_pid_is_taken_over(tmp_path: Path) -> None:
    """In a restarted container, each process may have the same pid as before."""
    write(new_path(tmp_path, "web", os.getpid()), snapshot(os.getpid(), 2))
    assert [each.value for each in take_over(new_path(tmp_path, "web", os.getpid()))[0]] == [1.0, 2.0]


def test_an_instance_that_begins_anew_has_started_no_process_again(tmp_path: Path) -> None:
    with folder_of(str(tmp_path)):
        for _ in range(4):
            write(new_path(tmp_path, "web", dead_pid()), snapshot(dead_pid(), 1))
        assert take_over(new_path(tmp_path, "web", os.getppid()))[1]
    for left in tmp_path.glob("*.counts"):
        os.utime(left, (1, 1))  # as left by an earlier instance
    with folder_of(str(tmp_path)):
        assert take_over(new_path(tmp_path, "web", os.getppid())) != ([], False)
        assert not take_over(new_path(tmp_path, "web", os.getppid()))[1]
    with folder_of("") as made:
        assert take_over(new_path(made, "web", os.getppid())) == ([], False)
        write(new_path(made, "web", dead_pid()), snapshot(dead_pid(), 1))
        assert take_over(new_path(made, "web", os.getppid()))[1]


@pytest.mark.parametrize("name", ["note.counts", "a-note-here.counts", "web-1e9-1.counts", f"web-{10**30}-1.counts"])
def test_a_file_with_a_foreign_name_keeps_no_process_from_starting(tmp_path: Path, name: str) -> None:
    write(new_path(tmp_path, "web", dead_pid()), snapshot(dead_pid(), 2))
    (tmp_path / name).write_text("not ours")
    os.utime(tmp_path / name, (time.time() + 60, time.time() + 60))  # the newest file is read first
    inherited, _ = take_over(new_path(tmp_path, "web", os.getpid()))
    assert [each.value for each in inherited] == [1.0, 2.0]
    assert (tmp_path / name).read_text() == "not ours"


@pytest.mark.parametrize("kept", [0, None], ids=["nothing", "other bytes"])
def test_a_file_that_a_power_cut_has_damaged_keeps_nobody_from_counting(tmp_path: Path, kept: int | None) -> None:
    left = new_path(tmp_path, "worker", dead_pid())
    write(left, snapshot(dead_pid(), 2))
    left.write_bytes(left.read_bytes()[:kept].replace(b"relay_", b"relay\xff"))
    write(new_path(tmp_path, "web", os.getpid()), snapshot(os.getpid(), 3))
    assert sums(tmp_path)["relay_requests_total"] == 3
    for path in tmp_path.glob("web-*"):
        path.unlink()
    assert take_over(new_path(tmp_path, "worker", os.getpid()))[0] == []
    assert len(list(tmp_path.iterdir())) == 1


def test_a_reader_finds_a_file_that_is_taken_over_while_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(new_path(tmp_path, "web", dead_pid()), snapshot(dead_pid(), 2))
    read_bytes, taken = Path.read_bytes, new_path(tmp_path, "web", os.getpid())

    def renamed_before(path: Path) -> bytes:
        if not taken.exists():
            path.rename(taken)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", renamed_before)
    assert sums(tmp_path)["relay_requests_total"] == 2


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
        assert [path.name for path in given.iterdir()] == ["begun"]  # a new instance is not draining


def test_what_a_killed_instance_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SHARED_MEMORY", tmp_path)
    run = [sys.executable, "-c", KILLED_INSTANCE, str(tmp_path)]
    assert subprocess.run(run, check=False, capture_output=True).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    (left / "web-1.counts").touch()
    with folder_of("") as young:
        assert left.exists(), "its processes might still be starting"
        for each in (left, young):
            os.utime(each, (0, 0))
        with folder_of("") as made:
            assert set(tmp_path.iterdir()) == {young, made}, "what runs keeps its folder however old it is"


def test_draining_without_a_folder_does_nothing(tmp_path: Path) -> None:
    drain("")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_somebody_has_removed_is_made_again(tmp_path: Path) -> None:
    path = new_path(tmp_path / "metrics", "web", os.getpid())
    for _ in range(2):
        write(path, snapshot(os.getpid(), 1))
        assert alive(read(path.parent)) == {"web": 1}
        assert path.parent.stat().st_mode & 0o077 == 0
        shutil.rmtree(path.parent)


async def test_a_folder_that_cannot_be_written_is_logged_once_each_time(
    node: NodeUnderTest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure("info")
    logging.getLogger().addHandler(caplog.handler)
    place = tmp_path / "place"
    settings = msgspec.structs.replace(node.settings, metrics_dir=str(place / "metrics"))
    meter = Meter(settings, "worker", node.store, lambda: ())
    once = asyncio.Event()
    once.set()
    for is_there in (False, False, True, False, False):
        if is_there:
            place.mkdir()
        await meter.run(once)
        shutil.rmtree(place, ignore_errors=True)
    said = [cast("dict[str, str]", record.msg)["event"] for record in caplog.records]
    assert said.count("metrics not written") == 2


async def test_a_write_that_is_under_way_at_the_end_does_not_replace_the_last(
    node: NodeUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a slow disk would end up with what the process had counted a second before its end."""
    begun, may_end, counted = threading.Event(), threading.Event(), itertools.count(1)

    def slow(path: Path, state: Snapshot) -> None:
        if not begun.is_set():
            begun.set()
            may_end.wait(PATIENCE)
        write(path, state)

    monkeypatch.setattr("node.observe.metrics.meter.write", slow)
    settings = msgspec.structs.replace(node.settings, metrics_dir=str(tmp_path))
    meter = Meter(settings, "web", node.store, lambda: [Reading("relay_requests_total", REQUESTS, next(counted))])
    running = asyncio.create_task(meter.run())
    await asyncio.to_thread(begun.wait, PATIENCE)
    running.cancel()
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.wait([running])
    await asyncio.get_running_loop().shutdown_default_executor()
    [left] = read(tmp_path)
    assert left.readings[0].value == 2
