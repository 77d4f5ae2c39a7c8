"""An embedded Redis that takes long to answer, or to end, is not given up."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from node.run import embedded_redis
from node.run.embedded_redis import Embedded, running, socket_path
from tests.support.nodes import ROOT, gone
from tests.support.servers import PATIENCE


def test_a_server_whose_supervisor_was_killed_goes_and_leaves_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = (
        "import sys, pathlib, time; from node.run.embedded_redis import Embedded;"
        "server = Embedded(pathlib.Path(sys.argv[1])); print(server.start().pid, flush=True); time.sleep(60)"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path / "data")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with supervisor:
        assert supervisor.stdout
        orphan = int(supervisor.stdout.readline())
        path = socket_path(tmp_path / "data")
        redis.Redis(unix_socket_path=str(path), socket_timeout=PATIENCE).set("kept", "yes")
        os.kill(orphan, signal.SIGSTOP)  # it takes long to end
        supervisor.kill()
    monkeypatch.setattr(embedded_redis, "LOCK_TIMEOUT", 0)

    def wait(_: float) -> None:
        os.kill(orphan, signal.SIGCONT)

    monkeypatch.setattr(embedded_redis, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
    with Embedded(tmp_path / "data") as server:
        assert gone(orphan)
        server.start()
        assert redis.Redis(unix_socket_path=str(path), socket_timeout=PATIENCE).get("kept") == b"yes"


def test_a_server_that_answers_late_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for its disk, and the operator was told that no node runs."""
    monkeypatch.setattr(embedded_redis, "PING_TIMEOUT", 0.01)
    with Embedded(tmp_path) as server:
        process = server.start()
        process.send_signal(signal.SIGSTOP)
        resumed = threading.Timer(0.2, process.send_signal, (signal.SIGCONT,))
        resumed.start()
        assert running(tmp_path) == server.url
        resumed.join()
