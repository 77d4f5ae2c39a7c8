"""A proxy that serves a node below a path, and strips the path from the requests that it forwards."""

import socket
import threading
from contextlib import suppress
from typing import Self

from tests.support.servers import free_port

LONGEST_HEAD = 64 * 1024


class StrippingProxy:
    """Listens on a port of its own. Answers 404 to requests that are not below `root`, as another site would."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}{root}"
        self.strayed: list[str] = []
        """Request lines of the requests that were not below the path."""
        self._to = 0

    def leading_to(self, port: int) -> Self:
        """Return the same proxy, now in front of the node at this port."""
        self._to = port
        return self

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # wakes the accepting thread
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the proxy was closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Serve one request per connection, because the head of every request must be changed."""
        with client, suppress(OSError):
            received = b""
            while b"\r\n\r\n" not in received:
                piece = client.recv(LONGEST_HEAD)
                if not piece:
                    return
                received += piece
            head, _, body = received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, version = first.split(" ")
            if target != self.root and not target.startswith((f"{self.root}/", f"{self.root}?")):
                self.strayed.append(first)
                client.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return
            target = target.removeprefix(self.root)
            target = target if target.startswith("/") else f"/{target}"
            kept = [line for line in lines if not line.lower().startswith(("connection:", "keep-alive:"))]
            changed = "\r\n".join([f"{method} {target} {version}", *kept, "Connection: close"])
            with socket.create_connection(("127.0.0.1", self._to)) as node:
                node.sendall(changed.encode("latin-1") + b"\r\n\r\n" + body)
                threading.Thread(target=_pour, args=(client, node), daemon=True).start()
                _pour(node, client)


def _pour(source: socket.socket, target: socket.socket) -> None:
    """Forward all bytes as they arrive, then the end of the stream."""
    with suppress(OSError):
        while piece := source.recv(64 * 1024):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
