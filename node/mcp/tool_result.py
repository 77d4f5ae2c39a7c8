"""The result of a tool: the operation's answer as text, and as structuredContent, since it is a JSON object.

A failed call is a result too (SEP-1303): it has `isError`, and a text that tells a model what to do.
"""

from typing import Any

import msgspec

from node.mcp.json_rpc import members_of
from node.mcp.json_text import with_text
from node.web.http import Response

TEXT = b'"content":[{"type":"text","text":'
STRUCTURED = b'}],"structuredContent":'
SUCCEEDED = b',"isError":false'
"""What comes before, between and after the two forms of an answer in a result."""


class ToolFailure(msgspec.Struct, omit_defaults=True):
    """The text of a failed call, as JSON."""

    status: int
    """The HTTP status of the operation's answer."""
    error: str
    code: str = ""
    """The error code, from the catalogue in /llms-full.txt."""
    retry_after: int = 0
    """Seconds after which the same call can succeed."""


class ErrorBody(msgspec.Struct):
    """The body of an error, which has one of the two members."""

    error: str = ""
    detail: list[dict[str, Any]] = []


_error_body = msgspec.json.Decoder(ErrorBody)


async def success(body: bytes) -> bytes:
    """The members of a result whose content is the JSON object `body`."""
    return await with_text(TEXT, body, STRUCTURED, body, SUCCEEDED)


def _constant(content: dict[str, str]) -> bytes:
    text = {"type": "text", "text": msgspec.json.encode(content).decode()}
    return members_of({"content": [text], "structuredContent": content, "isError": False})


SILENCED = _constant(
    {
        "status": "silenced",
        "reason": "The node has had this payload from you three times within 60 s and takes it for a loop: it was "
        "not kept. Do not send it again.",
    }
)
"""SPEC 4.1 answers a duplicate loop with an empty body, which would tell a model nothing."""


NOTHING = _constant({"status": "nothing"})
"""There is nothing yet: the operation answered 204."""


def failure(response: Response, said: str = "") -> bytes:
    """The members of the result of a call whose operation answered with an error; `said` in place of its sentence."""
    failed = failure_of(response)
    return _failed(msgspec.structs.replace(failed, error=said or failed.error))


def failure_of(response: Response) -> ToolFailure:
    """What an error response says, with HTTP headers under the names that they have in arguments and results."""
    headers = dict(response.headers)
    return ToolFailure(
        response.status,
        sentence(response.body).replace("Idempotency-Key", "idempotency_key").replace("Retry-After", "retry_after"),
        headers.get(b"x-error-code", b"").decode(),
        int(headers.get(b"retry-after", b"0")),
    )


def invalid(what: str) -> bytes:
    """The members of the result of a call whose arguments cannot be used."""
    return _failed(ToolFailure(422, f"Invalid arguments: {what}", "request.invalid"))


def _failed(what: ToolFailure) -> bytes:
    return members_of({"content": [{"type": "text", "text": msgspec.json.encode(what).decode()}], "isError": True})


def sentence(body: bytes) -> str:
    """What the body of an error says, as one line."""
    try:
        problem = _error_body.decode(body)
    except msgspec.DecodeError:
        problem = ErrorBody()
    if problem.detail:
        return "Invalid arguments: " + "; ".join(_issue(issue) for issue in problem.detail)
    return problem.error or body.decode(errors="replace")


def _issue(issue: dict[str, Any]) -> str:
    """`title: what is wrong`: body or query, where the operation found the field, means nothing to a model."""
    path = ".".join(str(step) for step in issue["loc"][1:])
    return f"{path}: {issue['msg']}" if path else issue["msg"]
