"""How a node stops: in order, in time, and leaving nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from node.run import listener, serve
from node.run.serve import KILL_AFTER
from tests.support.nodes import NodeProcess, gone
from tests.support.own_process import kept_as_it_was
from tests.support.servers import until

AT_A_LOCK = """
import signal, sys, threading
from tests.support import small_node

def interrupt(frame, event, called):
    code = frame.f_code
    if (event, code.co_filename, code.co_name) == ("c_return", threading.__file__, "__enter__"):
        signal.raise_signal(signal.SIGTERM)

sys.setprofile(interrupt)
small_node.main("serve")
"""
WITH_A_SILENT_REDIS = """
import sys
from pathlib import Path
from node.run import embedded_redis
from tests.support import small_node

embedded_redis.find_server = lambda: Path(sys.argv[1])
small_node.main("serve")
"""
STOPPED_WITHIN = 10.0  # s after the signal (DESIGN 2)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_told_to_stop_leaves_nothing_behind(small: NodeProcess, signum: int) -> None:
    small.start().ready()
    children = [small.child(name) for name in ("redis", "web", "worker")]
    small.signal(signum)
    assert small.wait() == 0
    assert all(gone(child) for child in children)
    assert not (small.folder / "redis" / "redis.sock").exists()


def test_web_processes_that_are_still_loading_end_at_once(small: NodeProcess) -> None:
    small.start(LOADS_FOR_EVER="1").line("loading")
    small.signal(signal.SIGTERM)
    assert small.wait() == 0
    assert not [line["event"] for line in small.lines if "killed" in line["event"]]


def test_a_signal_that_comes_while_the_supervisor_has_a_lock_stops_it(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", (sys.executable, "-c", AT_A_LOCK)) as node:
        node.start().line("child started", child="worker")
        node.signal(signal.SIGTERM)  # in case the supervisor takes no lock
        assert node.wait() == 0


def test_a_node_whose_redis_is_still_loading_its_data_can_be_stopped(tmp_path: Path) -> None:
    server, begun = tmp_path / "server", tmp_path / "begun"
    server.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 600\n")
    server.chmod(0o700)
    with NodeProcess(tmp_path / "data", (sys.executable, "-c", WITH_A_SILENT_REDIS, str(server))) as node:
        node.start()
        until(begun.exists, "redis has begun")
        node.signal(signal.SIGTERM)
        assert node.wait() == 0


def test_connections_are_refused_as_soon_as_no_web_process_is_left(small: NodeProcess) -> None:
    small.start().ready()
    web, worker = small.child("web"), small.child("worker")
    os.kill(worker, signal.SIGSTOP)
    small.signal(signal.SIGTERM)
    until(lambda: gone(web), "web has ended")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", small.port))
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGCONT)
    assert small.wait() == 0


def test_a_stopping_node_answers_the_requests_it_holds(small: NodeProcess) -> None:
    small.start().ready()
    with urllib.request.urlopen(f"{small.url}/held") as answer:
        assert answer.readline() == b"held\n"
        small.signal(signal.SIGTERM)
        assert answer.read() == b"released"
    assert small.wait() == 0


def test_a_second_signal_ends_the_drain(small: NodeProcess) -> None:
    small.start(RELAY_DRAIN_SECONDS="300").ready()
    small.signal(signal.SIGTERM)
    small.line("draining")
    small.signal(signal.SIGTERM)
    assert small.wait() == 0


def test_stalled_requests_do_not_keep_a_node_from_stopping(small: NodeProcess) -> None:
    small.start().ready()
    with (
        urllib.request.urlopen(f"{small.url}/never") as answer,
        socket.create_connection(("127.0.0.1", small.port)) as silent,
        socket.create_connection(("127.0.0.1", small.port)) as half,
    ):
        assert answer.readline() == b"begun\n"
        half.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nhalf")
        server, web, worker = (small.child(name) for name in ("redis", "web", "worker"))
        small.signal(signal.SIGTERM)
        small.line("stopping")
        small.signal(signal.SIGTERM)
        until(lambda: gone(server), "redis has ended")
        assert gone(web) and gone(worker), "what is in flight needs it"
        assert small.wait() == 0
        assert silent.recv(1) == b""
    assert {line["level"] for line in small.lines if line["event"].startswith("web process killed")} == {"warning"}


def test_a_node_that_is_told_to_stop_is_gone_in_time_whatever_its_processes_do() -> None:
    """The time is not measured, as it depends on the machine. The limits show it: a process that does not end by itself
    is killed before then.
    """
    kills = [listener.KILL_SECONDS, *(KILL_AFTER[name] for name in ("web", "worker", "metrics", "redis"))]
    assert kills == sorted(set(kills))
    assert kills[-1] < STOPPED_WITHIN


def test_no_child_is_killed_before_its_drain_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KILL_AFTER, "web", 0.0)

    def draining() -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(("sh", "-c", "trap '' TERM; echo; exec sleep 0.2"), stdout=subprocess.PIPE)
        assert child.stdout
        with child.stdout as said:
            said.readline()
        return child

    with kept_as_it_was(), capture_logs() as logged:
        serve._stop([serve.Child("web", draining)], drain_seconds=60)  # pyright: ignore[reportPrivateUsage]
    assert "child killed" not in [line["event"] for line in logged]


def test_no_child_outlives_a_supervisor_that_was_killed(small: NodeProcess) -> None:
    small.start().ready()
    family = [small.child(name) for name in ("redis", "web", "worker")] + [small.web_process(1), small.web_process(2)]
    small.kill()
    until(lambda: all(gone(member) for member in family), "all are gone")
