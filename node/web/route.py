"""One operation: its path, its handler, and its documentation.

The router, the OpenAPI documents and the list of operations in llms-full.txt are all made from the features' route
tables.
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from node.common.counters import AnswerCounts
from node.web.http import Fault, Handler

_DESCRIPTION = "operation"
"""Name of the handler attribute that holds its Operation."""

DONE = "Done."
"""Meaning of a success status if the operation gives none."""

WHOLE: dict[str, object] = {"incomplete": msgspec.UNSET, "lower_threshold": msgspec.UNSET}
"""`shows` of a list or a search: the example answer shows a store that is fully reachable, and at least one result."""

H = TypeVar("H")


class OtherAnswer(msgspec.Struct, frozen=True):
    """An answer that an operation may give instead of its main one."""

    media_type: str
    answers: Any
    """Type of the answer's body; None if the body is empty."""
    status: int = 0
    """Status of the answer; 0 if it is that of the main answer."""
    meaning: str = ""
    """Meaning of the status, if it differs from that of the main answer."""


class RequiredHeader(msgspec.Struct, frozen=True):
    """A request header that an operation requires."""

    name: str
    meaning: str
    example: str
    """A value that fits the example body."""


class Described(msgspec.Struct, frozen=True):
    """The documentation of an operation, and the properties that the router needs."""

    summary: str
    body: Any = None
    """Type of the JSON request body; None if there is none."""
    text_body: bool = False
    """Whether text/plain is accepted in addition to JSON, or instead of it."""
    any_type: bool = False
    """Whether the text body may have any content type."""
    query: type[msgspec.Struct] | None = None
    asks: str = ""
    """The query string of the example request."""
    headers: tuple[tuple[str, str], ...] = ()
    """Optional request headers and their meanings."""
    required_headers: tuple[RequiredHeader, ...] = ()
    """Required request headers."""
    answers: Any = None
    """Type of the answer's body; None if it is not JSON."""
    shows: Any = None
    """Members that replace or extend those of the example answer made from the type; UNSET leaves a member out."""
    status: int = 200
    success: str = DONE
    """Meaning of the status."""
    media_type: str = "application/json"
    has_etag: bool = False
    """Whether the answer has an ETag, and If-None-Match and If-Match take effect (`node.web.document`)."""
    has_date: bool = False
    """Whether such an answer also has Last-Modified."""
    also: tuple[OtherAnswer, ...] = ()
    """Other answers: in another media type, or for another state."""
    callbacks: tuple[type[msgspec.Struct], ...] = ()
    """Types of the bodies that may later be sent to the request's callback_url."""
    errors: tuple[str, ...] = ()
    """Error codes of the catalogue that are specific to this operation."""
    limit: str = ""
    """Class of the operation's limit in `Limits`; empty if it has none."""
    keeps: str = ""
    """Kind under which the operation is charged (`node.share.cost`), if it differs from the name of its limit."""
    example: Any = None
    """A JSON body that works as it stands, if the members of `body` that have examples do not all belong in one
    body."""
    hot: bool = False
    """Whether the dispatcher finds the operation without the router, because agents call it all the time."""
    hidden: bool = False
    """Whether the operation is left out of the documents (assets, aliases)."""

    @property
    def is_stream(self) -> bool:
        """Whether every answer of the operation is a stream of events."""
        return self.media_type == "text/event-stream"


class Operation(Described, frozen=True):
    """Describes the handler that it decorates: `@Operation("Post a thread", body=NewThread, answers=Thread)`."""

    def __call__(self, handler: H) -> H:
        setattr(handler, _DESCRIPTION, self)
        return handler


class Route(Described, frozen=True, kw_only=True):
    """An operation and where it is served: one of SPEC section 4, or an additional one."""

    method: str
    path: str
    """The path, with `{name}` for path parameters. A verb may follow the last one, as in `{id}:cancel`."""
    handler: Handler
    tag: str
    """The group of operations under which it is documented."""
    fault: Fault | None = None
    """Turns failures into answers, where the protocol has its own error format."""
    counts: AnswerCounts = msgspec.field(default_factory=AnswerCounts)
    """Counts of the operation's answers."""


def routes_of(tag: str, *endpoints: tuple[str, str, Handler], fault: Fault | None = None) -> tuple[Route, ...]:
    """Return the routes of a group, from the method, path and handler (decorated with Operation) of each."""
    return tuple(
        Route(method=method, path=path, handler=handler, tag=tag, fault=fault, **asdict(getattr(handler, _DESCRIPTION)))
        for method, path, handler in endpoints
    )
