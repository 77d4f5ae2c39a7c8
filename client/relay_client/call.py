"""One call of an operation, as data. Nothing here uses the network."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from relay_client.errors import UsageError

T = TypeVar("T")

Repeat = Literal["safe", "key", "unsent"]
"""When a try without an answer may be repeated. `safe`: always, because a second try changes nothing. `key`: always,
because the node recognises the Idempotency-Key. `unsent`: only if the first try certainly did not arrive."""

JSON = {"Content-Type": "application/json"}
NO_SEGMENTS = ("", ".", "..")


@dataclass(slots=True)
class Call(Generic[T]):
    """A request to the node. `T` is the type of the answer."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeat: Repeat = "safe"
    signable: bool = False
    wait: float = 0
    """Seconds that the node may wait before it answers."""
    pace: str = ""
    """Name of the limit that the call counts against; by default, method and path."""
    key: str | None = None
    """The caller's own Idempotency-Key; if None, the call gets a random one."""
    leads: bool = False
    """Whether the answer may be a redirect, whose Location is what was asked for."""
    may_be_nothing: bool = False
    """Whether a node may answer with no body or with null."""

    @property
    def paced_by(self) -> str:
        return self.pace or f"{self.method} {self.path.partition('?')[0]}"

    @staticmethod
    def get(
        *segments: str, wait: float = 0, token: str | None = None, signable: bool = False, **query: Any
    ) -> "Call[Any]":
        """Make a GET below /api/v1. Query parameters that are None are left out."""
        path = path_of(*segments, query=query, wait=wait)
        return Call("GET", path, headers=bearer(token), wait=wait, signable=signable and token is None)

    @staticmethod
    def delete(*segments: str, token: str | None = None, signable: bool = False) -> "Call[Any]":
        """Make a DELETE below /api/v1."""
        return Call("DELETE", path_of(*segments), headers=bearer(token), signable=signable and token is None)

    @staticmethod
    def post(
        *segments: str,
        fields: Mapping[str, Any] | None = None,
        nulls: Iterable[str] = (),
        headers: Mapping[str, str] = JSON,
        repeat: Repeat = "safe",
        signable: bool = False,
        pace: str = "",
        wait: float = 0,
        token: str | None = None,
        key: str | None = None,
    ) -> "Call[Any]":
        """Make a POST below /api/v1. Fields that are None are left out; the fields in `nulls` are sent as null."""
        given = {name: value for name, value in (fields or {}).items() if value is not None} | dict.fromkeys(nulls)
        body = json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        shown = {**headers, **bearer(token)} if token else headers
        return Call("POST", path_of(*segments), body, shown, repeat, signable and token is None, wait, pace, key)


def path_of(*segments: str, query: Mapping[str, Any] | None = None, wait: float = 0) -> str:
    """Return a path below /api/v1. Segments are escaped, so that they can have any characters.

    Raises UsageError for a segment that is empty, `.` or `..`: libraries and proxies remove such segments from a path,
    and the request would be about something else.
    """
    for segment in segments:
        if segment in NO_SEGMENTS:
            raise UsageError(f"an id or address cannot be {segment!r}")
    path = "/api/v1/" + "/".join([quote(segment, safe=":") for segment in segments])
    given = {name: value for name, value in (query or {}).items() if value is not None}
    if wait:
        given["wait"] = wait
    return f"{path}?{urlencode(given)}" if given else path


def bearer(token: str | None) -> dict[str, str]:
    """Return the header for a token; none if it is None."""
    return {"Authorization": f"Bearer {token}"} if token else {}
