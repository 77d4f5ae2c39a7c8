"""What can go wrong, as exceptions; all are RelayError."""

import json
from collections.abc import Mapping
from typing import Any, cast


class RelayError(Exception):
    """Something that was asked of the node did not happen, or nobody knows whether it did."""


class UsageError(RelayError, ValueError):
    """What was given cannot be sent to any node (an address, a token, a text, a value that JSON has no form for), or by
    this client: it is closed, or was given no time.
    """


class InvalidAnswer(RelayError):
    """The answer is none of a node's: something else is at that address, or in between."""


class Refused(RelayError):
    """The node answered with an error. Its text is the node's sentence."""

    def __init__(self, status: int, code: str, sentence: str, headers: Mapping[str, str], detail: Any = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        """`X-Error-Code`, such as `task.claimed`."""
        self.headers = headers
        self.detail = detail
        """Of a 422: every wrong field."""
        self.may_have_happened = False
        """An earlier try of the same intention had no answer, so this may refuse what that try has done."""

    def __str__(self) -> str:
        return f"{self.args[0]} ({f'{self.status} {self.code}'.strip()})"

    @property
    def request_id(self) -> str:
        """What to tell the node's operator."""
        return self.headers.get("x-request-id", "")


class InvalidRequest(Refused):
    """422: a field is wrong; the sentence names it."""


class NotAllowed(Refused):
    """401 or 403: the proof is missing or another's."""


class NotFound(Refused):
    """404 or 410: there is no such thing, or no more."""


class Conflict(Refused):
    """409: the state of the thing does not allow this step."""


class Limited(Refused):
    """429: over a limit, and the deadline comes before the end of it."""


class Unavailable(Refused):
    """5xx: the node cannot at present."""


class Unreachable(RelayError):
    """No answer: the connection failed or broke."""


class DeadlineExceeded(RelayError):
    """The deadline of the intention is over, or comes before the next try may begin."""


class DigestMismatch(RelayError):
    """Bytes are not those that the manifest promises."""


def refusal(status: int, headers: Mapping[str, str], content: bytes) -> Refused:
    """The exception for an answer that is an error, whatever its content is."""
    code = headers.get("x-error-code", "")
    try:
        body: Any = json.loads(content)
    except ValueError:
        body = None
    fields: dict[str, Any] = body if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    detail = fields.get("detail")
    if isinstance(fields.get("error"), str):
        sentence: str = fields["error"]
    elif isinstance(detail, list):
        issues = cast("list[dict[str, Any]]", detail)
        sentence = "; ".join(f"{'.'.join(str(step) for step in one['loc'])}: {one['msg']}" for one in issues)
    elif 300 <= status < 400:
        sentence = f"this address leads to {headers.get('location', 'nowhere')}, which is not followed"
    else:
        sentence = f"HTTP {status}"
    if status >= 500:
        kind: type[Refused] = Unavailable
    else:
        kind = {
            401: NotAllowed,
            403: NotAllowed,
            404: NotFound,
            409: Conflict,
            410: NotFound,
            422: InvalidRequest,
            429: Limited,
        }.get(status, Refused)
    return kind(status, code, sentence, headers, detail)
