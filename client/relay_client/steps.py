"""The client's logic as steps that do no I/O: generators that yield effects and are sent the results of these effects.

So all logic is written once, and both `Relay` and `AsyncRelay` can carry it out.
"""

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from relay_client.errors import InvalidAnswer

T = TypeVar("T")

TRY_SECONDS = 10.0
"""How long one try waits for an answer, in addition to the seconds that the node was asked to wait."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Maximum bytes of a decompressed body: more than any answer of a node. An endless body would take all memory."""
ENDLESS = "its answer was not complete in time"


@dataclass(slots=True)
class Send:
    """Send a request. The result is an Answer, or NoAnswer is thrown."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Callable[[], Iterator[bytes]] | None = None
    timeout: float = TRY_SECONDS
    """Seconds without a byte after which the try is given up."""
    is_stream: bool = False
    """Whether the body of a 2xx answer is left to `Read`."""
    within: float | None = None
    """Seconds after which the try is given up even if bytes still come. Does not count the body of a 2xx stream."""


@dataclass(slots=True)
class Read:
    """Read the next piece of the open stream. The result is empty at the end, or NoAnswer is thrown."""


@dataclass(slots=True)
class Sleep:
    """Continue after this many seconds."""

    seconds: float


@dataclass(slots=True)
class Do:
    """Do work that would block an event loop (files, digests), or call a function of the caller (`blocks` False).

    The result is what the work returns. An exception of the work goes to the caller unchanged.
    """

    work: Callable[[], Any]
    blocks: bool = True


@dataclass(slots=True)
class Item(Generic[T]):
    """Yield a value to the code that iterates."""

    value: T


@dataclass(slots=True)
class Answer:
    """An answer. Headers are looked up in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self, *, may_be_nothing: bool = False) -> Any:
        """Return the JSON object of the body; None for no body or null, if `may_be_nothing`. Raises InvalidAnswer."""
        if may_be_nothing and self.content in (b"", b"null"):
            return None
        return parsed(self.content)


class Body:
    """The part of an answer's body that was received so far."""

    def __init__(self, within: float | None = None) -> None:
        self.content = bytearray()
        self._ends = math.inf if within is None else time.monotonic() + within

    def add(self, piece: bytes) -> None:
        """Append a piece. Raises InvalidAnswer if the body gets larger than LARGEST_ANSWER, NoAnswer after `within`."""
        if time.monotonic() > self._ends:
            raise NoAnswer(ENDLESS, unsent=False)
        if len(self.content) + len(piece) > LARGEST_ANSWER:
            raise InvalidAnswer(f"the answer has more than {LARGEST_ANSWER} bytes")
        self.content += piece


def parsed(content: bytes) -> Any:
    """Decode a JSON object; a node sends no other JSON. Raises InvalidAnswer."""
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidAnswer(f"the answer is not a JSON object: {content[:80]!r}")
    return value  # pyright: ignore[reportUnknownVariableType]


class NoAnswer(Exception):
    """The connection failed. `unsent`: it failed before anything was sent."""

    def __init__(self, reason: str, *, unsent: bool) -> None:
        super().__init__(reason)
        self.unsent = unsent


Effect = Send | Read | Sleep | Do
Steps = Generator[Effect, Any, T]
"""Steps that end with a value."""
Items = Generator[Effect | Item[T], Any, None]
"""Steps that yield values."""
