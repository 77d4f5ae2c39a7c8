"""How the parts of a node start and stop: in any order, in good time, and so that a load balancer can follow."""

import http.client
import json
import os
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from tests.deploy.processes import HELLO, WEB, WORKER, call, ends, relay, start, status, until_ready, web_node
from tests.support.nodes import NodeProcess, gone
from tests.support.servers import PATIENCE, RedisServer, free_port, until

WITHOUT_FORK = """
import multiprocessing
from node.__main__ import main
multiprocessing.set_start_method("forkserver")
main()
"""


def test_parts_may_start_before_their_redis(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis", port=free_port())
    with NodeProcess(tmp_path / "web", WEB) as web, NodeProcess(tmp_path / "worker", WORKER) as worker:
        start(web, redis.url)
        start(worker, redis.url, RELAY_EMBEDDING_MODEL="none")
        until(lambda: status(web.port, "/ready") == 503, "the web process answers, and says that it has no Redis")
        worker.line("redis out of reach")
        with redis:
            until_ready(web)
            assert relay(web.port, HELLO)["status"] == "acknowledged"
            worker.line("redis connected")
            assert ends(worker) == ends(web) == 0


def test_a_node_that_drains_says_so_and_serves_on_until_it_stops(tmp_path: Path, empty_redis: RedisServer) -> None:
    with web_node(tmp_path, empty_redis.url, RELAY_DRAIN_SECONDS="300") as node:
        kept = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE)
        kept.request("GET", "/ready")
        assert kept.getresponse().read() == b'{"status":"ready"}'
        node.signal(signal.SIGTERM)
        until(lambda: status(node.port, "/ready") == 503, "load balancers are told")
        kept.request("GET", "/health")
        answer = kept.getresponse()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        number, headers, body = call(node.port, "GET", "/ready")
        assert (number, headers["connection"], body) == (503, "close", b'{"status":"draining"}')
        assert headers["retry-after"] == "1"
        assert relay(node.port, HELLO)["status"] == "acknowledged"
        assert ends(node) == 0
        assert status(node.port, "/health") == 0


def test_a_web_process_that_starts_during_a_drain_drains_too(tmp_path: Path, empty_redis: RedisServer) -> None:
    """The signal to drain reaches only processes that are alive; a later one learns of the drain from a shared flag.
    Otherwise it would call load balancers back.

    The flag must be shared even where processes are not forked, as with Python 3.14.
    """
    command = (sys.executable, "-c", WITHOUT_FORK, "web")
    with web_node(tmp_path, empty_redis.url, command, RELAY_DRAIN_SECONDS="300") as node:
        node.signal(signal.SIGTERM)
        until(lambda: status(node.port, "/ready") == 503, "it drains")
        pid = node.web_process(1)
        os.kill(pid, signal.SIGKILL)
        until(lambda: gone(pid), "the process has ended")
        told: set[bytes] = set()

        def is_draining() -> bool:
            told.add(call(node.port, "GET", "/ready")[2])  # waits until another process accepts it
            return b'{"status":"draining"}' in told

        until(is_draining, "the next one drains")
        assert b'{"status":"ready"}' not in told
        assert call(node.port, "GET", "/health")[1]["connection"] == "close"
        assert ends(node) == 0


def test_a_node_whose_metrics_folder_is_gone_stops_all_the_same(tmp_path: Path, empty_redis: RedisServer) -> None:
    folder = tmp_path / "metrics"  # as in /dev/shm, where logind removes a user's files when that user logs out
    with web_node(tmp_path, empty_redis.url, RELAY_ADMIN_PORT=str(free_port()), RELAY_METRICS_DIR=str(folder)) as node:
        shutil.rmtree(folder)
        assert ends(node) == 0


def test_a_second_signal_ends_the_drain(tmp_path: Path, empty_redis: RedisServer) -> None:
    with web_node(tmp_path, empty_redis.url, RELAY_DRAIN_SECONDS="300") as node:
        node.signal(signal.SIGTERM)
        until(lambda: status(node.port, "/ready") == 503, "it drains")
        assert ends(node) == 0


def test_a_request_that_is_held_for_news_is_answered_when_the_drain_is_over(
    tmp_path: Path, empty_redis: RedisServer
) -> None:
    with web_node(tmp_path, empty_redis.url, RELAY_DRAIN_SECONDS="1") as node:
        session = json.loads(call(node.port, "POST", "/api/v1/sessions", {"ttl_seconds": 600})[2])["session_id"]
        held: list[int] = []
        path = f"/api/v1/sessions/{session}/messages?since_seq=0&wait=30"
        waiting = threading.Thread(target=lambda: held.append(call(node.port, "GET", path)[0]))
        waiting.start()
        until(lambda: empty_redis.do("PUBSUB", "SHARDCHANNELS", f"*{session}*"), "somebody waits")
        node.signal(signal.SIGTERM)
        assert node.wait() == 0
        waiting.join()
        assert held == [200]


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels are not asked who reads")
def test_a_client_that_takes_no_answer_does_not_have_a_stopping_process_killed(
    tmp_path: Path, empty_redis: RedisServer
) -> None:
    """Otherwise a stop takes seven seconds, and the last report of the process is lost."""
    with web_node(tmp_path, empty_redis.url) as node, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", node.port))
        client.sendall(8 * b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n")
        assert client.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) == b"HTTP/1.1 200"
        assert ends(node) == 0
        assert not [line for line in node.lines if "killed" in line["event"]]


@pytest.mark.parametrize("moment", ["redis out of reach", "redis connected"])
def test_a_worker_does_not_wait_for_its_model_when_it_is_told_to_stop(
    tmp_path: Path, empty_redis: RedisServer, moment: str
) -> None:
    url = empty_redis.url if moment == "redis connected" else f"redis://127.0.0.1:{free_port()}"
    with NodeProcess(tmp_path, WORKER) as worker:
        start(worker, url)
        worker.line(moment)
        assert ends(worker) == 0
        assert not [line for line in worker.lines if line["event"] == "embedding model loaded"]
