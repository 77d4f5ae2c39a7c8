"""For tests of the client without a node: a transport whose answers are prepared, and a clock that a test moves."""

import json
from collections.abc import Mapping
from typing import Any

from relay_client.steps import Answer, NoAnswer, Send
from relay_client.transport import Pieces


class Clock:
    """Time that passes only while somebody sleeps or a node takes its time. Also stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Prepared:
    """A transport that gives these answers in turn, each after `takes` seconds; a mapping is the JSON of a 200."""

    def __init__(
        self, *answers: Mapping[str, Any] | Answer | NoAnswer, takes: float = 0, clock: Clock | None = None
    ) -> None:
        self._answers = iter(answers)
        self.takes = takes
        self._clock = clock or Clock()
        self.requests: list[Send] = []
        self._pieces: _Pieces | None = None

    def send(self, request: Send) -> Answer:
        self.requests.append(request)
        self._clock.now += self.takes
        answer = next(self._answers)
        if isinstance(answer, NoAnswer):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(200, {}, json.dumps(answer).encode())

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        answer = self.send(request)
        self._pieces = _Pieces(answer.content)
        return Answer(answer.status, answer.headers, b""), self._pieces

    @property
    def is_closed(self) -> bool:
        """Whether the last stream was closed."""
        return self._pieces is not None and self._pieces.is_closed

    def close(self) -> None:
        pass


class _Pieces:
    """A body in one piece."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.is_closed = False

    def read(self) -> bytes:
        content, self._content = self._content, b""
        return content

    def close(self) -> None:
        self.is_closed = True
