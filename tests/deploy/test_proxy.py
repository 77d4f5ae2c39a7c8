"""What the shipped HAProxy configuration does for clients and nodes, tested with the real HAProxy."""

import http.client
import json
import re
import select
import socket
import subprocess
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.deploy.http2 import Connection
from tests.deploy.processes import HELLO, call, status, web_node
from tests.deploy.proxy import CONFIG, Proxy
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, RedisServer, free_port, until

LONGEST_WAIT = 30  # s that a request may be held (DESIGN 6)
BETWEEN_SIGNS_OF_LIFE = 15  # s between heartbeats of an event stream


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, shared_redis: RedisServer) -> Generator[NodeProcess]:
    folder = tmp_path_factory.mktemp("node")
    settings = {"RELAY_TRUSTED_PROXIES": "127.0.0.1", "RELAY_BASE_URL": "http://relay.example"}
    with web_node(folder, shared_redis.url, RELAY_LIMIT_RELAY="3/60", **settings) as node:
        yield node


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, node: NodeProcess) -> Generator[Proxy]:
    with Proxy(tmp_path_factory.mktemp("proxy"), node.port, free_port()) as proxy:
        proxy.sees(True, False)
        yield proxy


def test_haproxy_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    checked = Proxy(tmp_path, 8001, 8002).check()
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr + checked.stdout


def test_one_node_is_enough(tmp_path: Path) -> None:
    checked = Proxy(tmp_path, 8001).check()
    assert checked.returncode == 0, checked.stderr


def test_it_tells_what_the_alert_on_nodes_that_are_gone_looks_at(proxy: Proxy) -> None:
    looked_at = re.search(r"expr: (haproxy_\w+\{.+\}) == 0", (ROOT / "deploy/prometheus/alerts.yml").read_text())
    assert looked_at is not None
    assert f"{looked_at[1]} 1" in proxy.figures()


def test_what_is_held_for_news_outlasts_no_timeout() -> None:
    timeouts = dict(re.findall(r"^\s+timeout (\S+)\s+(\d+)s$", CONFIG.read_text(), re.MULTILINE))
    for name in ("client", "server"):
        assert int(timeouts[name]) > LONGEST_WAIT > BETWEEN_SIGNS_OF_LIFE


def test_each_client_is_counted_by_its_own_address_whatever_it_claims(proxy: Proxy) -> None:
    def answers(address: str) -> Counter[int]:
        statuses: Counter[int] = Counter()
        for number in range(5):
            claimed = f"198.51.100.{number}"
            link = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE, source_address=(address, 0))
            lies = {"X-Forwarded-For": claimed, "Forwarded": f"for={claimed}", "Content-Type": "application/json"}
            payload = {"message": f"{HELLO} It is number {number}.", "public": False}
            link.request("POST", "/api/v1/relay", json.dumps(payload), lies)
            statuses[link.getresponse().status] += 1
            link.close()
        return statuses

    assert answers("127.0.0.21") == {200: 3, 429: 2}
    assert answers("127.0.0.22") == {200: 3, 429: 2}


def test_the_node_sees_the_host_that_the_client_named(proxy: Proxy) -> None:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert call(proxy.port, "POST", "/api/v1/mcp", ask, {"Host": "relay.example"})[0] == 200
    assert call(proxy.port, "POST", "/api/v1/mcp", ask, {"Host": "elsewhere.example"})[0] == 421


def test_one_address_cannot_have_all_connections(proxy: Proxy) -> None:
    def connect(address: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE, source_address=(address, 0))

    with ExitStack() as stack:
        crowd: list[socket.socket] = []
        for _ in range(256):  # each sends its request in time; a client that is answered has been accepted, and counts
            crowd.append(stack.enter_context(connect("127.0.0.23")))
            _ask(crowd[-1])
        with pytest.raises(ConnectionError), connect("127.0.0.23") as one_more:
            _ask(one_more)
        with connect("127.0.0.24") as other:
            assert _ask(other).startswith(b"HTTP/1.1 200")
        assert _ask(crowd[0]).startswith(b"HTTP/1.1 200")


def test_one_address_cannot_have_all_connections_where_there_is_no_tls(tmp_path: Path, node: NodeProcess) -> None:
    with Proxy(tmp_path, node.port, sends_on=True) as proxy, ExitStack() as stack:

        def ask(address: str) -> bytes:
            link = socket.create_connection(("127.0.0.1", proxy.plain), timeout=PATIENCE, source_address=(address, 0))
            return _ask(stack.enter_context(link))

        for _ in range(256):
            assert ask("127.0.0.26").startswith(b"HTTP/1.1 308")
        with pytest.raises(ConnectionError):
            ask("127.0.0.26")
        assert ask("127.0.0.27").startswith(b"HTTP/1.1 308")


