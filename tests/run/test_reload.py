"""SIGHUP: every process of a node applies what it can of relay.toml, and no connection is lost."""

import http.client
import json
import logging
import os
import pty
import select
import signal
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import structlog

from node.config import Limit, Networks, Proxies, Settings, load
from node.observe.log import configure
from node.run.reload import ChildSettings, Reloading
from tests.support.nodes import ROOT, NodeProcess, gone
from tests.support.servers import PATIENCE, RedisServer, free_port, until


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "relay.toml"


@contextmanager
def connected(node: NodeProcess) -> Generator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def node(written: Path) -> Iterator[NodeProcess]:
    with NodeProcess(written.parent) as node:
        yield node


def relay_limit(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/.well-known/agent.json")
    return json.loads(connection.getresponse().read())["limits"]["relay"]["count"]


def places_left(connection: http.client.HTTPConnection, forwarded_for: str) -> str:
    body = json.dumps({"message": f"Is there somebody who reads what {forwarded_for} has to say today?"})
    headers = {"Content-Type": "application/json", "X-Forwarded-For": forwarded_for}
    connection.request("POST", "/api/v1/relay", body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.headers["RateLimit"] or ""


def test_limits_and_proxies_change_on_open_connections(node: NodeProcess, written: Path) -> None:
    written.write_text('[limit]\nrelay = "100/3600"\n')
    node.start(RELAY_WORKERS="1").ready()
    with connected(node) as connection:
        assert relay_limit(connection) == 100
        socket = connection.sock
        assert "r=99" in places_left(connection, "198.51.100.1")
        assert "r=98" in places_left(connection, "198.51.100.2")
        written.write_text('buffer_ttl = 60\ntrusted_proxies = "127.0.0.1"\n[limit]\nrelay = "50/3600"\n')
        node.signal(signal.SIGHUP)
        # Checked first, because the node closes a connection that is idle for five seconds.
        until(lambda: relay_limit(connection) == 50, "the new limit")
        assert "r=49" in places_left(connection, "198.51.100.1")
        assert "r=49" in places_left(connection, "198.51.100.2")
        assert connection.sock is socket
        told = node.line("settings reloaded", after_a_restart=["RELAY_BUFFER_TTL"])
        assert told["changed"] == ["RELAY_TRUSTED_PROXIES", "RELAY_LIMIT_RELAY"]
        assert not [line for line in node.lines if line["event"] == "child ended"]


def test_settings_that_cannot_be_used_change_nothing(node: NodeProcess, written: Path) -> None:
    written.write_text('[limit]\nrelay = "100/3600"\n')
    node.start(RELAY_WORKERS="1").ready()
    written.write_text("prot = 1")
    node.signal(signal.SIGHUP)
    assert "RELAY_PROT is not a setting" in node.line("settings not reloaded")["reason"]
    with connected(node) as connection:
        assert relay_limit(connection) == 100


def test_what_is_started_again_is_as_the_others_are(node: NodeProcess, written: Path) -> None:
    written.write_text('node_id = "first"\n[limit]\nrelay = "100/3600"\n')
    admin = free_port()
    node.start(RELAY_WORKERS="1", RELAY_ADMIN_PORT=str(admin)).ready()
    written.write_text('node_id = "second"\n[limit]\nrelay = "50/3600"\n')
    node.signal(signal.SIGHUP)
    node.line("settings reloaded", pid=node.pid, after_a_restart=["RELAY_NODE_ID"])

    def is_as_before() -> bool:
        about = json.loads(node.get("/.well-known/agent.json"))
        return (about["node_id"], about["limits"]["relay"]["count"]) == ("first", 50)

    until(is_as_before, "the new limit")
    for name in ("web", "worker"):
        node.line("settings reloaded", pid=node.child(name))
    written.write_text("prot = 1")  # no signal has told the node to read this
    os.kill(node.web_process(1), signal.SIGKILL)
    node.line("Respawning worker-1")
    until(is_as_before, "another process that answers")
    for name in ("web", "worker", "metrics"):
        before = node.child(name)
        os.kill(before, signal.SIGKILL)
        until(lambda: node.child(name) != before, f"another {name}")  # noqa: B023
    until(is_as_before, "another web that answers")
    node.line("starting", pid=node.child("worker"))
    node.line("metrics served", pid=node.child("metrics"))


def test_a_node_goes_on_without_the_directory_that_it_was_started_from(written: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with NodeProcess(written.parent, cwd=source) as node:
        node.start(RELAY_WORKERS="1", PYTHONPATH=str(ROOT)).ready()
        source.rmdir()
        node.signal(signal.SIGHUP)
        node.line("settings reloaded", pid=node.pid)
        before = node.child("web")
        os.kill(before, signal.SIGKILL)
        until(lambda: node.child("web") != before and node.answers(), "another web that answers")


def test_a_web_process_by_itself_reloads_too(written: Path) -> None:
    written.write_text('[limit]\nrelay = "100/3600"\n')
    with NodeProcess(written.parent, (sys.executable, "-m", "node", "web")) as web:
        web.start(RELAY_REDIS_URL="redis://127.0.0.1:1", RELAY_WORKERS="1")
        until(lambda: web.get("/.well-known/agent.json"), "an answer")
        with connected(web) as connection:
            assert relay_limit(connection) == 100
            written.write_text('[limit]\nrelay = "50/3600"\n')
            web.signal(signal.SIGHUP)
            until(lambda: relay_limit(connection) == 50, "the new limit")


def test_a_node_whose_terminal_is_gone_ends(tmp_path: Path) -> None:
    """A hang-up of the terminal is SIGHUP, too, and nobody would notice a node that goes on. Log lines that are lost do
    not change the exit status.
    """
    environment = {"RELAY_DATA_DIR": str(tmp_path), "RELAY_PORT": str(free_port())}
    environment["RELAY_REDIS_URL"] = "redis://127.0.0.1:1"
    small_node = ("-m", "tests.support.small_node", "serve")
    assert status_after_the_terminal_is_gone(small_node, environment, b"child started") == 0


# `begun` is what the part writes after it has set up all its signal handlers.
@pytest.mark.parametrize(("part", "begun"), [("worker", b"wake-ups"), ("web", b"Started worker-1")])
def test_a_part_whose_terminal_is_gone_ends(tmp_path: Path, part: str, begun: bytes) -> None:
    with RedisServer(tmp_path / "redis") as server:
        environment = {"RELAY_DATA_DIR": str(tmp_path / "data"), "RELAY_REDIS_URL": server.url}
        environment |= {"RELAY_PORT": str(free_port()), "RELAY_WORKERS": "1"}
        assert status_after_the_terminal_is_gone(("-m", "node", part), environment, begun) == 0


def test_a_node_that_ignores_hang_ups_goes_on_without_its_terminal(tmp_path: Path) -> None:
    """As with nohup: neither the node may end, nor its children when the settings are reloaded."""
    data, log = tmp_path / "data", tmp_path / "log"
    log.touch()
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.dup2(os.open(log, os.O_WRONLY), 2)
        os.environ.update(RELAY_DATA_DIR=str(data), RELAY_PORT=str(free_port()), RELAY_EMBEDDING_MODEL="none")
        os.execv(sys.executable, (sys.executable, "-m", "node", "serve"))
    try:
        until(lambda: b'"event":"ready"' in log.read_bytes(), "a node that is ready")
        until(lambda: b'"event":"search by text only"' in log.read_bytes(), "a worker that is ready")
        os.close(terminal)
        (data / "relay.toml").write_text('[limit]\nrelay = "50/60"\n')
        os.kill(child, signal.SIGHUP)
        until(lambda: log.read_bytes().count(b'"event":"settings reloaded"') >= 3, "serve, web and worker that reload")
        assert b'"event":"child ended"' not in log.read_bytes()
        os.kill(child, signal.SIGTERM)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def status_after_the_terminal_is_gone(command: Sequence[str], environment: Mapping[str, str], begun: bytes) -> int:
    """Run a process on a terminal until it writes `begun`, then close the terminal. Returns the exit status."""
    child, terminal = pty.fork()
    if child == 0:
        # With this variable, no log line would wait in a buffer that can no longer be written.
        os.environ.pop("PYTHONUNBUFFERED", None)
        os.environ.update(environment)
        os.execv(sys.executable, (sys.executable, *command))
    try:
        shown = b""
        while begun not in shown:
            ready, _, _ = select.select([terminal], [], [], PATIENCE)
            assert ready, shown
            shown += os.read(terminal, 4096)
    finally:
        os.close(terminal)
    try:
        until(lambda: gone(child), "it has ended")
    finally:
        os.kill(child, signal.SIGKILL)  # no effect if the process has ended
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_what_is_taken_over_and_what_waits(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_CONFIG", str(written))
    written.write_text("")
    current = Reloading(load())
    written.write_text('log = "error"\nworkers = 3\ncallback_refused_networks = "192.0.2.0/24"\n')
    changed = current.read()
    assert changed is not None
    assert (changed.log, changed.workers) == ("error", Settings().workers)
    assert logging.getLogger("node").getEffectiveLevel() == logging.ERROR
    assert changed.callback_refused_networks == Networks.parse("192.0.2.0/24")
    written.write_text("log = 'loud'")
    assert current.read() is None
    assert current.settings == changed
    written.write_text("trusted_proxies = 'unix'")
    changed = current.read()
    assert changed is not None
    assert (changed.trusted_proxies, changed.log) == (Proxies(unix=True), "info")


def test_what_is_started_again_has_what_was_taken_over_and_nothing_else(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_CONFIG", str(written))
    written.write_text('node_id = "first"\n')
    child_settings = ChildSettings()
    written.write_text(
        'node_id = "second"\nlog = "error"\ntrusted_proxies = "unix"\ncallback_refused_networks = "192.0.2.0/24"\n'
        '[limit]\nrelay = "5/60"\n'
    )
    child_settings.renew()
    for name, value in child_settings.environment.items():
        monkeypatch.setenv(name, value)
    started = load()
    assert (started.node_id, started.log, started.limits.relay) == ("first", "error", Limit(5, 60))
    assert (started.trusted_proxies, started.callback_refused_networks) == (
        Proxies(unix=True),
        Networks.parse("192.0.2.0/24"),
    )


def test_a_file_that_is_broken_between_two_looks_ends_no_supervisor(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.write_text("[limit]\nrelay = '5/60'\n")
    monkeypatch.setenv("RELAY_CONFIG", str(written))
    child_settings = ChildSettings()
    before = child_settings.environment
    written.write_text("[limit]\nrelay = ")
    child_settings.renew()
    assert child_settings.environment == before


def test_the_log_level_changes_for_loggers_that_were_used_before(caplog: pytest.LogCaptureFixture) -> None:
    logger = structlog.stdlib.get_logger("node.tests")
    for level, said in (("error", []), ("info", ["heard"]), ("warning", [])):
        configure(level)
        logging.getLogger().addHandler(caplog.handler)
        caplog.clear()
        logger.info("heard")
        assert [cast("dict[str, str]", record.msg)["event"] for record in caplog.records] == said
