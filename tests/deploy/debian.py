"""A separate Debian, made by debootstrap and booted by systemd in a container without a network.

Debian's packages, the only thing it may take from the internet, are fetched before it boots. Python's packages come
from a directory that was filled in advance, so installing them needs no network either. Needs root.
"""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.deploy.image import program
from tests.deploy.packages import pip_files
from tests.support.nodes import ROOT
from tests.support.servers import until

SUITE = "bookworm"  # Debian 12
BARE = "systemd,systemd-sysv,dbus,netbase,procps"  # the packages of Debian's installer that the page relies on
SOURCE = "/usr/local/src/relay-node"
WHEELS = "/usr/local/src/wheels"
PIP = f"[global]\nno-index = true\nfind-links = {WHEELS}\n"
REQUIREMENTS = ("requirements.txt", "requirements-torch.txt", "requirements-build.txt")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 900.0  # s that any command here may take: downloads, and unpacking them on a busy machine
BOOT = 600.0  # s until systemd reports that it has started, on a busy machine


class Debian:
    """A bare machine below `folder`. It is booted while the context lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._wheels = folder / "wheels"
        self._console = folder / "console"

    def make(self) -> None:
        """Create the machine."""
        command = [program("debootstrap"), "--variant=minbase", f"--include={BARE}", SUITE, str(self._root)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        self._wheels.mkdir()

    def fetch_wheels(self) -> None:
        """Fetch the wheels that the machine's own Python will install. They depend on its exact version."""
        told = [f"--bind-ro={source}:{target}" for source, target in pip_files(self._folder).items()]
        wanted = " ".join(f"--requirement {SOURCE}/{name}" for name in REQUIREMENTS)
        options = f"--quiet --no-deps --require-hashes --only-binary :all: --dest {WHEELS} {wanted}"
        (self._root / "etc" / "pip.conf").touch()
        self.fetch(
            f"python3 -m venv /tmp/fetch && /tmp/fetch/bin/pip download {options} && rm -r /tmp/fetch",
            f"--bind-ro={ROOT}:{SOURCE}",
            f"--bind={self._wheels}:{WHEELS}",
            *told,
        )
        (self._root / "etc" / "pip.conf").write_text(PIP)

    def fetch(self, script: str, *options: str) -> None:
        """Run commands that need the network, before the machine boots."""
        command = [*self._spawn(), *options, "--as-pid2", "--pipe", "--setenv=DEBIAN_FRONTEND=noninteractive"]
        done = subprocess.run(
            [*command, "/bin/sh", "-euxc", script], check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]

    def run(self, script: str) -> str:
        """Run commands as root in the machine, and return their output. A command that fails fails the test."""
        shell = ["/usr/bin/env", "-i", PATH, "HOME=/root", "LANG=C.UTF-8", "/bin/sh", "-euc", f"cd {SOURCE}\n{script}"]
        done = subprocess.run(
            [*self._enter(), *shell],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
        if done.returncode:
            journal = self._ask("journalctl", "--no-pager", "--lines=60")
            pytest.fail(f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}\n{journal}")
        return done.stdout

    def __enter__(self) -> Self:
        binds = [f"--bind-ro={ROOT}:{SOURCE}", f"--bind-ro={self._wheels}:{WHEELS}"]
        with self._console.open("wb") as console:
            self._machine = subprocess.Popen(
                [*self._spawn(), "--private-network", *binds, "--boot"],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        try:
            until(self._is_up, f"systemd is up; see {self._console}", BOOT)
        except TimeoutError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._machine.send_signal(signal.SIGTERM)  # shuts the machine down cleanly
        try:
            self._machine.wait(BOOT)
        except subprocess.TimeoutExpired:
            self._machine.kill()
            self._machine.wait()

    def remove(self) -> None:
        shutil.rmtree(self._folder)

    def _spawn(self) -> list[str]:
        return [program("systemd-nspawn"), "--quiet", f"--directory={self._root}", "--register=no", "--keep-unit"]

    def _is_up(self) -> bool:
        return self._ask("systemctl", "is-system-running") in ("running", "degraded")

    def _ask(self, *command: str) -> str:
        asked = subprocess.run(
            [*self._enter(), *command], check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        return asked.stdout.strip()

    def _enter(self) -> list[str]:
        """Return the words that run a command inside the machine. Looked up each time, because nspawn's first child
        changes while the machine boots.
        """
        children = Path(f"/proc/{self._machine.pid}/task/{self._machine.pid}/children").read_text().split()
        target = f"--target={children[0]}" if children else "--target=0"
        return [program("nsenter"), target, "--mount", "--uts", "--ipc", "--net", "--pid"]
