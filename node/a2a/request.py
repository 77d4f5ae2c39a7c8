"""Reads A2A requests: the version, the media type, and the message in any spelling that ProtoJSON allows.

A ProtoJSON parser accepts the names of the proto file (`message_id`) as well as the JSON names (`messageId`), treats
null as unset, and ignores unknown fields. Every field with two names is therefore declared twice here, so that one
typed pass decodes the whole message.
"""

# Fields are declared under their JSON names and their proto names.
# ruff: noqa: N815

from base64 import b64decode
from contextlib import suppress
from typing import Annotated, Literal, TypeGuard

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from node.a2a.model import MAX_NAMED, MAX_PARTS, HistoryQuery, Message, Metadata, Part, ReceivedMessage
from node.a2a.proto_json import integer
from node.a2a.query_checks import check_history_length
from node.a2a.refusal import A2AError
from node.common.refusal import Invalid, Issue, Refused
from node.text.readable import readable
from node.web.accept import weights
from node.web.http import Request
from node.web.json import convert_query, decode, decode_in_steps, media_type

JSON_MEDIA, A2A_MEDIA = MEDIA_TYPES = ("application/json", "application/a2a+json")
PLAIN = "text/plain"
ID_LENGTH = 256
"""Maximum length of an id that a client chooses, in characters."""

Name = Annotated[str, Meta(max_length=ID_LENGTH)]
MAX_NUMBER_BYTES = 40
"""Maximum length of a number's JSON, in bytes. A longer one is refused undecoded."""

NAMED_BYTES = 32 * 1024
"""Maximum size of the JSON of a list of names, in bytes; it has at most MAX_NAMED names. A body has room for 260,000
one-letter names, and decoding those took 14 ms."""

Number = Raw
"""An integer in any form that ProtoJSON allows, undecoded. If a body repeats the member, only one of them is decoded.
"""


class SentPart(msgspec.Struct, gc=False):
    """A part as a client may send it. `data` is any JSON value."""

    text: str | None = None
    mediaType: str | None = None
    media_type: str | None = None
    metadata: Raw | UnsetType = UNSET
    raw: str | None = None
    url: str | None = None
    data: Raw | UnsetType = UNSET
    filename: str | None = None


class SentMessage(msgspec.Struct, gc=False):
    """A message as a client may send it."""

    messageId: Name | None = None
    role: Literal["ROLE_USER", "ROLE_AGENT"] | int | None = None
    parts: list[SentPart] | None = None
    contextId: Name | None = None
    taskId: Name | None = None
    metadata: Raw | UnsetType = UNSET
    extensions: Raw | UnsetType = UNSET
    referenceTaskIds: Raw | UnsetType = UNSET
    message_id: Name | None = None
    context_id: Name | None = None
    task_id: Name | None = None
    reference_task_ids: Raw | UnsetType = UNSET


class MessageReferences(msgspec.Struct):
    """The extensions and tasks that a message refers to. Decoded only after their size in bytes was checked."""

    extensions: Annotated[list[str], Meta(max_length=MAX_NAMED)] | None = None
    referenceTaskIds: Annotated[list[str], Meta(max_length=MAX_NAMED)] | None = None


class ReferencingMessage(msgspec.Struct):
    """Wraps MessageReferences in `message`, so that errors name the field as in the request."""

    message: MessageReferences


class SentConfiguration(msgspec.Struct, gc=False):
    """The members of a configuration that the node reads."""

    historyLength: Number | UnsetType = UNSET
    history_length: Number | UnsetType = UNSET
    returnImmediately: bool | None = None
    return_immediately: bool | None = None
    taskPushNotificationConfig: Raw | UnsetType = UNSET
    task_push_notification_config: Raw | UnsetType = UNSET


class SendMessageRequest(msgspec.Struct, gc=False):
    """The body of message:send, and of an offer of a contract."""

    message: SentMessage | None = None
    configuration: SentConfiguration | None = None
    metadata: Raw | UnsetType = UNSET


