"""What the client does, as steps without input or output of their own: generators that yield effects and are sent their
results. So everything is written once, and both `Relay` and `AsyncRelay` can carry it out.
"""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from relay_client.errors import InvalidAnswer

T = TypeVar("T")

TRY_SECONDS = 10.0
"""How long one try waits for an answer, on top of the seconds that the node was asked to wait."""


@dataclass(slots=True)
class Send:
    """Send a request. Its result is an Answer; or NoAnswer is thrown."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Callable[[], Iterator[bytes]] | None = None
    timeout: float = TRY_SECONDS
    """Seconds without a byte after which the try is given up."""
    is_stream: bool = False
    """Whether to leave the body of a 2xx to `Read`."""


@dataclass(slots=True)
class Read:
    """Read the next piece of the open stream. Its result is empty at the end; or NoAnswer is thrown."""


@dataclass(slots=True)
class Sleep:
    """Go on after that many seconds."""

    seconds: float


@dataclass(slots=True)
class Do:
    """Do work that would block an event loop (files, digests). Its result is what the work returns."""

    work: Callable[[], Any]


@dataclass(slots=True)
class Item(Generic[T]):
    """Yield a value to whoever iterates."""

    value: T


@dataclass(slots=True)
class Answer:
    """What came back. Headers are looked up in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The JSON of the body; None if there is no body. Raises InvalidAnswer."""
        return parsed(self.content) if self.content else None


def parsed(content: bytes) -> Any:
    """The value of a JSON text. Raises InvalidAnswer."""
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
"""Steps that yield values as they go."""