def test_one_address_cannot_open_connections_as_fast_as_it_can(tmp_path: Path, node: NodeProcess) -> None:
    """A TLS handshake takes longer than most requests. Here an address has five new connections, and a site eight."""
    altered = tmp_path / "haproxy.cfg"
    few = {"conn_rate(10s)": "conn_rate(1h)", "gt 500 }": "gt 5 }", "gt 2000 }": "gt 8 }"}
    altered.write_text(_altered({"ipmask(32,48)": "ipmask(24,48)", **few}))
    with Proxy(tmp_path, node.port, sends_on=True, config=altered) as proxy:
        proxy.sees(True)

        def answer(address: str, port: int = proxy.port) -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0)) as link:
                return _ask(link)

        for _ in range(5):
            assert answer("127.0.3.1").startswith(b"HTTP/1.1 200")
        for port in (proxy.port, proxy.plain):
            with pytest.raises(ConnectionError):
                answer("127.0.3.1", port)
        assert answer("127.0.3.2").startswith(b"HTTP/1.1 200")
        for port in (proxy.port, proxy.plain):
            with pytest.raises(ConnectionError):
                answer("127.0.3.3", port)
        assert answer("127.0.4.1", proxy.plain).startswith(b"HTTP/1.1 308")


@pytest.mark.parametrize(("group", "is_taken"), [("X25519", True), ("P-256", True), ("ffdhe8192", False)])
def test_a_client_does_not_choose_a_key_exchange_that_takes_long(
    tmp_path: Path, node: NodeProcess, group: str, is_taken: bool
) -> None:
    """A finite field of 8,192 bits would cost the proxy 0.12 s, and its client nothing."""
    key, made = tmp_path / "key.pem", tmp_path / "made.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=relay.example"]
    subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
    both = tmp_path / "relay.pem"
    both.write_bytes(made.read_bytes() + key.read_bytes())
    with Proxy(tmp_path, node.port, tls=both) as proxy:
        asked = ["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-tls1_3", "-groups", group]
        ended = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    assert (b"Cipher is TLS_" in ended.stdout) is is_taken
    assert (b"handshake failure" in ended.stderr) is not is_taken


def test_one_address_cannot_have_all_requests_by_putting_many_on_a_connection(proxy: Proxy) -> None:
    created = json.loads(call(proxy.port, "POST", "/api/v1/sessions", {"ttl_seconds": 600})[2])
    held = f"/api/v1/sessions/{created['session_id']}/messages?since_seq=0&wait={LONGEST_WAIT}"
    with ExitStack() as stack:
        crowd = [Connection(proxy.port, "127.0.0.25") for _ in range(3)]
        for each in crowd:
            stack.callback(each.close)
            each.get(held, 85)
            each.get("/ready", 1)
            assert each.content() == b'{"status":"ready"}'
        crowd[0].get(held, 5)
        for _ in range(4):
            assert b"may have at most 256 requests in progress" in crowd[0].content()
        assert status(proxy.port, "/ready") == 200
    ended = "what the client has left counts no more, long before its waits are over"
    until(lambda: _is_ready_for(proxy.port, "127.0.0.25"), ended, LONGEST_WAIT / 3)


def test_one_site_cannot_have_all_connections_or_requests_of_many_addresses(tmp_path: Path, node: NodeProcess) -> None:
    """Loopback has no /48s, so a /24 stands for a site here, and has three connections and two requests at a time."""
    altered = tmp_path / "haproxy.cfg"
    few = {"ipmask(32,48)": "ipmask(24,48)", "conn_cur(sites) gt 1024": "conn_cur(sites) gt 3", "int(256)": "int(2)"}
    altered.write_text(_altered(few))
    with Proxy(tmp_path, node.port, sends_on=True, config=altered) as proxy, ExitStack() as stack:
        proxy.sees(True)

        def connect(address: str, port: int = proxy.port) -> socket.socket:
            return stack.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))
            )

        crowd = [connect(f"127.0.1.{number}") for number in range(1, 4)]
        for each in crowd:
            assert _ask(each).startswith(b"HTTP/1.1 200")
        for port in (proxy.port, proxy.plain):
            with pytest.raises(ConnectionError):
                _ask(connect("127.0.1.9", port))
        created = json.loads(call(proxy.port, "POST", "/api/v1/sessions", {"ttl_seconds": 600})[2])
        path = f"/api/v1/sessions/{created['session_id']}/messages?since_seq=0&wait={LONGEST_WAIT}"
        held = f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
        for each in crowd[:2]:
            each.sendall(held)

        def third_is_refused() -> bool:
            # An answered request counts until the proxy has closed its stream, so at first a held one may be refused.
            refused, _, _ = select.select(crowd[:2], [], [], 0)
            for each in refused:
                assert each.recv(4096).startswith(b"HTTP/1.1 429")
                each.sendall(held)
            return not refused and _ask(crowd[2]).startswith(b"HTTP/1.1 429")

        until(third_is_refused, "both are under way")
        assert _ask(connect("127.0.2.1")).startswith(b"HTTP/1.1 200")


