"""A body that no handler reads costs its client only the sending: the next request is answered.

Granian closes a connection whose body was not read to the end, without always announcing it. The next request of a
client that reuses its connections would then be lost.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.artifacts.calls import content_digest, named
from tests.faults.sockets import chunked, exchange, request
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import PATIENCE, NodeProcess

TIMES = 80
"""Number of requests in a row. Without the reading of bodies, one in five ends its connection unannounced."""

SIZES = (60_000, 200_000, 1_000_000)
CHUNKED = b"Transfer-Encoding: chunked"
SAYS_CLOSE = b"\r\nconnection: close\r\n"
UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
JSON, IMAGE = "application/json", "image/png"

CASES = {
    # name: method, path, Content-Type, further header, status
    "no handler reads it": ("POST", f"/api/v1/artifacts/{UNKNOWN}/complete", JSON, None, 404),
    "nothing is there": ("POST", "/nowhere", JSON, None, 404),
    "no such method": ("PUT", "/api/v1/board", JSON, None, 405),
    "no such method, of a file": ("POST", "/static/site.css", JSON, None, 405),
    "another type": ("POST", "/api/v1/board", IMAGE, None, 415),
    "another type, hot": ("POST", "/api/v1/relay", IMAGE, None, 415),
    "a coding": ("POST", "/api/v1/relay", JSON, "Content-Encoding: gzip", 415),
    "over the limit": ("POST", "/api/v1/artifacts", JSON, None, 429),
    "no proof": ("POST", f"/api/v1/board/{UNKNOWN}/close", JSON, None, 403),
    "of GET": ("GET", "/api/v1/board", JSON, None, 200),
    "of GET, hot": ("GET", "/api/v1/tasks", JSON, None, 200),
    "of GET that waits": ("GET", f"/api/v1/tasks/{UNKNOWN}?wait=1", JSON, None, 404),
    "of HEAD": ("HEAD", "/health", JSON, None, 200),
    "of OPTIONS": ("OPTIONS", "/api/v1/board", JSON, None, 204),
    "of a preflight": ("OPTIONS", "/api/v1/board", JSON, "Access-Control-Request-Method: POST", 204),
    "of OPTIONS to a blob": ("OPTIONS", "/blobs/none", JSON, None, 204),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node at which this address has exceeded the artifact limit, and no other limit."""
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as node:
        node.start(
            **NO_LIMITS_GIVEN | {"RELAY_LIMIT_ARTIFACT": "1/3600", "RELAY_WORKERS": "1", "RELAY_CLIENT_THROUGHPUT": "0"}
        ).ready()
        with httpx2.Client(base_url=node.url, timeout=PATIENCE) as client:
            headers = {"content-digest": content_digest()}
            made = [client.post("/api/v1/artifacts", json=named(), headers=headers) for _ in range(2)]
        assert [each.status_code for each in made] == [201, 429]
        yield node


class Connection:
    """A connection that is reused until the node announces that it closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.opened = 0

    async def ask(self, sent: bytes) -> int:
        """Return the status of the answer. Raises IncompleteReadError or OSError if the connection ended
        unannounced.
        """
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            self.opened += 1
        reader, writer = self._streams
        writer.write(sent)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if SAYS_CLOSE in head:
            self.close()
        else:
            await writer.drain()
            length = re.search(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length and not sent.startswith(b"HEAD") else 0)
        return int(head.split()[1])

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            self._streams = None


@asynccontextmanager
async def connection(node: NodeProcess) -> AsyncGenerator[Connection]:
    made = Connection(node.port)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("coding", ["length", "chunked"])
@pytest.mark.parametrize("name", CASES)
async def test_no_request_after_an_unread_body_is_lost(node: NodeProcess, name: str, coding: str) -> None:
    method, path, media_type, line, status = CASES[name]
    lines = [f"Content-Type: {media_type}".encode(), *([line.encode()] if line else [])]
    if coding == "chunked":
        sent = [request(method, path.encode(), CHUNKED, *lines, body=chunked(bytes(size))) for size in SIZES]
    else:
        sent = [request(method, path.encode(), *lines, body=bytes(size)) for size in SIZES]
    async with connection(node) as kept, asyncio.timeout(PATIENCE):
        assert {await kept.ask(sent[number % len(sent)]) for number in range(TIMES)} == {status}
        assert kept.opened == 1


def test_a_client_as_people_have_it_loses_no_request(node: NodeProcess) -> None:
    with httpx2.Client(base_url=node.url, timeout=PATIENCE, limits=httpx2.Limits(max_connections=1)) as client:
        for number in range(TIMES):
            body = bytes(SIZES[number % len(SIZES)])
            for method, path, media_type, _, status in list(CASES.values())[:4]:
                headers = {"content-type": media_type}
                assert client.request(method, path, content=body, headers=headers).status_code == status
            assert client.get("/health").status_code == 200


NOT_READ = {
    # name: the pieces to send, a second apart
    "none of it comes": [request("POST", b"/nowhere", b"Content-Length: 5000")],
    "a byte a second": [request("POST", b"/nowhere", b"Content-Length: 5000"), *[b"x"] * 20],
    "more than a body may have": [request("POST", b"/nowhere", b"Content-Length: 5000000")],
    "more than a body may have, in chunks": [request("POST", b"/nowhere", CHUNKED), chunked(bytes(1_500_000))],
    "the client waits to be asked for it": [
        request("POST", b"/nowhere", b"Content-Length: 5000", b"Expect: 100-continue")
    ],
    "half of it, which the handler gave up": [
        request("POST", b"/api/v1/board", b"Content-Type: application/json", CHUNKED),
        chunked(bytes(1_500_000)),
    ],
}


@pytest.mark.parametrize("name", NOT_READ)
def test_what_is_not_read_off_is_said_to_end_the_connection(node: NodeProcess, name: str) -> None:
    pieces = NOT_READ[name]
    met = exchange(node.port, *pieces, pause=1.0 if len(pieces) > 1 else 0.0)
    assert met.statuses == [413 if "handler" in name else 404]
    assert met.received.lower().count(SAYS_CLOSE) == 1
    assert met.closed


FOLLOWS = request("GET", b"/api/v1/events?topic=board", b"Accept: text/event-stream", CHUNKED)
WAITS = request("GET", b"/api/v1/events?topic=board&wait=30", CHUNKED)


@pytest.mark.parametrize(("asks", "status"), [(FOLLOWS, 200), (WAITS, 413)])
def test_who_goes_on_with_a_body_neither_follows_nor_waits(node: NodeProcess, asks: bytes, status: int) -> None:
    met = exchange(node.port, asks + chunked(bytes(1_500_000)))
    assert met.statuses == [status]
    assert met.closed
