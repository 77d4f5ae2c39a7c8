"""What the client does, as steps that do no input or output themselves: they say what is to be done, and are told what
came of it. So everything is written once, and `Relay` and `AsyncRelay` both carry it out.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from relay_client.errors import InvalidAnswer

T = TypeVar("T")

TRY_SECONDS = 10.0
"""How long one try may be without an answer, beyond the seconds that the node was asked to wait."""


@dataclass(slots=True)
class Send:
    """Send this, and tell me the Answer; or throw NoAnswer."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Callable[[], Iterator[bytes]] | None = None
    timeout: float = TRY_SECONDS
    """Seconds without a byte after which nothing is expected any more."""
    is_stream: bool = False
    """The body of a 2xx is left to `Read`."""


@dataclass(slots=True)
class Read:
    """Tell me the next piece of the stream that is open; empty at its end. Or throw NoAnswer."""


@dataclass(slots=True)
class Sleep:
    """Go on after that many seconds."""

    seconds: float


@dataclass(slots=True)
class Do:
    """Do this, which takes a while (files, digests), beside whatever else is going on; tell me what it returned."""

    work: Callable[[], Any]


@dataclass(slots=True)
class Item(Generic[T]):
    """Give this to whoever iterates."""

    value: T


@dataclass(slots=True)
class Answer:
    """What came back. Headers are found in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The JSON of the body; None if there is no body. Raises InvalidAnswer."""
        return parsed(self.content) if self.content else None


def parsed(content: bytes) -> Any:
    """What JSON says. Raises InvalidAnswer."""
    try:
        return json.loads(content)
    except ValueError:
        raise InvalidAnswer(f"the answer is no JSON: {content[:80]!r}") from None


class NoAnswer(Exception):
    """The connection failed. `unsent`: before anything was sent."""

    def __init__(self, reason: str, *, unsent: bool) -> None:
        super().__init__(reason)
        self.unsent = unsent


Effect = Send | Read | Sleep | Do
Steps = Generator[Effect, Any, T]
"""Steps that end with a value."""
Items = Generator[Effect | Item[T], Any, None]
"""Steps that give values as they go."""
