"""The result of a tool: the operation's answer as text and, being an object, as structuredContent.

A failure is a result too (SEP-1303): `isError`, and a text from which a model can see what to do.
"""

from typing import Any

import msgspec

from node.web.http import Response

_encode = msgspec.json.Encoder().encode


class Failure(msgspec.Struct, omit_defaults=True):
    """What a model reads of a failed call."""

    status: int
    """As over HTTP."""
    error: str
    code: str = ""
    """Of the catalogue in /llms-full.txt."""
    retry_after: int = 0
    """Seconds after which the same call can succeed."""


class Problem(msgspec.Struct):
    """The body of an error: one of the two."""

    error: str = ""
    detail: list[dict[str, Any]] = []


_problem = msgspec.json.Decoder(Problem)


def success(body: bytes) -> bytes:
    """The members of a result whose content is the JSON object `body`."""
    return b'"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":false' % (
        _encode(body.decode()),
        body,
    )


SILENCED = success(
    _encode(
        {
            "status": "silenced",
            "reason": "The node has had this payload from you three times within 60 s and takes it for a loop: it was "
            "not kept. Do not send it again.",
        }
    )
)
"""SPEC 4.1 answers a duplicate loop with nothing; a model needs to be told."""


def failure(response: Response) -> bytes:
    """The members of the result of a call that was answered with an error."""
    return _failed(failure_of(response))


def failure_of(response: Response) -> Failure:
    """What an answer that is an error says."""
    headers = dict(response.headers)
    return Failure(
        response.status,
        sentence(response.body),
        headers.get(b"x-error-code", b"").decode(),
        int(headers.get(b"retry-after", b"0")),
    )


def invalid(what: str) -> bytes:
    """The members of the result of a call whose arguments cannot be used."""
    return _failed(Failure(422, f"Invalid arguments: {what}", "request.invalid"))


def _failed(what: Failure) -> bytes:
    return b'"content":[{"type":"text","text":%b}],"isError":true' % _encode(_encode(what).decode())


def sentence(body: bytes) -> str:
    """What the body of an error says, in one line."""
    try:
        problem = _problem.decode(body)
    except msgspec.DecodeError:
        problem = Problem()
    if problem.detail:
        return "Invalid arguments: " + "; ".join(_issue(issue) for issue in problem.detail)
    return problem.error or body.decode(errors="replace")


def _issue(issue: dict[str, Any]) -> str:
    """`body.title: what is wrong`; where the operation found it in its request is left out."""
    return f"{'.'.join(str(step) for step in issue['loc'][1:]) or issue['loc'][0]}: {issue['msg']}"
