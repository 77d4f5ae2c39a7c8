"""One operation: its path, its handler, and its documentation.

The router, the OpenAPI documents and the operations in llms-full.txt are all made from the services' route tables.
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from node.common.counters import AnswerCounts
from node.web.http import Fault, Handler

_DESCRIPTION = "operation"
"""The attribute of a handler that holds its Operation."""

DONE = "Done."
"""What the status of a success means if the operation says nothing else."""

WHOLE: dict[str, object] = {"incomplete": msgspec.UNSET, "lower_threshold": msgspec.UNSET}
"""`shows` of a list or a search: its answer if the whole store can be reached and something is found."""

H = TypeVar("H")


class OtherAnswer(msgspec.Struct, frozen=True):
    """An answer that an operation can give instead of its main one."""

    media_type: str
    answers: Any
    """The type of its body; None for an empty one."""
    status: int = 0
    """0: the status of the main answer."""
    meaning: str = ""
    """What that status means, if it differs."""


class RequiredHeader(msgspec.Struct, frozen=True):
    """A request header that an operation requires."""

    name: str
    meaning: str
    example: str
    """A value that fits the example body."""


class Described(msgspec.Struct, frozen=True):
    """What the documentation of an operation says, and the router needs to know."""

    summary: str
    body: Any = None
    """The type of the JSON request body; None without one."""
    text_body: bool = False
    """Whether text/plain is accepted in addition to (or instead of) JSON."""
    any_type: bool = False
    """Whether that text may have any content type."""
    query: type[msgspec.Struct] | None = None
    asks: str = ""
    """The query string of the example request."""
    headers: tuple[tuple[str, str], ...] = ()
    """Optional request headers and what they mean."""
    required_headers: tuple[RequiredHeader, ...] = ()
    """Required request headers."""
    answers: Any = None
    """The type of the answer's body; None if it is not JSON."""
    shows: Any = None
    """Members of the example answer that replace or extend those made from its type; UNSET leaves a member out."""
    status: int = 200
    success: str = DONE
    """What the status means."""
    media_type: str = "application/json"
    has_etag: bool = False
    """Whether the answer has an ETag, and heeds If-None-Match and If-Match (`node.web.document`)."""
    also: tuple[OtherAnswer, ...] = ()
    """Other answers: in another media type, or in another state."""
    callbacks: tuple[type[msgspec.Struct], ...] = ()
    """The bodies of what may later be sent to the request's callback_url."""
    errors: tuple[str, ...] = ()
    """Error codes of the catalogue that are particular to this operation."""
    limit: str = ""
    """The class of its limit in `Limits`; empty without one."""
    keeps: str = ""
    """The kind of what the node keeps of it (`node.share.cost`), if that has not the name of its limit."""
    example: Any = None
    """A JSON body that works as it stands, if not all members of `body` that have examples belong in one body."""
    hot: bool = False
    """The dispatcher finds it without the router: agents call it all the time."""
    hidden: bool = False
    """Whether it is left out of the documents (assets, aliases)."""

    @property
    def is_stream(self) -> bool:
        """Whether its answer is a stream of events, whatever is asked for."""
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
    """With `{name}` for path parameters. A verb may follow the last one, as in `{id}:cancel`."""
    handler: Handler
    tag: str
    """The group of operations that it is documented in."""
    fault: Fault | None = None
    """How failures are shown, where the protocol has a form of its own."""
    counts: AnswerCounts = msgspec.field(default_factory=AnswerCounts)
    """Counts its answers."""


def routes_of(tag: str, *endpoints: tuple[str, str, Handler], fault: Fault | None = None) -> tuple[Route, ...]:
    """The routes of a group, from their methods, paths and handlers, which are decorated with Operation."""
    return tuple(
        Route(method=method, path=path, handler=handler, tag=tag, fault=fault, **asdict(getattr(handler, _DESCRIPTION)))
        for method, path, handler in endpoints
    )
