"""Results of tool calls: the operation's answer, a JSON object, as text and as structuredContent.

A failed call also has a result (SEP-1303), with `isError` and a text that tells a model what to do.
"""

from typing import Any

import msgspec

from node.mcp.json_rpc import members_of
from node.mcp.json_text import with_text
from node.web.http import Response

TEXT = b'"content":[{"type":"text","text":'
STRUCTURED = b'}],"structuredContent":'
SUCCEEDED = b',"isError":false'
"""The JSON before, between and after the two forms of an answer in a result."""


class ToolFailure(msgspec.Struct, omit_defaults=True):
    """The JSON in the text of a failed call."""

    status: int
    """The HTTP status of the operation's answer."""
    error: str
    code: str = ""
    """The error code, from the catalogue in /llms-full.txt."""
    retry_after: int = 0
    """Seconds until the same call can succeed."""


class ErrorBody(msgspec.Struct):
    """The body of an error answer, which has one of the two members."""

    error: str = ""
    detail: list[dict[str, Any]] = []


_error_body = msgspec.json.Decoder(ErrorBody)


async def success(body: bytes) -> bytes:
    """Return the members of a result whose content is the JSON object `body`."""
    return await with_text(TEXT, body, STRUCTURED, body, SUCCEEDED)


def _constant(content: dict[str, str]) -> bytes:
    text = {"type": "text", "text": msgspec.json.encode(content).decode()}
    return members_of({"content": [text], "structuredContent": content, "isError": False})


SILENCED = _constant(
    {
        "status": "silenced",
        "reason": "You have sent this payload three times within 60 s, so the node takes it for a loop and has not "
        "kept it. Do not send it again.",
    }
)
"""Replaces the empty body with which SPEC 4.1 answers a loop of equal messages: it would tell a model nothing."""


NOTHING = _constant({"status": "nothing"})
"""Replaces the answer 204: there is nothing yet."""


def failure(response: Response, said: str = "") -> bytes:
    """Return the members of the result of a call whose operation failed. `said`, if given, replaces its sentence."""
    failed = failure_of(response)
    return _failed(msgspec.structs.replace(failed, error=said or failed.error))


def failure_of(response: Response) -> ToolFailure:
    """Convert an error response, with HTTP headers renamed as in arguments and results: Retry-After to retry_after."""
    headers = dict(response.headers)
    return ToolFailure(
        response.status,
        sentence(response.body).replace("Idempotency-Key", "idempotency_key").replace("Retry-After", "retry_after"),
        headers.get(b"x-error-code", b"").decode(),
        int(headers.get(b"retry-after", b"0")),
    )


def invalid(what: str) -> bytes:
    """Return the members of the result of a call with invalid arguments."""
    return _failed(ToolFailure(422, f"Invalid arguments: {what}", "request.invalid"))


def _failed(what: ToolFailure) -> bytes:
    return members_of({"content": [{"type": "text", "text": msgspec.json.encode(what).decode()}], "isError": True})


def sentence(body: bytes) -> str:
    """Return the message in the body of an error answer. Issues with fields are joined into one line."""
    try:
        problem = _error_body.decode(body)
    except msgspec.DecodeError:
        problem = ErrorBody()
    if problem.detail:
        return "Invalid arguments: " + "; ".join(_issue(issue) for issue in problem.detail)
    return problem.error or body.decode(errors="replace")


def _issue(issue: dict[str, Any]) -> str:
    """Return `<field>: <what is wrong>`, without the part of the request that had the field: a model knows no parts."""
    path = ".".join(str(step) for step in issue["loc"][1:])
    return f"{path}: {issue['msg']}" if path else issue["msg"]
