"""Verifies and receives a node's callbacks (Standard Webhooks, ed25519). Needs the extra `sign`."""

import json
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

TOLERANCE = 300  # s between the clocks of the node and of the receiver, as Standard Webhooks advises
DIGITS = 20  # maximum length of a timestamp, far more than any real one has
SCHEME = "v1a,"
LARGEST = 64 * 1024  # bytes of a body; a node sends less than 20 kB
REMEMBERED = 10_000  # ids of handled callbacks that are kept, so that a repeated callback is handled once


class WebhookInvalid(Exception):
    """The callback is not from this node, not for this host, or too old. Answer 400."""


def verify_webhook(headers: Mapping[str, str], body: bytes, public_key: str, host: str) -> dict[str, Any]:
    """Return the content of a genuine callback, with its `webhook-id` as `id`. Raises WebhookInvalid for any other.

    `public_key` is `webhook_public_key` of `relay.node.identity()`. `host` is your own host, which must be checked
    because the node signs for all receivers with one key. Drop repeated callbacks by `id`.
    """
    given = {name.lower(): value for name, value in headers.items()}
    ident, sent = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not sent.isdecimal() or len(sent) > DIGITS or abs(time.time() - int(sent)) > TOLERANCE:
        raise WebhookInvalid("webhook-timestamp is missing or too far from this clock")
    key = VerifyKey(b64decode(public_key.removeprefix("whpk_")))
    signed = f"{ident}.{sent}.".encode(errors="replace") + body
    signatures = [
        one.removeprefix(SCHEME) for one in given.get("webhook-signature", "").split() if one.startswith(SCHEME)
    ]
    if not any(_is_of(key, signed, signature) for signature in signatures):
        raise WebhookInvalid("there is no valid signature of this node")
    said: Any = json.loads(body)
    try:
        is_for_host: bool = said["data"]["callback_host"] == host
    except (KeyError, TypeError):  # an A2A push notification, which the node also signs, names its receiver elsewhere
        raise WebhookInvalid("this is not a callback") from None
    if not is_for_host:
        raise WebhookInvalid("this callback is for another host")
    return {**said, "id": ident}


Message = MutableMapping[str, Any]
Handler = Callable[[dict[str, Any]], Awaitable[None]]


class WebhookReceiver:
    """An ASGI application that receives callbacks: `WebhookReceiver(handler, public_key=..., host="agent.example")`.

    Mount it at the path of your `callback_url`, which must end in a slash: Starlette and FastAPI redirect requests
    without it, and the node follows no redirects. `handler` is awaited with the content of each genuine callback, once
    for each `webhook-id`. If it raises, the node gets a 500 and retries.
    """

    def __init__(self, handler: Handler, *, public_key: str, host: str) -> None:
        self._handler = handler
        self._public_key = public_key
        self._host = host
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._under_way: set[str] = set()

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return
        status = await self._take(scope, receive) if scope["method"] == "POST" else 405
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _take(self, scope: Message, receive: Callable[[], Awaitable[Message]]) -> int:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return 400
            body += message.get("body", b"")
            if len(body) > LARGEST:
                return 413
            more = message.get("more_body", False)
        try:
            said = verify_webhook(headers, body, self._public_key, self._host)
        except WebhookInvalid:
            return 400
        ident = headers["webhook-id"]
        if ident in self._under_way:
            return 503  # the handler is still running, and its outcome is not known yet
        if ident not in self._seen:
            self._under_way.add(ident)
            try:
                await self._handler(said)
            finally:
                self._under_way.discard(ident)
            self._seen[ident] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return 204


def _is_of(key: VerifyKey, signed: bytes, signature: str) -> bool:
    try:
        key.verify(signed, b64decode(signature))
    except (BadSignatureError, ValueError):  # ValueError: not base64, or not 64 bytes
        return False
    return True
