"""An embedded Redis that takes long to answer, or to end, is not given up."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from node.run import embedded_redis
from node.run.embedded_redis import EmbeddedRedis, find_server, running, socket_path
from tests.support.nodes import ROOT, gone
from tests.support.servers import PATIENCE, until


def test_a_server_whose_supervisor_was_killed_goes_and_leaves_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = (
        "import sys, pathlib, time; from node.run.embedded_redis import EmbeddedRedis;"
        "server = EmbeddedRedis(pathlib.Path(sys.argv[1])); print(server.start().pid, flush=True); time.sleep(60)"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path / "data")], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with supervisor:
        assert supervisor.stdout
        orphan = int(supervisor.stdout.readline())
        path = socket_path(tmp_path / "data")
        redis.Redis(unix_socket_path=str(path), socket_timeout=PATIENCE).set("kept", "yes")
        os.kill(orphan, signal.SIGSTOP)  # makes it take long to end
        supervisor.kill()
    monkeypatch.setattr(embedded_redis, "LOCK_TIMEOUT", 0)

    def wait(_: float) -> None:
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGCONT)

    monkeypatch.setattr(embedded_redis, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
    with EmbeddedRedis(tmp_path / "data") as server:
        assert gone(orphan)
        server.start()
        assert redis.Redis(unix_socket_path=str(path), socket_timeout=PATIENCE).get("kept") == b"yes"


def test_a_node_whose_redis_does_not_answer_runs_all_the_same(tmp_path: Path) -> None:
    """When Redis waits for its disk, loads its data or is about to be restarted, the operator must not be told that no
    node runs.
    """
    with EmbeddedRedis(tmp_path) as server:
        assert running(tmp_path) == server.url
        process = server.start()
        process.send_signal(signal.SIGSTOP)
        assert running(tmp_path) == server.url
        process.kill()
        process.wait()
        assert running(tmp_path) == server.url
    assert running(tmp_path) is None


def test_a_node_says_that_its_redis_is_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        client: Any = redis.Redis(unix_socket_path=str(server.socket), socket_timeout=PATIENCE)
        client.mset({f"key {number}": "x" * 4096 for number in range(20)})
        client.bgrewriteaof()
        until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the log is written anew")
    slow = tmp_path / "slow-server"
    options = "--key-load-delay 20000 --loading-process-events-interval-bytes 1024"
    slow.write_text(f'#!/bin/sh\nexec {find_server()} "$@" {options}\n')
    slow.chmod(0o700)
    monkeypatch.setattr(embedded_redis, "find_server", lambda: slow)
    with EmbeddedRedis(tmp_path) as server, capture_logs() as lines:
        process = server.start()
        assert lines == [{"event": "redis is loading its data", "log_level": "info", "child_pid": process.pid}]
        assert client.get("key 19") == b"x" * 4096
