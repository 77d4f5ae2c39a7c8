"""Servers that a node sends to: an OTLP collector, and a receiver of callbacks."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Server:
    """An HTTP server on loopback, for as long as the context lasts."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.got(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def got(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Handle a request."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Receiver(Server):
    """Keeps the headers of the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[dict[str, str]] = []

    def got(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.headers.append(headers)


class Collector(Server):
    """Keeps the received spans."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[str, Span]] = []
        """Each span with the role of the process that created it."""
        self.raw = b""

    def got(self, path: str, headers: dict[str, str], body: bytes) -> None:
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        self.raw += body
        for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = attributes(of_process.resource)
            assert resource["service.name"] == "relay-node"
            for scope in of_process.scope_spans:
                self.spans += [(str(resource["relay.role"]), span) for span in scope.spans]

    def find(self, wanted: Callable[[Span], bool]) -> list[Span]:
        return [span for _, span in list(self.spans) if wanted(span)]


def attributes(of: Any) -> dict[str, str | int]:
    """Return the attributes of a span or a resource as a dictionary."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}
