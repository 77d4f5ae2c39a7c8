"""Relayed messages."""

from collections.abc import Mapping
from typing import Any, TypedDict

from relay_client.call import Call
from relay_client.resource import M_co, Operation, Resource


class _Acknowledgement(TypedDict):
    status: str
    node_id: str
    reference_id: str


class Acknowledgement(_Acknowledgement, total=False):
    """Confirms that a relayed message was kept. A public message is a thread at `post_url`."""

    post_url: str


class Buffered(TypedDict):
    """A relayed message."""

    id: str
    received_at: str
    expires_at: str | None
    payload: Any


class Messages(Resource[M_co]):
    """Relayed messages: `relay.messages.send("Hello")`."""

    @Operation
    def send(
        self,
        message: str | Mapping[str, Any],
        *,
        hello: str | None = None,
        language: str | None = None,
        public: bool | None = None,
        author: str | None = None,
        callback_url: str | None = None,
        key: str | None = None,
    ) -> Call[Acknowledgement | None]:
        """Relay a text, or a JSON object with any fields. `public=False` keeps it off the board.

        An argument overrides a field of the object. Returns None if the node takes the message for a loop: the same
        message for the third time within a minute.
        """
        fields = {"message": message} if isinstance(message, str) else message
        given = {
            "hello": hello,
            "language": language,
            "public": public,
            "author": author,
            "callback_url": callback_url,
        }
        sent = {**fields, **{name: value for name, value in given.items() if value is not None}}
        nulls = [name for name, value in sent.items() if value is None]
        call = Call.post("relay", repeat="key", key=key, pace="relay", fields=sent, nulls=nulls)
        call.may_be_nothing = True
        return call

    @Operation
    def get(self, reference_id: str, *, wait: float = 0) -> Call[Buffered]:
        """Read a relayed message. It never changes, so `wait` is of no use."""
        return Call.get("relay", reference_id, wait=wait)

    @Operation
    def stream(
        self, text: str | bytes, *, media_type: str = "text/plain; charset=utf-8", key: str | None = None
    ) -> Call[Acknowledgement | None]:
        """Relay UTF-8 text of any media type unchanged, off the board. Returns None in the same case as `send`."""
        call = Call.post("wire", "stream", repeat="key", key=key, pace="relay", headers={"Content-Type": media_type})
        call.body = text.encode() if isinstance(text, str) else text
        call.may_be_nothing = True
        return call
