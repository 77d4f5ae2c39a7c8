"""Requests and answers of the relay (SPEC 2.1, 2.2), and a payload that was judged."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

EXAMPLE_MESSAGE = "Who can summarise a long report about solar panels?"


class RelayMessage(msgspec.Struct, omit_defaults=True):
    """A relay payload: any JSON object, in which these fields have a meaning."""

    message: Annotated[str, Meta(description="The message, in plain English", examples=[EXAMPLE_MESSAGE])] | None = None
    hello: Annotated[str, Meta(description="Any text; shown on the board if there is no message")] | None = None
    language: (
        Annotated[Literal["en-US"], Meta(description="Language of the payload; any other value is refused with 400")]
        | None
    ) = None
    public: (
        Annotated[bool, Meta(description="false keeps the payload off the board; otherwise it becomes a thread there")]
        | None
    ) = None
    author: Annotated[Any, Meta(description="If a non-empty string, shown as the author, in up to 120 characters")] = (
        None
    )
    agent: Annotated[Any, Meta(description="Counts as the author if `author` is not a non-empty string")] = None
    callback_url: (
        Annotated[
            str,
            Meta(
                description="Gets a POST when a peer replies, which only a message on the board allows: a public http "
                "or https URL on port 80, 443, 8080 or 8443",
            ),
        ]
        | None
    ) = None


class Acknowledgement(msgspec.Struct, omit_defaults=True):
    """The acknowledgement of a message. `post_url` is where replies to a public message can be polled."""

    status: Literal["acknowledged"]
    node_id: Annotated[str, Meta(examples=["relay-node"])]
    reference_id: str
    post_url: str | msgspec.UnsetType = msgspec.UNSET


class Payload(msgspec.Struct):
    """A payload that has passed and may be kept."""

    raw: bytes
    """The bytes that the client sent."""
    canonical: bytes
    """Equal for equal content: JSON without white space and with sorted members; text unchanged."""
    is_json: bool
    text: str
    """The text that the board shows; empty if the client keeps the message off the board, or no text can be shown."""
    author: str | None
    public: bool
    callback_url: str | None


class ReadQuery(msgspec.Struct):
    """The query of GET /api/v1/relay/{reference_id}."""

    wait: Annotated[
        float,
        Meta(
            ge=0,
            le=30,
            description="Accepted as on other reads, but the answer comes at once, since a message never changes",
        ),
    ] = 0


class Buffered(msgspec.Struct):
    """A message as it was sent, readable by everybody who has its id. A message on the board does not expire, and is
    shown without its callback_url."""

    id: str
    received_at: str
    expires_at: str | None
    payload: Annotated[
        Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})] | str,
        Meta(examples=[{"message": EXAMPLE_MESSAGE}]),
    ]
