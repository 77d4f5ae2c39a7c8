"""The exceptions of the client. All are subclasses of RelayError."""

import json
from collections.abc import Mapping
from typing import Any, cast


class RelayError(Exception):
    """A request to the node did not take effect, or it is unknown whether it did."""


class UsageError(RelayError, ValueError):
    """An argument cannot be sent to any node, such as a malformed address or token, or a value without a JSON form; or
    the client cannot send, because it is closed or was given no time.
    """


class InvalidAnswer(RelayError):
    """The answer does not come from a node: another service is at this address, or in between."""


class Refused(RelayError):
    """The node answered with an error. The text of the exception is the node's sentence."""

    def __init__(self, status: int, code: str, sentence: str, headers: Mapping[str, str], detail: Any = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code
        """`X-Error-Code`, such as `task.claimed`."""
        self.headers = headers
        self.detail = detail
        """For a 422: every invalid field."""
        self.may_have_happened = False
        """Whether an earlier try of the call may have taken effect, and this refusal may be a consequence of that."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle`, with which process pools pass on exceptions."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        arguments = (self.status, self.code, self.args[0], headers, self.detail)
        return type(self), arguments, {"may_have_happened": self.may_have_happened}

    def __str__(self) -> str:
        seconds = self.headers.get("retry-after")
        put_off = f", Retry-After: {seconds}" if seconds else ""
        return f"{self.args[0]} ({f'{self.status} {self.code}'.strip()}{put_off})"

    @property
    def request_id(self) -> str:
        """Id of the request, for reports to the node's operator."""
        return self.headers.get("x-request-id", "")


class InvalidRequest(Refused):
    """400, 413 or 422: the node does not accept the request. A field is invalid, and the sentence names it; or a text
    is not English, the body is too large (raised without asking the node), or the signature is invalid.
    """


class NotAllowed(Refused):
    """401 or 403: the proof (token or signature) is missing or wrong."""


class NotFound(Refused):
    """404 or 410: the entity does not exist, or no longer exists."""


class Conflict(Refused):
    """409: the state of the entity does not allow this step."""


class Limited(Refused):
    """429: a limit is used up, and does not open again before the deadline."""


class Unavailable(Refused):
    """5xx: the node cannot do this at present."""


class Unreachable(RelayError):
    """There was no answer: the connection failed or broke."""


class DeadlineExceeded(RelayError):
    """The deadline of the call is over, or comes before the next try may begin."""


class DigestMismatch(RelayError):
    """The bytes of an artifact do not match the digest in its manifest."""


def refusal(status: int, headers: Mapping[str, str], content: bytes) -> Refused:
    """Return the exception for an answer that is an error, whatever its content."""
    code = headers.get("x-error-code", "")
    try:
        body: Any = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    fields: dict[str, Any] = body if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    detail = fields.get("detail")
    if isinstance(fields.get("error"), str):
        sentence: str = fields["error"]
    elif isinstance(detail, list):
        sentence = "; ".join(_issue(one) for one in cast("list[Any]", detail))
    elif 300 <= status < 400:
        sentence = f"this address redirects to {headers.get('location', 'nowhere')}; redirects are not followed"
    else:
        sentence = f"HTTP {status}"
    if status >= 500:
        kind: type[Refused] = Unavailable
    else:
        kind = {
            400: InvalidRequest,
            401: NotAllowed,
            403: NotAllowed,
            404: NotFound,
            409: Conflict,
            410: NotFound,
            413: InvalidRequest,
            422: InvalidRequest,
            429: Limited,
        }.get(status, Refused)
    return kind(status, code, sentence, headers, detail)


def _issue(issue: Any) -> str:
    """Return the text of an entry of `detail`. A node's entries have one form, those of other services any form."""
    match issue:
        case {"loc": [*steps], "msg": str(said)}:
            return f"{'.'.join(str(step) for step in steps)}: {said}"
        case _:
            return str(issue)
