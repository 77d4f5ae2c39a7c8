"""Raw bytes to a node and back, for requests that no well-behaved HTTP client sends."""

import re
import socket
from collections.abc import Iterable
from contextlib import suppress

from tests.support.servers import PATIENCE

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_CODE = re.compile(rb"^x-error-code: (\S+)\r", re.MULTILINE)


class Exchange:
    """Everything received on one connection until the node closed it."""

    def __init__(self, received: bytes, *, closed: bool) -> None:
        self.received = received
        self.closed = closed
        """Whether the node closed the connection; otherwise PATIENCE ran out."""

    @property
    def statuses(self) -> list[int]:
        """Return the statuses of all answers, including interim ones."""
        return [int(status) for status in _STATUS.findall(self.received)]

    @property
    def codes(self) -> list[str]:
        """Return the X-Error-Code of every answer that has one."""
        return [code.decode() for code in _CODE.findall(self.received)]


def exchange(port: int, *pieces: bytes, pause: float = 0.0, half_close: bool = False) -> Exchange:
    """Send the pieces, `pause` seconds apart, and read until the node closes the connection.

    Sending stops as soon as the node answers or closes. `half_close`: shut down our side after the pieces.
    """
    received = b""
    closed = True
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.settimeout(PATIENCE)
        try:
            with suppress(ConnectionError):  # the node closed before it had read everything; its answer is there
                received = _send(link, pieces, pause)
                if half_close:
                    link.shutdown(socket.SHUT_WR)
            while data := link.recv(65536):
                received += data
        except TimeoutError:
            closed = False
        except ConnectionError:
            pass
    return Exchange(received, closed=closed)


def _send(link: socket.socket, pieces: Iterable[bytes], pause: float) -> bytes:
    for number, piece in enumerate(pieces):
        if pause and number:
            link.settimeout(pause)
            with suppress(TimeoutError):
                early = link.recv(65536)
                link.settimeout(PATIENCE)
                return early
            link.settimeout(PATIENCE)
        link.sendall(piece)
    return b""


def request(
    method: str = "GET", target: bytes = b"/health", *lines: bytes, body: bytes = b"", version: bytes = b"1.1"
) -> bytes:
    """Return the bytes of a request. Content-Length is added unless `lines` give the length of the body."""
    head = [method.encode() + b" " + target + b" HTTP/" + version, b"Host: node.example", *lines]
    if body and not any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in lines):
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*head, b"", body])


def chunked(*chunks: bytes) -> bytes:
    """Return a complete body in chunked transfer coding."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))
