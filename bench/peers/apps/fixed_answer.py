"""Apps that read the body and send a fixed acknowledgement, over bare ASGI and over RSGI."""

from collections.abc import Awaitable, Callable
from typing import Any

BODY = b'{"status":"acknowledged","node_id":"relay-node","reference_id":"01936b1e-7a3c-7b1e-8c55-1f2e3d4c5b6a"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
RSGI_HEADERS = [("content-type", "application/json")]


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


async def rsgi(_scope: Any, protocol: Any) -> None:
    await protocol()
    protocol.response_bytes(200, RSGI_HEADERS, BODY)
