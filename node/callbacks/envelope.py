"""What is sent to a callback: a Standard Webhooks message, signed for each attempt.

The body says what happened and where to read it, but contains none of the content: receiving callbacks does not prove a
right to read.
"""

import re
from collections.abc import Mapping
from typing import get_args, get_type_hints

import msgspec

from node.callbacks.model import CallbackBody
from node.common.timestamps import timestamp
from node.sign.node_key import NodeKey

CALLBACKS: Mapping[str, type[CallbackBody]] = {
    name: kind for kind in get_args(CallbackBody) for name in get_args(get_type_hints(kind)["type"])
}
"""The struct of a callback's body, by the callback's type."""

MAX_BODY = 20_000  # bytes; Standard Webhooks asks for less than 20 kB
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")  # no dots, which separate the parts of the signed text


class Envelope(msgspec.Struct, frozen=True):
    """One message. Its id is the same in all attempts, so that receivers can drop duplicates."""

    id: str
    body: bytes
    shown: tuple[tuple[bytes, bytes], ...] = ()
    """Headers by which the receiver recognises the sender, if the receiver has asked for any."""

    @classmethod
    def of(cls, message_id: str, event: str, at_ms: int, data: Mapping[str, object], *, host: str) -> "Envelope":
        """Return the message about an event that happened at `at_ms`, for a callback on `host`.

        The host is in the signed data, because the node signs with one key for all receivers: without the host, a
        receiver could pass a message on to another receiver. Raises ValueError for an id with characters other than
        letters, digits, `_` and `-`, for data that does not fit the event, and for a body of MAX_BODY bytes or more.
        """
        if not _ID.fullmatch(message_id):
            raise ValueError(f"{message_id!r} cannot be a webhook id")
        content = {"type": event, "timestamp": timestamp(at_ms), "data": {**data, "callback_host": host}}
        body = msgspec.json.encode(msgspec.convert(content, CALLBACKS[event]))
        if len(body) >= MAX_BODY:
            raise ValueError(f"the event takes {len(body)} bytes")
        return cls(message_id, body)

    def headers(self, key: NodeKey, now: float) -> list[tuple[bytes, bytes]]:
        """Return the headers of an attempt at `now`, in seconds since 1970."""
        seconds = int(now)
        return [
            (b"Content-Type", b"application/json"),
            (b"webhook-id", self.id.encode()),
            (b"webhook-timestamp", str(seconds).encode()),
            (b"webhook-signature", key.sign_webhook(self.id, seconds, self.body).encode()),
            *self.shown,
        ]
