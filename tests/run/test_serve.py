"""A node under its supervisor starts completely, and survives the loss of any single process."""

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from node.common.process import LOWEST_NICENESS, NICENESS
from node.config.values import USAGE_ERROR
from node.run import serve
from node.run.embedded_redis import socket_path
from tests.deploy.processes import ends, status
from tests.support.node_under_test import SECRET
from tests.support.nodes import SMALL, NodeProcess, gone
from tests.support.servers import PATIENCE, RedisServer, until

NEW_CONNECTIONS = 20  # to be distributed over the two web processes


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A small node that is ready, for tests that leave it unchanged."""
    with NodeProcess(tmp_path_factory.mktemp("lasting") / "data", SMALL) as node:
        yield node.start().ready()


def test_a_node_says_once_that_it_is_ready_and_answers_from_then_on(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        assert node.start().ready().line("ready")["url"] == node.url
        assert json.loads(node.get("/health"))["status"]
        node.signal(signal.SIGTERM)
        assert node.wait() == 0
        assert [line["event"] for line in node.lines].count("ready") == 1


def test_a_node_is_ready_once_its_redis_is_there(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    with NodeProcess(tmp_path / "data") as node:
        node.start(RELAY_REDIS_URL=server.url, RELAY_STORE_TIMEOUT="0.5", RELAY_EMBEDDING_MODEL="none")
        until(lambda: status(node.port, "/health") == 503, "it answers that it is not well")
        with server:
            node.ready()
            events = [line["event"] for line in node.lines]
            assert events.index("redis connected") < events.index("ready")
            assert ends(node) == 0


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-"])
def test_a_node_does_without_standard_input_and_output(tmp_path: Path, closed: str) -> None:
    """Otherwise a listening socket could get the number of standard input, and no web process would inherit it."""
    command = ("sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-m", "node", "serve")
    with NodeProcess(tmp_path / "data", command) as node:
        node.start().ready()
        assert json.loads(node.get("/health"))["status"]
        node.signal(signal.SIGTERM)
        assert node.wait() == 0


def test_a_node_starts_where_text_is_not_utf_8(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.start(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0").ready()
        assert json.loads(node.get("/health"))["status"]


def test_what_a_node_acknowledged_is_there_after_its_redis_was_killed(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.start().ready()
        payload = {"message": "Hello, is anybody there who can read this?", "public": False}
        kept = f"/api/v1/relay/{_post(node, '/api/v1/relay', payload)['reference_id']}"
        before = node.get(kept)
        os.kill(node.child("redis"), signal.SIGKILL)
        node.line("child ended", child="redis", status=-signal.SIGKILL)
        until(lambda: node.get(kept) == before, "the message can be read again")


def test_the_worker_runs_behind_redis_and_web(lasting: NodeProcess) -> None:
    server, web, worker = (lasting.child(name) for name in ("redis", "web", "worker"))
    ours = os.getpriority(os.PRIO_PROCESS, lasting.pid)
    until(lambda: os.getpriority(os.PRIO_PROCESS, worker) == min(19, ours + NICENESS), "the worker gives way")
    assert [os.getpriority(os.PRIO_PROCESS, child) for child in (server, web)] == [ours, ours]
    # In separate sessions, they would be scheduled as equals whatever their priorities (sched(7), autogroups).
    assert {os.getsid(child) for child in (server, web, worker)} == {os.getsid(lasting.pid)}
    # Separate process groups, so that Ctrl-C reaches only one.
    assert len({os.getpgid(each) for each in (lasting.pid, server, web, worker)}) == 4


def test_a_rewrite_of_the_log_gives_way_to_everything_else(small: NodeProcess) -> None:
    small.start().ready()
    server = small.child("redis")
    client: Any = redis.Redis(unix_socket_path=str(socket_path(small.folder)))
    with client:
        client.mset({f"key {number}": "x" for number in range(1000)})
        client.config_set("rdb-key-save-delay", 1_000_000)  # us per key, so that the rewrite takes some time
        client.bgrewriteaof()
    children = Path(f"/proc/{server}/task/{server}/children")
    until(children.read_text, "the rewrite has begun")
    rewrite = int(children.read_text())
    until(lambda: os.getpriority(os.PRIO_PROCESS, rewrite) == LOWEST_NICENESS, "it gives way")
    assert os.getpriority(os.PRIO_PROCESS, server) == os.getpriority(os.PRIO_PROCESS, small.pid)


def test_web_processes_share_what_their_parent_has_imported(lasting: NodeProcess) -> None:
    assert int(lasting.get("/imported-by")) == lasting.child("web")


def test_a_web_process_that_dies_is_replaced_while_the_others_answer(small: NodeProcess) -> None:
    small.start().ready()
    victim = int(small.get("/worker"))
    os.kill(victim, signal.SIGKILL)
    small.line("Respawning worker-1" if small.web_process(1, 0) == victim else "Respawning worker-2")
    until(lambda: int(small.get("/worker")) != victim, "another process answers")
    assert gone(victim)


def test_a_web_process_that_dies_again_and_again_takes_no_other_with_it(small: NodeProcess) -> None:
    small.start().ready()
    connection = http.client.HTTPConnection("127.0.0.1", small.port, timeout=PATIENCE)
    connection.request("GET", "/worker")
    holder = int(connection.getresponse().read())
    connection.request("GET", "/held")
    held = connection.getresponse()
    assert held.readline() == b"held\n"
    number = 1 if holder == small.web_process(2) else 2
    for death in range(3):
        victim = small.web_process(number, death)
        os.kill(victim, signal.SIGKILL)
        until(lambda: small.web_process(number) != victim, "it is replaced")  # noqa: B023
    small.signal(signal.SIGTERM)
    assert held.read() == b"released"
    assert small.wait() == 0
    connection.close()


def test_while_web_processes_are_replaced_new_connections_wait_and_are_answered(small: NodeProcess) -> None:
    small.start().ready()
    workers = [small.web_process(1), small.web_process(2)]
    os.kill(workers[0], signal.SIGKILL)
    until(lambda: gone(workers[0]), "one web process is dead")
    assert _answers_to_new_connections(small) == [b"HTTP/1.1 200 OK"] * NEW_CONNECTIONS

    until(lambda: small.web_process(1) != workers[0], "the next one is named in the log, where it may already answer")
    workers = [small.web_process(1), small.web_process(2)]
    os.kill(small.child("web"), signal.SIGKILL)
    until(lambda: all(map(gone, workers)), "all of them are dead")
    assert _answers_to_new_connections(small) == [b"HTTP/1.1 200 OK"] * NEW_CONNECTIONS


@pytest.mark.parametrize("name", ["web", "worker", "redis"])
def test_a_child_that_dies_is_started_again(lasting: NodeProcess, name: str) -> None:
    victim = lasting.child(name)
    os.kill(victim, signal.SIGKILL)
    lasting.line("child ended", child=name, status=-signal.SIGKILL)
    until(lambda: lasting.child(name) != victim, f"another {name}")
    until(lambda: lasting.get("/worker"), "the node answers")


def test_processes_that_have_lost_their_parent_are_reaped(tmp_path: Path) -> None:
    """In a container without an init process, the supervisor becomes their parent, as it does here by prctl(2)."""
    adopt = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    with NodeProcess(tmp_path / "data", (sys.executable, "-c", adopt, *SMALL)) as node:
        node.start().ready()
        orphan = node.web_process(1)
        os.kill(node.child("web"), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan is reaped")


def test_a_child_that_ends_again_and_again_pauses_longer_before_each_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes a child that can no longer use its settings: the other children continue to serve."""
    monkeypatch.setattr(serve, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(serve, "MAX_PAUSE", 0.003)
    first, later = (partial(subprocess.Popen[bytes], ("sh", "-c", f"exit {status}")) for status in (0, USAGE_ERROR))
    child = serve.Child("worker", later, first=first)

    def pauses(count: int) -> list[float]:
        found: list[float] = []
        with capture_logs() as logged:
            while len(found) < count:
                child.tend()
                found = [line["restart_in"] for line in logged if line["event"] == "child ended"]
        return found

    assert pauses(4) == [0.001, 0.002, 0.003, 0.003]
    monkeypatch.setattr(serve, "STEADY_SECONDS", 0.0)
    assert pauses(2) == [0.001, 0.001]


def test_a_child_that_cannot_be_started_again_is_tried_until_it_can(small: NodeProcess) -> None:
    small.start().ready()
    data, away = small.folder / "redis", small.folder / "away"
    data.rename(away)  # like a disk that is gone
    os.kill(small.child("redis"), signal.SIGKILL)
    small.line("child not started", child="redis")
    away.rename(data)
    until(lambda: small.get("/worker"), "the node answers")


def test_a_hang_up_ends_no_part_that_is_still_starting(small: NodeProcess) -> None:
    small.start().line("child started", child="worker")
    small.signal(signal.SIGHUP)
    small.line("settings reloaded", pid=small.pid)
    small.ready()
    assert not [line for line in small.lines if line["event"] == "child ended"]


def test_a_piece_of_a_stream_that_has_room_is_sent_without_a_wait(lasting: NodeProcess) -> None:
    assert lasting.get("/sent") == b"piece sent"  # otherwise followers of events would cost three times as much


def test_a_new_node_takes_over_from_one_that_was_killed(small: NodeProcess) -> None:
    small.start().ready()
    keys = small.get("/environment")
    small.kill()
    with NodeProcess(small.folder, SMALL) as successor:
        successor.port, successor.url = small.port, small.url
        successor.start().ready()
        assert successor.get("/environment") == keys


def test_a_second_node_on_the_same_data_is_refused_in_one_sentence(lasting: NodeProcess) -> None:
    with NodeProcess(lasting.folder) as second:
        assert second.start().wait() == 2
        assert second.words() == (
            f"relay-node: {lasting.folder}/redis is in use by a node, process {lasting.pid}: stop it first\n"
        )
    assert lasting.get("/worker")


def test_a_second_node_on_the_same_port_is_refused_in_one_sentence(lasting: NodeProcess, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "other") as second:
        assert second.start(RELAY_PORT=str(lasting.port)).wait() == os.EX_TEMPFAIL  # so that systemd tries again
        assert second.words().startswith(f"relay-node: cannot listen on 127.0.0.1 port {lasting.port}: ")
        assert second.words().count("\n") == 1


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0"])
def test_a_node_listens_where_it_is_told(small: NodeProcess, host: str) -> None:
    small.start(RELAY_HOST=host).ready()
    with socket.create_connection(("localhost", small.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        assert client.recv(1024).startswith(b"HTTP/1.1 200")


def test_a_host_that_is_not_of_this_machine_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        assert node.start(RELAY_HOST="203.0.113.1").wait() == 2
        assert node.words().startswith("relay-node: cannot listen on 203.0.113.1 port ")


def test_the_keys_of_a_node_are_made_once_and_only_its_user_can_read_them(lasting: NodeProcess) -> None:
    secret, signing_key, redis_url = lasting.get("/environment").decode().split(" ")
    assert len(base64.b64decode(secret, validate=True)) == 32
    assert signing_key.startswith("whsk_")
    assert len(base64.b64decode(signing_key.removeprefix("whsk_"), validate=True)) == 32
    assert redis_url == f"unix://{lasting.folder}/redis/redis.sock"
    assert (lasting.folder / "secret").read_text() == secret
    assert (lasting.folder / "signing-key").read_text() == signing_key
    for name in ("secret", "signing-key"):
        assert (lasting.folder / name).stat().st_mode & 0o777 == 0o600


def test_keys_that_are_given_are_used_and_not_kept(small: NodeProcess) -> None:
    small.start(RELAY_SECRET=SECRET, RELAY_SIGNING_KEY="whsk_given").ready()
    assert small.get("/environment").decode().startswith(f"{SECRET} whsk_given ")
    assert not (small.folder / "secret").exists()
    assert not (small.folder / "signing-key").exists()


def _post(node: NodeProcess, path: str, body: object) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{node.url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def _answers_to_new_connections(node: NodeProcess) -> list[bytes]:
    """Open several connections before any is served, and return the first line of the answer on each."""
    made = [socket.create_connection(("127.0.0.1", node.port), PATIENCE) for _ in range(NEW_CONNECTIONS)]
    for connection in made:
        connection.sendall(b"GET /worker HTTP/1.1\r\nHost: here\r\n\r\n")
    answers: list[bytes] = []
    for connection in made:
        with connection:
            answers.append(connection.recv(1024).partition(b"\r\n")[0])
    return answers
