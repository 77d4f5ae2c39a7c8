"""Malformed HTTP on raw sockets: a clear error or a clean end, never a 500, never a hang (DESIGN 6).

Each case goes to a whole node with two web processes. Refusals by the HTTP parser have no body of ours; what reaches
our code is refused with an error code.
"""

import gzip
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.sockets import PATIENCE, Exchange, chunked, exchange, request
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import NodeProcess

MESSAGE = b'{"message": "Hello, is anybody there who can read this?"}'
RELAY = b"/api/v1/relay"
JSON = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"
LAST = request("GET", b"/health", b"Connection: close")
"""A valid request that follows on the same connection, and closes it."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as node:
        yield node.start(**NO_LIMITS_GIVEN).ready()


@pytest.fixture(autouse=True)
def no_bug(node: NodeProcess) -> Iterator[None]:
    """Check after each test that the node is healthy and has logged no bug."""
    yield
    assert exchange(node.port, LAST).statuses == [200]
    assert [line for line in node.lines if line["event"] == "request failed"] == []


def post(body: bytes, *lines: bytes, target: bytes = RELAY) -> bytes:
    return request("POST", target, JSON, *lines, body=body)


GO_ON: dict[str, tuple[bytes, list[int], list[str]]] = {
    # name: request, the statuses of its answers, their codes; a valid request then works on the same connection
    "two Host lines": (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", [400], ["host.invalid"]),
    "no Host": (b"GET /health HTTP/1.1\r\n\r\n", [400], ["host.invalid"]),
    "an empty Host": (b"GET /health HTTP/1.1\r\nHost:\r\n\r\n", [400], ["host.invalid"]),
    "a Host that is none": (b"GET /health HTTP/1.1\r\nHost: a b/c\r\n\r\n", [400], ["host.invalid"]),
    "a Host that is none, hot": (
        b"GET /api/v1/sessions/x/messages HTTP/1.1\r\nHost: a/b\r\n\r\n",
        [400],
        ["host.invalid"],
    ),
    "a whole chunked body": (request("POST", RELAY, JSON, CHUNKED, body=chunked(MESSAGE)), [200], []),
    "chunked in capitals": (
        request("POST", RELAY, JSON, b"Transfer-Encoding: CHUNKED", body=chunked(MESSAGE)),
        [200],
        [],
    ),
    "an unknown method": (request("FOO", RELAY), [405], ["method.unknown"]),
    "a method in lower case": (request("get"), [405], ["method.unknown"]),
    "TRACE": (request("TRACE"), [405], ["method.unknown"]),
    "GET where only POST is": (request("GET", RELAY), [405], ["method.unknown"]),
    "HEAD where only POST is": (request("HEAD", RELAY), [405], ["method.unknown"]),
    "HEAD": (request("HEAD"), [200], []),
    "OPTIONS of everything": (request("OPTIONS", b"*"), [204], []),
    "an absolute URI": (request("GET", b"http://node.example/health"), [200], []),
    "a long path": (request("GET", b"/api/v1/board/" + b"a" * 20_000), [414], ["path.long"]),
    "a percent-encoded NUL": (request("GET", b"/api/v1/board/%00"), [404], ["thread.unknown"]),
    "a percent-encoded slash": (request("GET", b"/api/v1/board/a%2Freplies"), [404], ["path.spelling"]),
    "a percent-encoded letter": (request("GET", b"/api/v1/b%6fard"), [404], ["path.spelling"]),
    "two slashes": (request("GET", b"//api/v1/board"), [404], ["path.spelling"]),
    "a path above the root": (request("GET", b"/../../etc/passwd"), [404], ["path.unknown"]),
    "a bad percent escape": (request("GET", b"/api/v1/board/%zz"), [404], ["thread.unknown"]),
    "half a percent escape": (request("GET", b"/api/v1/board/%"), [404], ["thread.unknown"]),
    "bad UTF-8 in a path": (request("GET", b"/api/v1/tasks/%ff%fe"), [404], ["task.unknown"]),
    "bad UTF-8 in a hot path": (request("GET", b"/api/v1/sessions/%ff/messages"), [404], ["session.gone"]),
    "bad UTF-8 in a page's path": (request("GET", b"/board/%ff"), [404], ["thread.unknown"]),
    "bad UTF-8 in a query": (request("GET", b"/api/v1/board?limit=%ff"), [422], ["request.invalid"]),
    "a bad escape in a query": (request("GET", b"/api/v1/board?limit=%zz"), [422], ["request.invalid"]),
    "thousands of parameters": (request("GET", b"/api/v1/board?" + b"a=1&" * 2000), [422], ["request.invalid"]),
    "a raw header byte": (post(MESSAGE, b"Via: \xff\xfe"), [200], []),
    "a raw content type": (request("POST", RELAY, b"Content-Type: \xff", body=MESSAGE), [415], ["body.media_type"]),
    "a body on GET": (request("GET", b"/api/v1/board", body=b"hello"), [200], []),
    "an unread body, no such path": (post(MESSAGE, target=b"/nowhere"), [404], ["path.unknown"]),
    "an unread body, no such method": (post(MESSAGE, target=b"/health"), [405], ["method.unknown"]),
    "an unread chunked body": (request("POST", b"/nowhere", CHUNKED, body=chunked(b"hello")), [404], ["path.unknown"]),
    "several at once": (request() * 5, [200] * 5, []),
    "an upgrade to HTTP/2": (request("GET", b"/health", b"Connection: Upgrade", b"Upgrade: h2c"), [200], []),
    "an upgrade to a WebSocket": (
        request("GET", b"/health", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
        [200],
        [],
    ),
}


@pytest.mark.parametrize("name", GO_ON)
def test_a_strange_request_is_answered_and_the_connection_goes_on(node: NodeProcess, name: str) -> None:
    sent, statuses, codes = GO_ON[name]
    met = exchange(node.port, sent + LAST)
    assert met.statuses == [*statuses, 200], met.received[:500]
    assert met.codes == codes


END: dict[str, tuple[bytes, list[int], list[str]]] = {
    # name: bytes, the statuses of all answers, their codes; the node closes at once
    "a length that is too short": (post(MESSAGE, b"Content-Length: 10"), [422, 400], ["request.invalid"]),
    "a negative length": (post(MESSAGE, b"Content-Length: -5"), [400], []),
    "a signed length": (post(MESSAGE, b"Content-Length: +5"), [400], []),
    "a length beyond 64 bits": (post(MESSAGE, b"Content-Length: 99999999999999999999999"), [400], []),
    "two lengths": (post(MESSAGE, b"Content-Length: 3", b"Content-Length: 4"), [400], []),
    "an announced 2 MiB": (post(MESSAGE, b"Content-Length: 2097152"), [413], ["body.too_large"]),
    "2 MiB that ask first": (post(b"", b"Content-Length: 2097152", b"Expect: 100-continue"), [413], ["body.too_large"]),
    "an announced body nobody wants": (request("POST", b"/nowhere", b"Content-Length: 5000"), [404], ["path.unknown"]),
    "a chunk size that is no number": (
        request("POST", RELAY, JSON, CHUNKED, body=b"zz\r\nfoo\r\n0\r\n\r\n"),
        [400],
        ["body.incomplete"],
    ),
    "a chunk size beyond 64 bits": (
        request("POST", RELAY, JSON, CHUNKED, body=b"f" * 17 + b"\r\nhello\r\n"),
        [400],
        ["body.incomplete"],
    ),
    "an unknown transfer coding": (post(MESSAGE, b"Transfer-Encoding: xchunked"), [400], []),
    # The parser removes the last coding, and passes on the rest as if it were the body.
    "compressed and then in chunks": (
        request("POST", RELAY, JSON, b"Transfer-Encoding: gzip, chunked", body=chunked(gzip.compress(MESSAGE))),
        [400],
        ["body.coding"],
    ),
    "plain, though said to be compressed": (
        request("POST", RELAY, JSON, b"Transfer-Encoding: gzip, chunked", body=chunked(MESSAGE)),
        [400],
        ["body.coding"],
    ),
    "another coding in a line of its own": (
        request("POST", RELAY, JSON, b"Transfer-Encoding: gzip", CHUNKED, body=chunked(MESSAGE)),
        [400],
        ["body.coding"],
    ),
    "another coding and a length, not hot": (
        request(
            "POST",
            b"/api/v1/board",
            JSON,
            b"Content-Length: 9",
            b"Transfer-Encoding: identity, chunked",
            body=chunked(MESSAGE),
        ),
        [400],
        ["body.coding"],
    ),
    "chunked said twice": (
        request("POST", RELAY, JSON, CHUNKED, CHUNKED, body=chunked(MESSAGE)),
        [400],
        ["body.coding"],
    ),
    "chunked twice in a line": (
        request("POST", RELAY, JSON, b"Transfer-Encoding: chunked, chunked", body=chunked(MESSAGE)),
        [400],
        ["body.coding"],
    ),
    "a space before the colon": (post(MESSAGE, b"Transfer-Encoding : chunked"), [400], []),
    # A request that two parsers could read differently ends the connection, so nothing can be hidden behind it.
    "a length and chunks": (
        request("POST", RELAY, JSON, b"Content-Length: 6", CHUNKED, body=b"0\r\n\r\n" + request("GET", b"/smuggled")),
        [422],
        ["request.invalid"],
    ),
    "a header of 100 kB": (request("GET", b"/health", b"X-A: " + b"a" * 100_000), [431], []),
    "200 headers": (request("GET", b"/health", *(b"X-%d: a" % n for n in range(200))), [431], []),
    "a URI of 70 kB": (request("GET", b"/" + b"a" * 70_000), [431], []),
    "a raw NUL in the path": (request("GET", b"/api/v1/board/a\x00b"), [400], []),
    "raw bytes in the path": (request("GET", b"/api/v1/board/\xff\xfe"), [400], []),
    "a space in the path": (request("GET", b"/api/v1/board/a b"), [400], []),
    "a folded header": (request("GET", b"/health", b"X-A: b\r\n  folded"), [400], []),
    "a header without a colon": (request("GET", b"/health", b"Xabc"), [400], []),
    "a NUL in a header": (request("GET", b"/health", b"X-A: a\x00b"), [400], []),
    "HTTP/1.0": (request(version=b"1.0"), [200], []),
    "HTTP/1.0 without Host": (b"GET /about HTTP/1.0\r\n\r\n", [400], ["host.invalid"]),
    "a health check by HTTP/1.0 without Host": (b"GET /health HTTP/1.0\r\n\r\n", [200], []),
    "HTTP/0.9": (b"GET /health\r\n", [400], []),
    "HTTP/2.0": (request(version=b"2.0"), [400], []),
    "the HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 20, [], []),
    "TLS": (bytes.fromhex("160301020001") + b"\x00" * 100, [400], []),
    "noise": (b"\xff" * 500 + b"\r\n\r\n", [400], []),
}


@pytest.mark.parametrize("name", END)
def test_what_cannot_be_followed_ends_the_connection(node: NodeProcess, name: str) -> None:
    sent, statuses, codes = END[name]
    met = exchange(node.port, sent)
    assert met.closed
    assert met.statuses == statuses, met.received[:500]
    assert met.codes == codes


@pytest.mark.parametrize("body", [MESSAGE[:20], b"5\r\nhello\r\n"])
def test_a_client_that_leaves_half_way_through_a_body_is_told(node: NodeProcess, body: bytes) -> None:
    length = CHUNKED if body[:1] == b"5" else b"Content-Length: 1000"
    met = exchange(node.port, request("POST", RELAY, JSON, length, body=body), half_close=True)
    assert (met.statuses, met.codes, met.closed) == ([400], ["body.incomplete"], True)


def test_a_client_that_asks_first_is_told_to_go_on(node: NodeProcess) -> None:
    head = request("POST", RELAY, JSON, b"Expect: 100-continue", b"Content-Length: %d" % len(MESSAGE))
    with socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE) as link:
        link.sendall(head)
        assert link.recv(1024).startswith(b"HTTP/1.1 100 ")
        link.sendall(MESSAGE)
        assert link.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_body_without_end_is_cut_off(node: NodeProcess) -> None:
    endless = [b"10000\r\n" + b"a " * 32768 + b"\r\n"] * 400
    met = exchange(node.port, request("POST", b"/api/v1/wire/stream", CHUNKED), *endless)
    assert met.closed
    assert met.statuses in ([413], [])  # a client that keeps sending may lose the answer when the node closes


def test_an_idle_connection_stays_for_longer_than_clients_would_use_it(node: NodeProcess) -> None:
    """httpx reuses connections that were idle for up to five seconds. If the node closed one sooner, a request could
    get no answer.
    """
    with socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE) as link:
        for pause in (5.5, 0.0):
            link.sendall(request())
            assert link.recv(65536).startswith(b"HTTP/1.1 200 ")
            closed, _, _ = select.select([link], [], [], pause)
            assert not closed


def test_clients_that_do_not_get_on_with_it_are_closed(node: NodeProcess) -> None:
    waiting = post(b"", b"Content-Length: 1000")
    slow: dict[str, tuple[list[bytes], list[int]]] = {
        "silent": ([b""], []),
        "a header line a second": ([b"GET /health HTTP/1.1\r\n", *(b"X-%d: a\r\n" % n for n in range(20))], []),
        "idle after an answer": ([request()], [200]),
        "a body that stalls": ([waiting, b"{"], [408]),
        "a byte of the body a second": ([waiting, *[b" "] * 20], [408]),
        "a byte of a chunked body a second": ([post(b"", CHUNKED), *[b"1\r\n \r\n"] * 20], [408]),
        "a body that stalls, not hot": ([request("POST", b"/api/v1/board", JSON, b"Content-Length: 9")], [408]),
        "a body that stalls half-way, not hot": (
            [request("POST", b"/api/v1/board", JSON, b"Content-Length: 9", body=b"{")],
            [408],
        ),
        "a body that stalls, of GET": ([request("GET", b"/health", b"Content-Length: 9")], [200]),
    }
    with ThreadPoolExecutor(len(slow)) as pool:
        running = {
            name: pool.submit(exchange, node.port, *pieces, pause=1.0 if len(pieces) > 2 else 0.0)
            for name, (pieces, _) in slow.items()
        }
        met: dict[str, Exchange] = {name: future.result() for name, future in running.items()}
    assert {name: one.statuses for name, one in met.items()} == {name: expected for name, (_, expected) in slow.items()}
    assert [name for name, one in met.items() if not one.closed] == []
