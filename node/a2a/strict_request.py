"""A request as the official clients send it: JSON names, text parts, nothing unknown; read in one typed pass.

Whatever else a request may hold, or get wrong, is read field by field in `node.a2a.request`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from node.a2a.model import Message, Part
from node.common.refusal import Invalid
from node.text.readable import readable
from node.web.json import decode

ID_LENGTH = 256
"""Characters of an id that a client chooses."""

Id = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]


class StrictSend(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Base of what is read here: an unknown field ends the pass."""


class StrictPart(StrictSend):
    """A part of plain text."""

    text: str
    media_type: Literal["text/plain"] | None = None
    metadata: dict[str, Any] | None = None


class StrictMessage(StrictSend):
    """A message of plain text."""

    message_id: Id
    role: Literal["ROLE_USER"]
    parts: Annotated[list[StrictPart], Meta(min_length=1)]
    context_id: Id | None = None
    task_id: Id | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class StrictConfiguration(StrictSend):
    """A configuration without push notifications."""

    accepted_output_modes: list[str] | None = None
    history_length: Annotated[int, Meta(ge=0)] | None = None
    return_immediately: bool | None = None


class StrictRequest(StrictSend):
    """SendMessageRequest."""

    message: StrictMessage
    configuration: StrictConfiguration | None = None
    metadata: dict[str, Any] | None = None


class ReceivedMessage(msgspec.Struct):
    """A valid SendMessageRequest."""

    message: Message
    text: str
    history_length: int | None
    metadata: dict[str, Any]


def read_strictly(body: bytes) -> ReceivedMessage | None:
    """The message of an ordinary request, or None."""
    try:
        request = decode(body, StrictRequest)
    except Invalid:
        return None
    said = request.message
    parts = [
        Part(text=readable(part.text), media_type=part.media_type, metadata=part.metadata or None)
        for part in said.parts
    ]
    text = "\n".join([part.text or "" for part in parts])
    if not text.strip():
        return None
    message = Message(
        message_id=said.message_id,
        role="ROLE_USER",
        parts=parts,
        context_id=said.context_id,
        task_id=said.task_id,
        metadata=said.metadata or None,
        extensions=said.extensions or None,
        reference_task_ids=said.reference_task_ids or None,
    )
    length = request.configuration.history_length if request.configuration else None
    return ReceivedMessage(message, text, length, request.metadata or {})
