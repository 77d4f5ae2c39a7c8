"""Just enough HTTP/2 to send many requests on one connection (RFC 9113), without TLS."""

import socket
import struct

from tests.support.nodes import PATIENCE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0x0, 0x1, 0x4
END_STREAM, END_HEADERS = 0x1, 0x4
NOT_INDEXED = b"\0"  # a field with a new name (RFC 7541 §6.2.2)
FRAME_HEAD = 9  # bytes


class Connection:
    """A connection to a port of this machine, from a given loopback address."""

    def __init__(self, port: int, address: str) -> None:
        self._link = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))
        self._next = 1
        self._link.sendall(PREFACE + _frame(SETTINGS, 0, 0, b""))
        self._stream = self._link.makefile("rb")

    def get(self, path: str, number: int) -> None:
        """Send `number` requests without waiting for any answer."""
        for _ in range(number):
            fields = {":method": "GET", ":scheme": "http", ":authority": "relay.example", ":path": path}
            block = b"".join(NOT_INDEXED + _literal(name) + _literal(value) for name, value in fields.items())
            self._link.sendall(_frame(HEADERS, END_STREAM | END_HEADERS, self._next, block))
            self._next += 2

    def content(self) -> bytes:
        """Return the payload of the next DATA frame. Raises TimeoutError if none arrives."""
        while True:
            head = self._stream.read(FRAME_HEAD)
            kind, data = head[3], self._stream.read(int.from_bytes(head[:3]))
            if kind == DATA:
                return data

    def close(self) -> None:
        self._stream.close()
        self._link.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(text: str) -> bytes:
    """Return a name or value of fewer than 127 characters, unencoded (RFC 7541 §5.2)."""
    return bytes([len(text)]) + text.encode("ascii")
