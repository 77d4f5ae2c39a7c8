"""ASGI scopes for tests that call an application directly."""

from typing import Any

from node.web.http import Header

HOST: Header = (b"host", b"node.example")


def http_scope(method: str, path: str, *headers: Header, client: str = "203.0.113.7") -> dict[str, Any]:
    """Return the ASGI scope of a request with exactly these headers."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": list(headers),
        "client": (client, 40000),
    }
