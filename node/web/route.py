"""One operation: its path, its handler, and its documentation.

The router, the OpenAPI documents and the operations in llms-full.txt are all made from the services' route tables.
"""

from typing import Any

import msgspec

from node.common.counters import Calls
from node.web.http import Fault, Handler


class Also(msgspec.Struct, frozen=True):
    """An answer that an operation can give beside its main one."""

    media_type: str
    answers: Any
    """Its type; None for a body that is empty."""
    status: int = 0
    """0: the status of the main answer."""
    meaning: str = ""
    """What that status means, if it differs."""


class Needed(msgspec.Struct, frozen=True):
    """A request header that an operation requires."""

    name: str
    meaning: str
    example: str
    """A value that fits the example body."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An operation: of SPEC section 4, or an additional one."""

    method: str
    path: str
    """With `{name}` for path parameters. A verb may follow the last one, as in `{id}:cancel`."""
    handler: Handler
    summary: str
    tag: str
    body: Any = None
    """The type of the JSON request body; None without one."""
    text_body: bool = False
    """Whether text/plain is accepted beside (or instead of) JSON."""
    any_type: bool = False
    """Whether such text may have any other content type too."""
    query: type[msgspec.Struct] | None = None
    asks: str = ""
    """The query string of the example request."""
    headers: tuple[tuple[str, str], ...] = ()
    """Optional request headers and what they mean."""
    needs: tuple[Needed, ...] = ()
    """Required request headers."""
    answers: Any = None
    """The type of the answer's body; None if it is not JSON."""
    shows: Any = None
    """Members of the example answer that replace or extend those made from its type; UNSET leaves a member out."""
    status: int = 200
    success: str = "Done."
    """What the status means."""
    media_type: str = "application/json"
    also: tuple[Also, ...] = ()
    """Other answers: in another media type, or in another state."""
    errors: tuple[str, ...] = ()
    """Error codes of the catalogue that are particular to this operation."""
    limit: str = ""
    """The class of its limit in `Limits`; empty without one."""
    example: Any = None
    """A JSON body that works as it stands, where `body` names no type with examples of its own."""
    fault: Fault | None = None
    """How failures are shown, where the protocol has a form of its own."""
    hot: bool = False
    """The front answers it without the router: agents call it all the time, or the answer is a stream."""
    hidden: bool = False
    """Whether it is left out of the documents (assets, aliases)."""
    calls: Calls = msgspec.field(default_factory=Calls)
    """Counts its answers."""