def test_the_fuller_the_nodes_the_fewer_requests_an_address_may_have(tmp_path: Path, node: NodeProcess) -> None:
    """Otherwise sixteen addresses could take all requests that a node accepts. Here it accepts eight, and four are
    half.
    """
    altered = tmp_path / "haproxy.cfg"
    few = {"maxconn 4000": "maxconn 8", "lt 2000": "lt 5", "int(64)": "int(1)", "lt 1000": "lt 0", "lt 500": "lt 0"}
    altered.write_text(_altered(few))
    with Proxy(tmp_path, node.port, config=altered) as proxy, ExitStack() as stack:
        proxy.sees(True)
        created = json.loads(call(proxy.port, "POST", "/api/v1/sessions", {"ttl_seconds": 600})[2])
        held = f"/api/v1/sessions/{created['session_id']}/messages?since_seq=0&wait={LONGEST_WAIT}"
        crowd = Connection(proxy.port, "127.0.0.28")
        stack.callback(crowd.close)
        crowd.get(held, 4)

        def one_more_is_refused() -> bool:
            crowd.get("/ready", 1)
            return b"may have at most 1 requests in progress" in crowd.content()

        until(one_more_is_refused, "four are under way")
        assert _is_ready_for(proxy.port, "127.0.0.29")


def _altered(replaced: Mapping[str, str]) -> str:
    """Return the shipped configuration with some values replaced. Each value must occur in it."""
    config = CONFIG.read_text()
    for there, here in replaced.items():
        assert there in config
        config = config.replace(there, here)
    return config


def _is_ready_for(port: int, address: str) -> bool:
    link = Connection(port, address)
    link.get("/ready", 1)
    try:
        return b"ready" in link.content()
    finally:
        link.close()


def _ask(link: socket.socket) -> bytes:
    """Return the proxy's answer. Raises ConnectionError if it closes the connection."""
    link.sendall(b"GET /ready HTTP/1.1\r\nHost: here\r\n\r\n")
    answer = link.recv(4096)
    if not answer:
        raise ConnectionError("closed")
    return answer


def test_a_reload_fails_no_request_on_a_connection_that_is_open(tmp_path: Path, node: NodeProcess) -> None:
    with Proxy(tmp_path, node.port) as proxy, closing(http.client.HTTPConnection("127.0.0.1", proxy.port)) as client:
        proxy.sees(True)
        for leaves, closes in ((False, None), (True, "close")):
            if leaves:
                proxy.retires()
            client.request("GET", "/health")
            answer = client.getresponse()
            assert (answer.status, answer.headers["connection"], bool(answer.read())) == (200, closes, True)


def test_no_log_line_holds_the_path_of_a_session(proxy: Proxy) -> None:
    created = call(proxy.port, "POST", "/api/v1/sessions", {"ttl_seconds": 600})
    session = json.loads(created[2])["session_id"]
    assert call(proxy.port, "GET", f"/api/v1/sessions/{session}/messages?since_seq=0")[0] == 200
    until(lambda: proxy.log().count("GET 200") >= 1, "the request is in the log")
    assert session not in proxy.log()


def test_without_any_node_the_answer_says_when_to_come_back(tmp_path: Path) -> None:
    with Proxy(tmp_path, free_port(), free_port()) as proxy:
        until(lambda: not any(proxy.up().values()), "it knows that nobody is there")
        number, headers, body = call(proxy.port, "GET", "/health")
        assert (number, headers["retry-after"], headers["content-type"]) == (503, "1", "application/json")
        assert list(json.loads(body)) == ["error"]
        assert status(proxy.metrics, "/elsewhere") == 404
