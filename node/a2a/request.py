"""Reading an A2A request: version, media type, and a message in any spelling that ProtoJSON allows."""

from base64 import b64decode
from typing import Any, cast

from node.a2a.errors import A2AError
from node.a2a.model import Message, Part
from node.a2a.strict_request import ID_LENGTH, ReceivedMessage, read_strictly
from node.common.refusal import Invalid, Issue, Refused
from node.text.readable import readable
from node.web.http import Request
from node.web.json import decode, media_type

MEDIA_TYPES = {"application/json", "application/a2a+json"}
CONTENT = ("text", "raw", "url", "data")
_NAMES = {
    "message_id": "messageId",
    "context_id": "contextId",
    "task_id": "taskId",
    "reference_task_ids": "referenceTaskIds",
    "media_type": "mediaType",
    "history_length": "historyLength",
    "accepted_output_modes": "acceptedOutputModes",
    "return_immediately": "returnImmediately",
    "task_push_notification_config": "taskPushNotificationConfig",
}
"""The proto names, which ProtoJSON parsers accept beside the JSON names."""

_ROLES = {1: "ROLE_USER", 2: "ROLE_AGENT"}


def check_version(request: Request) -> None:
    """Raise A2AError VERSION_NOT_SUPPORTED for a version that is not 1.x. Absent counts as 1.0."""
    version = request.header(b"a2a-version") or request.query().get("A2A-Version") or "1.0"
    if version.partition(".")[0].strip() != "1":
        raise A2AError("VERSION_NOT_SUPPORTED", f"A2A version {version[:20]} is not served here; send A2A-Version: 1.0")


def is_a2a(request: Request) -> bool:
    """Whether the reader of a shared path speaks A2A: every client sends the header, or asks for the type."""
    return (
        request.header(b"a2a-version") is not None
        or "application/a2a+json" in (request.header(b"accept") or "")
        or b"A2A-Version=" in request.scope["query_string"]
    )


async def read_message(request: Request) -> ReceivedMessage:
    """The message of a request. Raises A2AError, Invalid, Refused `body.…`."""
    check_version(request)
    if media_type(request) not in MEDIA_TYPES:
        # HTTP's own code for it, which the protocol's test kit asks for; the reason is A2A's.
        raise Refused("body.media_type", expected="application/json")
    content = await request.body()
    return read_strictly(content) or _any(decode(content, object))


def _any(body: object) -> ReceivedMessage:
    """The message of a request in any spelling; every wrong field is named."""
    if not isinstance(body, dict):
        raise Invalid.field("body", msg="the body must be a JSON object", kind="json_invalid")
    fields = _json_names(cast("dict[str, Any]", body))
    message, text = _message(fields.get("message"))
    configuration = _object(fields.get("configuration"), "configuration")
    if configuration.get("taskPushNotificationConfig") is not None:
        raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "Push notifications are not supported by this agent")
    length = configuration.get("historyLength")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 0):
        raise _wrong("configuration.historyLength", "Must be a non-negative integer.")
    return ReceivedMessage(message, text, length, _object(fields.get("metadata"), "metadata"))


def _message(value: object) -> tuple[Message, str]:
    if value is None:
        raise _wrong("message", "Field is required.")
    fields = _json_names(_object(value, "message"))
    missing = [
        Issue(("body", "message", name), "Field is required.", "missing")
        for name in ("messageId", "role", "parts")
        if fields.get(name) in (None, "", [])
    ]
    if missing:
        raise Invalid(missing)
    for name in ("messageId", "contextId", "taskId"):
        given = fields.get(name)
        if given is not None and (not isinstance(given, str) or not 1 <= len(given) <= ID_LENGTH):
            raise _wrong(f"message.{name}", f"Must be a string of 1 to {ID_LENGTH} characters.")
    role = _ROLES.get(fields["role"], fields["role"]) if isinstance(fields["role"], int) else fields["role"]
    if role != "ROLE_USER":
        raise _wrong("message.role", "Must be ROLE_USER.")
    if not isinstance(fields["parts"], list):
        raise _wrong("message.parts", "Must be a list.")
    parts = [_part(part, n) for n, part in enumerate(cast("list[object]", fields["parts"]))]
    text = "\n".join(part.text or "" for part in parts)
    if not text.strip():
        raise _wrong("message.parts.0.text", "Must hold text.")
    message = Message(
        message_id=fields["messageId"],
        role="ROLE_USER",
        parts=parts,
        context_id=fields.get("contextId"),
        task_id=fields.get("taskId"),
        metadata=_object(fields.get("metadata"), "message.metadata") or None,
        extensions=_strings(fields.get("extensions"), "message.extensions"),
        reference_task_ids=_strings(fields.get("referenceTaskIds"), "message.referenceTaskIds"),
    )
    return message, text


def _part(value: object, place: int) -> Part:
    where = f"message.parts.{place}"
    fields = _json_names(_object(value, where))
    kinds = [name for name in CONTENT if fields.get(name) is not None]
    if len(kinds) != 1:
        raise _wrong(where, "Must have exactly one of text, raw, url and data.")
    kind = kinds[0]
    if kind in {"text", "raw", "url"} and not isinstance(fields[kind], str):
        raise _wrong(f"{where}.{kind}", "Must be a string.")
    if kind == "raw":
        try:
            b64decode(fields["raw"])
        except ValueError:
            raise _wrong(f"{where}.raw", "Must be base64.") from None
    wanted = fields.get("mediaType") or "text/plain"
    if kind != "text" or not isinstance(wanted, str) or wanted.partition(";")[0].strip().lower() != "text/plain":
        raise A2AError(
            "CONTENT_TYPE_NOT_SUPPORTED", f"Part {place} is not text/plain; this agent takes plain English text"
        )
    return Part(
        text=readable(fields["text"]),
        media_type=fields.get("mediaType"),
        metadata=_object(fields.get("metadata"), f"{where}.metadata") or None,
    )


def _json_names(fields: dict[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in fields.items()}


def _object(value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, "Must be an object.")
    return cast("dict[str, Any]", value)


def _strings(value: object, where: str) -> list[str] | None:
    if value is None or value == []:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[object]", value)):
        raise _wrong(where, "Must be a list of strings.")
    return cast("list[str]", value)


def _wrong(path: str, message: str) -> Invalid:
    loc = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    return Invalid([Issue(("body", *loc), message, "value_error")])
