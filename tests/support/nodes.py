"""Whole nodes as child processes: the real one, and one with a stand-in for the web process (`small_node.py`)."""

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.models import exported_model
from tests.support.node_under_test import SECRET
from tests.support.servers import PATIENCE, free_port, until

ROOT = Path(__file__).parents[2]
SMALL = (sys.executable, "-m", "tests.support.small_node", "serve")

_said: deque[str] = deque(maxlen=200)
"""The last lines that nodes have written since the test began."""


@pytest.hookimpl(wrapper=True)
def with_lines_of_nodes() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the lines of its nodes to the report of a failed test. A conftest.py uses it as pytest_runtest_makereport."""
    report = yield
    if report.failed and _said:
        report.sections.append(("Lines of nodes", "".join(_said)))
    if report.when == "teardown":
        _said.clear()
    return report


class NodeProcess:
    """A `serve` process with its data in `folder`, and the log lines that it and its children write."""

    def __init__(
        self, folder: Path, command: Sequence[str] = (sys.executable, "-m", "node", "serve"), cwd: Path = ROOT
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lines: list[dict[str, Any]] = []
        self._words: list[str] = []
        self._command = command
        self._cwd = cwd
        self._process: subprocess.Popen[str] | None = None

    def start(self, **settings: str) -> Self:
        """Start it without waiting. `settings` are environment variables."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        environment |= {
            "RELAY_PORT": str(self.port),
            "RELAY_DATA_DIR": str(self.folder),
            "RELAY_WORKERS": "2",
            "RELAY_STORE_TIMEOUT": "5",  # as in `settings_for`: the machine may be busy
            "RELAY_EMBEDDING_MODEL": exported_model(),
            **settings,
        }
        if "RELAY_REDIS_URL" in settings:  # all tests on a given Redis share one secret
            environment.setdefault("RELAY_SECRET", SECRET)
        self._process = subprocess.Popen(
            self._command, cwd=self._cwd, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def ready(self) -> Self:
        """Return once the node has logged that it is ready."""
        self.line("ready")
        return self

    def line(self, event: str, patience: float = PATIENCE, **fields: object) -> dict[str, Any]:
        """Wait for a log line with this event and these fields, and return the newest one."""
        until(lambda: self._found(event, fields), f"a log line {event} {fields}", patience)
        return self._found(event, fields)[-1]

    def child(self, name: str) -> int:
        """Return the process id of the last child started under that name."""
        return self.line("child started", child=name)["child_pid"]

    def web_process(self, number: int, start: int = -1) -> int:
        """Return the process id of Granian's worker `number`. `start` counts its starts from 0; the default is the last
        one.
        """
        spawning = f"Spawning worker-{number} with PID: "

        def found() -> list[str]:
            events = [line["event"] for line in self.lines]
            return [event.removeprefix(spawning) for event in events if event.startswith(spawning)]

        until(found, f"worker {number} of Granian")
        return int(found()[start])

    def get(self, path: str) -> bytes:
        """Return the body of a successful answer. Raises OSError."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE) as answer:
            return answer.read()

    def answers(self) -> bool:
        """Return whether the node answers. A web process run by itself logs no event that says so."""
        try:
            self.get("/health")
        except urllib.error.URLError:
            return False
        return True

    def words(self) -> str:
        """Return what the node wrote to standard error besides log lines."""
        return "".join(self._words)

    @property
    def pid(self) -> int:
        return self._running.pid

    def signal(self, signum: int) -> None:
        self._running.send_signal(signum)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the exit status and return it. Raises TimeoutExpired."""
        status = self._running.wait(seconds)
        self._reader.join(PATIENCE)
        return status

    def kill(self) -> None:
        """Kill the supervisor with SIGKILL, and wait until its children, which the kernel then kills, are gone."""
        self._running.kill()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise RuntimeError("the node was not started")
        return self._process

    def _found(self, event: str, fields: dict[str, object]) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event and fields.items() <= line.items()]

    def _read(self) -> None:
        """Read until the last process that holds our pipe is gone: the supervisor and all its children."""
        stream = self._running.stderr
        if stream is not None:
            for text in stream:
                _said.append(text)
                if text.startswith("{"):
                    self.lines.append(json.loads(text))
                else:
                    self._words.append(text)
            stream.close()


def gone(pid: int) -> bool:
    """Return whether the process has ended, even if its parent has not reaped it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