def check_version(request: Request) -> None:
    """Raise A2AError VERSION_NOT_SUPPORTED unless the request's A2A version is 1.x or not given."""
    version = request.header(b"a2a-version") or request.query().get("A2A-Version") or "1.0"
    if version.partition(".")[0].strip() != "1":
        raise A2AError("VERSION_NOT_SUPPORTED", f"A2A version {version[:20]} is not supported; send A2A-Version: 1.0")


def is_a2a(request: Request) -> bool:
    """Return whether the client of a shared path speaks A2A: it names the version or accepts application/a2a+json."""
    return (
        request.header(b"a2a-version") is not None
        or weights(request.header(b"accept")).get(A2A_MEDIA, 0.0) > 0
        or b"A2A-Version=" in request.scope["query_string"]
    )


def check_media_type(request: Request) -> None:
    """Raise Refused `body.media_type` for a body that is not declared as JSON."""
    if media_type(request) not in MEDIA_TYPES:
        # Refused rather than A2AError: the protocol's test kit expects HTTP status 415, with A2A's reason in the body.
        raise Refused("body.media_type", expected="application/json")


def history_length_of(request: Request) -> int | None:
    """Return the number of history messages that GetTask asks for; None means all. Raises Invalid."""
    length = convert_query(request.query(), HistoryQuery).history_length
    check_history_length(length)
    return length


async def read_message(request: Request) -> ReceivedMessage:
    """Read the message of a request to the node's own agent. Raises A2AError, Invalid, Refused `body.…`."""
    check_version(request)
    check_media_type(request)
    received = await message_of(request, await request.body())
    if received.push is not None:
        raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications are not supported by this agent")
    return received


async def message_of(request: Request, body: bytes) -> ReceivedMessage:
    """Decode `body`, the JSON of a SendMessageRequest, and validate its message. Raises A2AError, Invalid."""
    try:
        sending = await decode_in_steps(request, body, SendMessageRequest)
    except Invalid as invalid:
        if invalid.issues[0].loc == ("body",) and invalid.issues[0].type == "type_error":  # JSON, but not an object
            raise Invalid.field("body", msg="the body must be a JSON object", kind="json_invalid") from None
        raise
    if sending.message is None:
        raise _wrong("message", msg="Field is required.")
    message, said = _message(sending.message)
    of_request = _metadata(sending.metadata)
    received = ReceivedMessage(message, said, of_request)
    if sending.configuration is not None:
        _configure(received, sending.configuration)
    await _check_metadata(request, *(part.metadata for part in message.parts), message.metadata, of_request)
    return received


def _configure(received: ReceivedMessage, configuration: SentConfiguration) -> None:
    """Copy the options of the configuration into `received`. Raises Invalid."""
    lengths = (configuration.historyLength, configuration.history_length)
    received.history_length = _length(next(filter(_is_set, lengths), UNSET))
    received.returns_at_once = bool(configuration.returnImmediately or configuration.return_immediately)
    pushes = (configuration.taskPushNotificationConfig, configuration.task_push_notification_config)
    received.push = next(filter(_is_set, pushes), None)


def _message(sent: SentMessage) -> tuple[Message, str]:
    """Validate a message; return it with the text of all its parts. Raises A2AError, Invalid."""
    message_id = sent.messageId or sent.message_id
    if not message_id or sent.role is None or not sent.parts:
        raise _missing(messageId=message_id, role=sent.role, parts=sent.parts)
    if len(sent.parts) > MAX_PARTS:
        raise _wrong("message", "parts", msg=f"Must have at most {MAX_PARTS} parts.")
    if sent.role not in {"ROLE_USER", 1}:
        raise _wrong("message", "role", msg="Must be ROLE_USER.")
    parts = [_part(part, index) for index, part in enumerate(sent.parts)]
    said = "\n".join([part.text or "" for part in parts])
    if not said.strip():
        raise _wrong("message", "parts", 0, "text", msg="Must contain text.")
    references = _references(sent)
    message = Message(
        message_id=message_id,
        role="ROLE_USER",
        parts=parts,
        context_id=sent.contextId or sent.context_id or None,  # an empty proto field counts as not set
        task_id=sent.taskId or sent.task_id or None,
        metadata=_metadata(sent.metadata, "message"),
        extensions=references.extensions or None,
        reference_task_ids=references.referenceTaskIds or None,
    )
    return message, said


