"""deploy/install.sh ends well, wherever it was stopped before. It runs in a namespace where /opt is a folder of the
test.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE

INSTALL = 'mount --bind "$1" /opt; shift; exec sh deploy/install.sh "$@"'
STEPS = ("venv", "install requirements", "install source", "check")

# Stand-ins for Python and pip. Each recognises which step it is; at the step $STOP_AT it fails, or sends the signal
# $STOP_BY to the installer.
PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
cp "$(dirname "$0")/pip" "$3/bin/pip"
if [ "$STOP_AT" != venv ]; then exit 0; fi
if [ "$STOP_BY" = FAIL ]; then exit 1; fi
kill -s "$STOP_BY" "$PPID"
"""
PIP = """#!/bin/sh
case "$*" in
  *--require-hashes*) step="install requirements" ;;
  install*) step="install source" ;;
  *) step=$1 ;;
esac
if [ "$STOP_AT" != "$step" ]; then exit 0; fi
if [ "$STOP_BY" = FAIL ]; then exit 1; fi
kill -s "$STOP_BY" "$PPID"
"""


class Machine:
    """A machine with one installed version."""

    def __init__(self, folder: Path) -> None:
        self.opt, self.programs = folder / "opt", folder / "bin"
        self.programs.mkdir()
        for name, script in (("python3", PYTHON), ("pip", PIP)):
            (self.programs / name).write_text(script)
            (self.programs / name).chmod(0o755)
        (self.opt / "relay-node-old").mkdir(parents=True)
        self.link("relay-node", "relay-node-old")

    def link(self, name: str, target: str) -> None:
        (self.opt / name).unlink(missing_ok=True)
        (self.opt / name).symlink_to(f"/opt/{target}")

    def install(self, *words: str, at: str = "", by: str = "") -> subprocess.CompletedProcess[str]:
        """Run the installer, and stop it at the step `at` with `by`: FAIL, or a signal."""
        return subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-eu", "-c", INSTALL, "sh", self.opt, *words],
            cwd=ROOT,
            env={"PATH": f"{self.programs}:{os.environ['PATH']}", "STOP_AT": at, "STOP_BY": by},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    @property
    def leads_to(self) -> tuple[str, str]:
        """Return the names of the versions that the two links point to."""
        links = [self.opt / "relay-node", self.opt / "relay-node-former"]
        found = [link.readlink().name if link.is_symlink() else "" for link in links]
        return found[0], found[1]

    @property
    def versions(self) -> set[str]:
        return {path.name for path in self.opt.iterdir() if not path.is_symlink()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("by", ["FAIL", "TERM", "KILL"])
@pytest.mark.parametrize("at", STEPS)
def test_an_installation_that_is_stopped_changes_nothing_and_leaves_nothing_behind(
    machine: Machine, at: str, by: str
) -> None:
    stopped = machine.install(at=at, by=by)
    assert stopped.returncode != 0
    assert machine.leads_to == ("relay-node-old", "")
    left = machine.versions - {"relay-node-old"}
    assert len(left) == (by == "KILL")
    for name in left:  # as if the next installation came a second later
        (machine.opt / name).rename(machine.opt / "relay-node-left")
    again = machine.install()
    assert again.returncode == 0, again.stderr
    new, former = machine.leads_to
    assert former == "relay-node-old"
    assert machine.versions == {"relay-node-old", new}
    assert not (machine.opt / new / "unfinished").exists()


def test_what_another_installation_is_making_stays(machine: Machine) -> None:
    other = machine.opt / "relay-node-other"
    other.mkdir()
    with subprocess.Popen(["flock", other / "unfinished", "cat"], stdin=subprocess.PIPE) as holder:
        while subprocess.run(["flock", "--nonblock", other / "unfinished", "true"], check=False).returncode == 0:
            pass
        assert machine.install().returncode == 0
        assert other.is_dir()
        holder.communicate()
    assert machine.install("--back").returncode == 0
    assert machine.leads_to[0] == "relay-node-old"


def test_it_does_not_claim_to_have_gone_back_where_both_links_lead_to_one_version(machine: Machine) -> None:
    """The links are left like this by an installation that is stopped between its last two steps. The next installation
    ends well.
    """
    machine.link("relay-node-former", "relay-node-old")
    back = machine.install("--back")
    assert (back.returncode, back.stderr) == (1, "there is no former version to go back to\n")
    assert machine.install().returncode == 0
    assert machine.leads_to[1] == "relay-node-old"
    assert machine.install("--back").returncode == 0
    assert machine.leads_to[0] == "relay-node-old"
