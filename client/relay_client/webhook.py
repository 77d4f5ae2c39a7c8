"""Callbacks of a node: whether one is genuine and what it says (Standard Webhooks, ed25519). Needs the extra `sign`."""

import json
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

TOLERANCE = 300  # s between the clocks of the node and of the receiver, as Standard Webhooks advises
DIGITS = 20  # of a timestamp, far more than any has
SCHEME = "v1a,"
LARGEST = 64 * 1024  # bytes of a body; a node sends less than 20 kB
REMEMBERED = 10_000  # ids, so that a repeated callback is handled once


class WebhookInvalid(Exception):
    """Not from this node, not for this host, or too old: answer 400."""


def verify_webhook(headers: Mapping[str, str], body: bytes, public_key: str, host: str) -> dict[str, Any]:
    """What a genuine callback says, with its `webhook-id` as `id`; raises WebhookInvalid for any other.

    `public_key` is `webhook_public_key` of `relay.node.identity()`. `host` is your own: the node signs for all
    receivers with one key. Drop repeats by `id`.
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
    except (KeyError, TypeError):  # the node signs A2A push notifications, too, which name their receiver elsewhere
        raise WebhookInvalid("this is not a callback") from None
    if not is_for_host:
        raise WebhookInvalid("this callback is for another host")
    return {**said, "id": ident}


Message = MutableMapping[str, Any]
Handler = Callable[[dict[str, Any]], Awaitable[None]]


class WebhookReceiver:
    """An ASGI application that takes callbacks: `WebhookReceiver(handler, public_key=..., host="agent.example")`.

    Mount it at the path of your `callback_url`, which has to end in a slash then: Starlette and FastAPI redirect what
    comes without, and the node follows no redirect. `handler` is awaited with what a genuine callback says, once for
    each `webhook-id`; if it raises, the node gets a 500, and tries again.
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
            return 503  # the handler has not finished: its outcome is not known yet
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
    except (BadSignatureError, ValueError):  # ValueError: no base64, or not 64 bytes
        return False
    return True