def _part(part: SentPart, index: int) -> Part:
    """Validate a part; return it as it is stored. Raises A2AError, Invalid."""
    text = part.text
    media = part.mediaType or part.media_type
    unusual = part.raw is not None or part.url is not None or part.data is not UNSET
    if text is None or unusual or (media is not None and media != PLAIN):
        text = _plain_text(part, media, index)
    return Part(
        text=readable(text),
        media_type=media,
        metadata=_metadata(part.metadata, "message", "parts", index),
        filename=readable(part.filename) if part.filename else None,
    )


def _references(sent: SentMessage) -> MessageReferences:
    tasks = sent.referenceTaskIds if _is_set(sent.referenceTaskIds) else sent.reference_task_ids
    lists = {"extensions": sent.extensions, "referenceTaskIds": tasks}
    given = {name: each for name, each in lists.items() if _is_set(each)}
    for name, each in given.items():
        if len(bytes(each)) > NAMED_BYTES:
            raise _wrong("message", name, msg=f"Must have at most {MAX_NAMED} entries and {NAMED_BYTES} bytes of JSON.")
    return decode(msgspec.json.encode({"message": given}), ReferencingMessage).message if given else MessageReferences()


def _length(given: Number | UnsetType) -> int | None:
    if not _is_set(given):
        return None
    length = None
    if len(bytes(given)) <= MAX_NUMBER_BYTES:
        with suppress(msgspec.ValidationError):
            length = integer(msgspec.json.decode(given, type=int | float | str))
    if not isinstance(length, int) or length < 0:
        raise _wrong("configuration", "historyLength", msg="Must be an integer of at least 0.")
    return length


def _missing(**given: object) -> Invalid:
    names = [name for name, value in given.items() if value in (None, "", [])]
    return Invalid([Issue(("body", "message", name), "Field is required.", "missing") for name in names])


def _plain_text(part: SentPart, media: str | None, index: int) -> str:
    """Return the text of a part with more than plain text in it.

    Raises Invalid if the part is malformed, A2AError if its content is not plain text.
    """
    contents = (part.text, part.raw, part.url, part.data if _is_set(part.data) else None)
    if len([content for content in contents if content is not None]) != 1:
        raise _wrong("message", "parts", index, msg="Must have exactly one of text, raw, url and data.")
    if part.raw is not None:
        try:
            b64decode(part.raw)
        except ValueError:
            raise _wrong("message", "parts", index, "raw", msg="Must be base64.") from None
    if part.text is None or (media and media.partition(";")[0].strip().lower() != PLAIN):
        why = f"This agent accepts text/plain only, and part {index} is not; give the URL of other content in the text"
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", why)
    return part.text


def _metadata(given: Raw | UnsetType, *loc: str | int) -> Metadata:
    """Return the metadata of the object at `loc`; UNSET if it is empty. Raises Invalid if it is not a JSON object."""
    if not _is_set(given):
        return UNSET
    content = bytes(given)
    if not content.startswith(b"{"):
        raise _wrong(*loc, "metadata", msg="Must be an object.")
    return given if content[1:-1].strip() else UNSET


async def _check_metadata(request: Request, *given: Metadata) -> None:
    """Raise Invalid for numbers out of range and lone surrogates in metadata, which is kept undecoded.

    One pass checks all metadata of a message: a body has room for 100,000 values.
    """
    if some := [each for each in given if each is not UNSET]:
        await decode_in_steps(request, msgspec.json.encode(some), object)


def _is_set(value: Raw | UnsetType) -> TypeGuard[Raw]:
    return value is not UNSET and bytes(value) != b"null"


def _wrong(*loc: str | int, msg: str) -> Invalid:
    return Invalid.field("body", *loc, msg=msg)
