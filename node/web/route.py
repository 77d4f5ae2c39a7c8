"""One operation: where it is, who answers it, and what its documentation says.

The route tables of the rooms are the single source for the router, the OpenAPI documents and the
operations in llms-full.txt.
"""

from typing import Any

import msgspec

from node.common.counters import Calls
from node.web.http import Fault, Handler


class Also(msgspec.Struct, frozen=True):
    """Another answer that an operation gives beside the one it is known by."""

    media_type: str
    answers: Any
    """Its type; None for a body that is empty."""
    status: int = 0
    """0 is the status of success."""
    meaning: str = ""
    """What a status of its own means."""


class Needed(msgspec.Struct, frozen=True):
    """A request header without which an operation is refused."""

    name: str
    meaning: str
    example: str
    """A value that fits the example of the body."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of SPEC section 4, or one of ours beside them."""

    method: str
    path: str
    """With `{name}` for path parameters; the last may be followed by a verb, as in `{id}:cancel`."""
    handler: Handler
    summary: str
    tag: str
    body: Any = None
    """The type of the JSON request body, if it has one."""
    text_body: bool = False
    """Whether text/plain is accepted beside (or instead of) JSON."""
    any_type: bool = False
    """Whether that text may come under any other content type too."""
    query: type[msgspec.Struct] | None = None
    asks: str = ""
    """The query string of the example request."""
    headers: tuple[tuple[str, str], ...] = ()
    """Request headers with a meaning of their own, and that meaning."""
    needs: tuple[Needed, ...] = ()
    """Request headers that it cannot do without."""
    answers: Any = None
    """The type of the success body; None where it is not JSON."""
    shows: Any = None
    """What the example answer has beyond or instead of what its type alone gives; UNSET leaves a member out."""
    status: int = 200
    success: str = "Done."
    """What that status means."""
    media_type: str = "application/json"
    also: tuple[Also, ...] = ()
    """Answers for other readers, or in another state."""
    errors: tuple[str, ...] = ()
    """Codes of the catalogue that are particular to this operation."""
    limit: str = ""
    """The class of its limit in `Limits`, if it has one."""
    example: Any = None
    """A JSON body that works as it stands, where `body` names no type with examples of its own."""
    fault: Fault | None = None
    """How failures are shown, where the protocol has a form of its own."""
    hot: bool = False
    """The front answers it without the router: agents call it all the time, or the answer is a stream."""
    hidden: bool = False
    """Left out of the documents (assets, aliases)."""
    calls: Calls = msgspec.field(default_factory=Calls)
    """Its answers, counted."""
