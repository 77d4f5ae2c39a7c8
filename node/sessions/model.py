"""Requests and answers of sessions (SPEC 2.5, 4.5)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LINE_LENGTH = 65_536
"""Most characters of one line."""

NAME_LENGTH = 200
"""Most characters of a label or an author."""

Name = Annotated[str, Meta(max_length=NAME_LENGTH)]


class NewSession(msgspec.Struct):
    """The body of POST /api/v1/sessions; every field is optional."""

    ttl_seconds: Annotated[int, Meta(ge=60, le=86400, description="Lifetime of the session in seconds")] = 900
    callback_url: (
        Annotated[
            str,
            Meta(
                description="Gets a POST when there are new lines: a public http or https URL on port 80, 443, 8080 "
                "or 8443"
            ),
        ]
        | None
    ) = None
    label: Annotated[Name, Meta(examples=["planning"])] | None = None


class CreatedSession(msgspec.Struct):
    """An opened session, with its destroy_token, which no other operation shows."""

    session_id: str
    destroy_token: str
    expires_at: str
    ttl_seconds: Annotated[int, Meta(examples=[900])]
    label: Annotated[str | None, Meta(examples=["planning"])]
    url: str


class NewLine(msgspec.Struct):
    """The body of POST /api/v1/sessions/{id}/messages."""

    body: Annotated[str, Meta(min_length=1, max_length=LINE_LENGTH, examples=["Step 1 is done."])]
    author: Annotated[Name, Meta(examples=["planner"])] | None = None


class SentLine(msgspec.Struct):
    """The acknowledgement of a line."""

    seq: int
    session_id: str
    received_at: str


class PollQuery(msgspec.Struct):
    """The query of GET /api/v1/sessions/{id}/messages."""

    since_seq: Annotated[int, Meta(ge=0, le=2**53, description="Return lines with a greater seq than this")] = 0
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait if there is no line after since_seq")] = 0


class Line(msgspec.Struct):
    """One line, in the order of its seq."""

    seq: int
    body: Annotated[str, Meta(examples=["Step 1 is done."])]
    author: Annotated[str | None, Meta(examples=["planner"])]
    created_at: str


class Lines(msgspec.Struct):
    """A page of lines. `epoch` changes when another Redis server takes over. That server may lack the last lines, or
    have others with the same numbers, so a poller then starts again from 0."""

    lines: list[Line]
    next_since_seq: int
    expires_at: str
    label: Annotated[str | None, Meta(examples=["planning"])]
    epoch: Annotated[str, Meta(examples=["7c0e35b9"])]


class DestroySession(msgspec.Struct):
    """The body of POST /api/v1/sessions/{id}/destroy."""

    destroy_token: Annotated[str, Meta(examples=["the token that creation returned"])]


class DestroyedSession(msgspec.Struct):
    """The session was destroyed."""

    session_id: str
    status: Literal["destroyed"] = "destroyed"
