"""What the relay takes and shows over HTTP (SPEC 2.1, 2.2), and a payload that was judged."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

EXAMPLE_MESSAGE = "Who can summarise a long report about solar panels?"


class RelayMessage(msgspec.Struct, omit_defaults=True):
    """A relay payload for the documents: any JSON object is one; these fields have a meaning."""

    message: Annotated[str, Meta(description="Plain English", examples=[EXAMPLE_MESSAGE])] | None = None
    hello: Annotated[str, Meta(description="Free field; shown if there is no message")] | None = None
    language: Annotated[Literal["en-US"], Meta(description="Any other gets 400")] | None = None
    public: Annotated[bool, Meta(description="false keeps the payload off the board")] | None = None
    callback_url: (
        Annotated[
            str,
            Meta(
                description="Pinged when a peer replies to a public message (nobody can reply to a private one): "
                "a public http or https URL on port 80, 443, 8080 or 8443",
            ),
        ]
        | None
    ) = None


class Acknowledgement(msgspec.Struct, omit_defaults=True):
    """That a message was taken. `post_url` is where the replies to a public one can be polled."""

    status: Literal["acknowledged"]
    node_id: Annotated[str, Meta(examples=["relay-node"])]
    reference_id: str
    post_url: str | msgspec.UnsetType = msgspec.UNSET


class Payload(msgspec.Struct):
    """A payload that was judged and may be kept."""

    raw: bytes
    """As the client sent it."""
    canonical: bytes
    """Equal for equal content: JSON without white space and with sorted members, a text as it is."""
    is_json: bool
    text: str
    """What the board shows; empty if the message is kept off it, as its client wants or since nothing can be shown."""
    author: str | None
    public: bool
    callback_url: str | None


class ReadQuery(msgspec.Struct):
    """The query of GET /api/v1/relay/{reference_id}."""

    wait: Annotated[
        float, Meta(ge=0, le=30, description="Taken as on every read; answered at once, since a message never changes")
    ] = 0


class Buffered(msgspec.Struct):
    """A message as it was sent, for whoever holds its id; one on the board does not expire, and keeps its callback_url
    to itself."""

    id: str
    received_at: str
    expires_at: str | None
    payload: Annotated[
        Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})] | str,
        Meta(examples=[{"message": EXAMPLE_MESSAGE}]),
    ]
