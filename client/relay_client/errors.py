"""What can go wrong, as exceptions; all are RelayError."""

import json
from collections.abc import Mapping
from typing import Any, cast


class RelayError(Exception):
    """Something that was asked of the node did not happen, or nobody knows whether it did."""


class UsageError(RelayError, ValueError):
    """An argument cannot be sent to any node (an address, a token, a text, a value that JSON has no form for), or this
    client cannot send: it is closed, or was given no time.
    """


class InvalidAnswer(RelayError):
    """The answer does not come from a node: something else is at that address, or in between."""


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
        """An earlier try of the same call had no answer, so this refusal may be a consequence of what that try did."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle`, with which pools of processes pass an exception on."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        arguments = (self.status, self.code, self.args[0], headers, self.detail)
        return type(self), arguments, {"may_have_happened": self.may_have_happened}

    def __str__(self) -> str:
        seconds = self.headers.get("retry-after")
        put_off = f", Retry-After: {seconds}" if seconds else ""
        return f"{self.args[0]} ({f'{self.status} {self.code}'.strip()}{put_off})"

    @property
    def request_id(self) -> str:
        """What to tell the node's operator."""
        return self.headers.get("x-request-id", "")


class InvalidRequest(Refused):
    """400, 413 or 422: the node does not take what was sent. A field is wrong, which the sentence names; or a text is
    not English, the body too large (which is raised without asking the node), or the signature wrong.
    """


class NotAllowed(Refused):
    """401 or 403: the proof (token or signature) is missing or somebody else's."""


class NotFound(Refused):
    """404 or 410: there is no such thing, or no longer."""


class Conflict(Refused):
    """409: the state of the thing does not allow this step."""


class Limited(Refused):
    """429: a limit is used up, and the deadline comes before it opens again."""


class Unavailable(Refused):
    """5xx: the node cannot do this at present."""


class Unreachable(RelayError):
    """No answer: the connection failed or broke."""


class DeadlineExceeded(RelayError):
    """The deadline of the call is over, or comes before the next try may begin."""


class DigestMismatch(RelayError):
    """The bytes are not those that the manifest promises."""


def refusal(status: int, headers: Mapping[str, str], content: bytes) -> Refused:
    """The exception for an answer that is an error, whatever its content is."""
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
    """What an entry of `detail` says; nodes have entries of one form, other services of any."""
    match issue:
        case {"loc": [*steps], "msg": str(said)}:
            return f"{'.'.join(str(step) for step in steps)}: {said}"
        case _:
            return str(issue)
