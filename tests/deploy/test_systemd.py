"""The systemd units: systemd accepts them, and the commands and settings that they use exist in the program."""

import os
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from node.config.values import USAGE_ERROR
from node.describe.settings import table
from tests.deploy.one_machine import written
from tests.deploy.processes import STOPPED_WITHIN, start, status
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, RedisServer, free_port, until

FOLDER = ROOT / "deploy" / "systemd"
BACKUP = FOLDER / "relay-node-backup.service"
UNITS = sorted(path for path in FOLDER.glob("*.service") if path != BACKUP)
INSTALLED = "/opt/relay-node/bin"
HERE = Path(sys.executable).parent
MOST_EXPOSED = 2.5  # of 10, on the scale of `systemd-analyze security`


def unit(path: Path) -> RawConfigParser:
    read = RawConfigParser(strict=False, comment_prefixes=("#",), interpolation=None)
    read.optionxform = str  # type: ignore[assignment]
    read.read_string(path.read_text())
    return read


def command(path: Path, instance: str = "1") -> list[str]:
    """Return the command that a unit starts, with the programs of this environment."""
    words = unit(path)["Service"]["ExecStart"].replace("%i", instance).split()
    assert any(word.startswith(f"{INSTALLED}/") for word in words)
    return [word.replace(INSTALLED, str(HERE)) for word in words]


def role(path: Path) -> str:
    """Return the command of `relay-node` that a unit runs."""
    return command(path)[-1]


def environment(path: Path) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in unit(path)["Service"]["Environment"].split())


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    """Return the output of systemd-analyze. Fails the test if it is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.fail("no systemd-analyze to check the units with: run `make system`, or apt-get install systemd")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_there_is_a_unit_for_each_way_to_run() -> None:
    assert {role(path) for path in UNITS} == {"serve", "web", "worker"}


@pytest.mark.parametrize("path", [*UNITS, BACKUP], ids=lambda path: path.name)
def test_systemd_accepts_a_unit(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace(INSTALLED, str(HERE)))
    verified = analyze("verify", "--man=no", "--recursive-errors=no", str(copy))
    assert (verified.returncode, verified.stderr) == (0, "")


def test_systemd_accepts_the_timer_of_the_backup(tmp_path: Path) -> None:
    for path in (BACKUP, BACKUP.with_suffix(".timer")):
        (tmp_path / path.name).write_text(path.read_text().replace(INSTALLED, str(HERE)))
    verified = analyze("verify", "--man=no", "--recursive-errors=no", str(tmp_path / "relay-node-backup.timer"))
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.parametrize("path", [*UNITS, BACKUP], ids=lambda path: path.name)
def test_a_unit_is_confined(path: Path) -> None:
    checked = analyze("security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED * 10:.0f}", str(path))
    assert checked.returncode == 0, checked.stdout
    service = unit(path)["Service"]
    assert service["User"] not in ("", "root")
    assert f"/var/lib/{service['StateDirectory']}" == environment(path)["RELAY_DATA_DIR"]


def test_only_a_backup_for_which_redis_was_out_of_reach_is_tried_again(tmp_path: Path) -> None:
    """After a boot, Redis may still be loading its data. Without a retry, there would be no backup until the next
    night.
    """
    service = unit(BACKUP)["Service"]
    assert service["Restart"] == "on-failure"
    never = set(map(int, service["RestartPreventExitStatus"].split()))
    settings = {"RELAY_REDIS_URL": f"redis://127.0.0.1:{free_port()}", "RELAY_DATA_DIR": str(tmp_path)}
    ran = subprocess.run(command(BACKUP), env=os.environ | settings, capture_output=True, timeout=PATIENCE, check=False)
    assert ran.returncode not in {0, *never}
    assert never == {1, USAGE_ERROR}


def test_the_timer_makes_one_backup_after_another_and_removes_the_oldest(tmp_path: Path) -> None:
    place = tmp_path / "backups"
    values = environment(BACKUP) | {"RELAY_DATA_DIR": str(tmp_path / "data")}
    words = [{"/var/backups/relay-node": str(place), "14": "2"}.get(word, word) for word in command(BACKUP)]
    with RedisServer(tmp_path / "redis", "--repl-diskless-sync-delay", "0") as server:
        given = {**os.environ, **values, "RELAY_REDIS_URL": server.url}
        for number in range(3):
            made = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
            newest = max(path.name for path in place.iterdir())
            (place / newest).rename(place / f"2026-01-0{number + 1}T030000Z")  # as if it was made on another day
    assert sorted(path.name for path in place.iterdir()) == ["2026-01-02T030000Z", "2026-01-03T030000Z"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_sets_only_what_is_a_setting(path: Path) -> None:
    known = {row.name for row in table()}
    assert {name for name in environment(path) if name.startswith("RELAY_")} <= known


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_leaves_time_to_stop(path: Path) -> None:
    allowed = int(unit(path)["Service"]["TimeoutStopSec"])
    assert allowed > STOPPED_WITHIN
    if role(path) != "worker":
        # One process tells the others. A signal to all of them would make them stop without a drain.
        assert unit(path)["Service"]["KillMode"] == "mixed"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_not_given_up_because_it_ended_often(path: Path) -> None:
    assert unit(path)["Unit"]["StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize("path", [path for path in UNITS if role(path) != "worker"], ids=lambda path: path.stem)
def test_a_process_that_the_kernel_kills_for_memory_ends_no_other(path: Path) -> None:
    assert unit(path)["Service"]["OOMPolicy"] == "continue"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_does_not_try_again_with_settings_that_cannot_be_used(path: Path) -> None:
    assert int(unit(path)["Service"]["RestartPreventExitStatus"]) == USAGE_ERROR


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_what_a_unit_starts_runs_and_stops(path: Path, tmp_path: Path) -> None:
    part = role(path)
    with NodeProcess(tmp_path / "data", command(path)) as node:
        settings = environment(path) | {"RELAY_DATA_DIR": str(tmp_path / "data"), "RELAY_EMBEDDING_MODEL": "none"}
        start(node, "" if part == "serve" else f"redis://127.0.0.1:{free_port()}", **settings)
        if part == "worker":
            node.line("redis out of reach")
        else:
            until(lambda: status(node.port, "/health") == (200 if part == "serve" else 503), "it answers")
        node.signal(15)
        assert node.wait() == 0


def test_web_and_workers_run_beside_each_other_with_one_file_of_settings(tmp_path: Path) -> None:
    @cache
    def moved(port: str) -> str:  # each of the operator's ports is replaced by one free port
        return str(free_port())

    shared = dict(line.split("=", 1) for line in written("/etc/relay-node.env").splitlines())
    web, worker = FOLDER / "relay-node-web.service", FOLDER / "relay-node-worker@.service"
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        for path, instance in ((web, ""), (worker, "1"), (worker, "2")):
            said = [word.split("=") for word in command(path, instance) if word.startswith("RELAY_ADMIN_PORT=")]
            admin = moved(said[0][1] if said else shared["RELAY_ADMIN_PORT"])
            words = [f"RELAY_ADMIN_PORT={admin}" if "=" in word else word for word in command(path, instance)]
            node = stack.enter_context(NodeProcess(tmp_path / "data", words))
            start(node, server.url, RELAY_ADMIN_PORT=moved(shared["RELAY_ADMIN_PORT"]), RELAY_EMBEDDING_MODEL="none")
            until(lambda: status(int(admin), "/live") == 200, f"{path.name} {instance} lives")  # noqa: B023
