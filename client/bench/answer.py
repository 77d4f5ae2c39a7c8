"""A server that always gives the answer of a relayed message: what it costs is not the client's."""

from collections.abc import Awaitable, Callable
from typing import Any

BODY = b'{"status":"acknowledged","node_id":"relay-node","reference_id":"019a8f5f-03b9-7c64-8d11-b5a2c9e07f13"}'
HEADERS = [
    (b"content-type", b"application/json"),
    (b"ratelimit-policy", b'"relay";q=1000000;w=60'),
    (b"ratelimit", b'"relay";r=999999;t=60'),
    (b"x-request-id", b"03009012e700000006"),
]


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """ASGI."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
