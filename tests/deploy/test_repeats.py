"""Which requests the shipped HAProxy configuration repeats at another node when one dies: none that must not be done
twice.
"""

import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from tests.deploy.processes import HELLO, call, web_node
from tests.deploy.proxy import Proxy
from tests.support.servers import RedisServer

REQUESTS = 20


class Dying:
    """A node that says it is ready, and closes the connection of every other request without an answer."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.taken = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        try:
            while True:
                link, _ = self._listener.accept()
                with link:
                    if link.recv(65536).startswith(b"GET /ready "):
                        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    else:
                        self.taken += 1
        except OSError:  # the listener was closed
            return


@pytest.fixture
def dying() -> Generator[Dying]:
    with Dying() as dying:
        yield dying


@pytest.fixture
def proxy(tmp_path: Path, shared_redis: RedisServer, dying: Dying) -> Generator[Proxy]:
    with (
        web_node(tmp_path, shared_redis.url, RELAY_TRUSTED_PROXIES="127.0.0.1") as node,
        Proxy(tmp_path, dying.port, node.port) as proxy,
    ):
        proxy.sees(True, True)
        yield proxy


def posted(proxy: Proxy, headers: dict[str, str]) -> int:
    message = {"message": f"{HELLO} It is {uuid4()}.", "public": False}
    return call(proxy.port, "POST", "/api/v1/relay", message, headers)[0]


def test_a_write_with_a_key_goes_to_another_node(proxy: Proxy, dying: Dying) -> None:
    assert {posted(proxy, {"Idempotency-Key": str(uuid4())}) for _ in range(REQUESTS)} == {200}
    assert dying.taken


def test_a_read_goes_to_another_node(proxy: Proxy, dying: Dying) -> None:
    assert {call(proxy.port, "GET", "/api/v1/board")[0] for _ in range(REQUESTS)} == {200}
    assert dying.taken


def test_a_write_without_a_key_goes_to_one_node_only(proxy: Proxy, dying: Dying) -> None:
    found = [posted(proxy, {}) for _ in range(REQUESTS)]
    assert set(found) == {200, 502}
    assert found.count(502) == dying.taken


def test_a_call_of_a_tool_goes_to_one_node_only_whatever_its_header_says(proxy: Proxy, dying: Dying) -> None:
    """A tool gets its key as an argument; the header has no effect there."""
    said = {"name": "relay_message", "arguments": {"message": HELLO, "public": False}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": said}
    headers = {"Accept": "application/json, text/event-stream", "Idempotency-Key": str(uuid4())}
    found = [call(proxy.port, "POST", "/api/v1/mcp", asked, headers)[0] for _ in range(REQUESTS)]
    assert set(found) == {200, 502}
    assert found.count(502) == dying.taken


def test_a_removal_goes_to_one_node_only(proxy: Proxy, dying: Dying) -> None:
    """Another node could say that the entity is unknown, because the first one has just removed it."""
    found = [call(proxy.port, "DELETE", f"/api/v1/agents/{uuid4()}")[0] for _ in range(REQUESTS)]
    assert found.count(502) == dying.taken > 0
