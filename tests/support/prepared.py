"""For tests of the client without a node: a transport with prepared answers, and a clock that a test moves."""

import json
from collections.abc import Mapping
from typing import Any

from relay_client.steps import Answer, NoAnswer, Send
from relay_client.transport import AsyncPieces, Pieces


class Clock:
    """A clock that advances only while somebody sleeps or a node takes its time. It also stands in for the module
    `time`.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Prepared:
    """A transport that gives these answers in turn, each after `takes` seconds, and streams them in pieces of `piece`
    bytes. A mapping stands for a 200 with that JSON.
    """

    def __init__(
        self,
        *answers: Mapping[str, Any] | Answer | NoAnswer,
        takes: float = 0,
        piece: int = 1_000_000,
        clock: Clock | None = None,
    ) -> None:
        self._answers = iter(answers)
        self.takes = takes
        self._piece = piece
        self._clock = clock or Clock()
        self.requests: list[Send] = []
        self._opened: list[_Pieces] = []

    def send(self, request: Send) -> Answer:
        self.requests.append(request)
        self._clock.now += self.takes
        answer = next(self._answers)
        if isinstance(answer, NoAnswer):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(200, {}, json.dumps(answer).encode())

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        answer = self.send(request)
        self._opened.append(_Pieces(answer.content, self._piece))
        return Answer(answer.status, answer.headers, b""), self._opened[-1]

    @property
    def is_closed(self) -> bool:
        """Return whether every stream was closed."""
        return all(pieces.is_closed for pieces in self._opened)

    def close(self) -> None:
        pass


class AsyncPrepared:
    """The same transport for asyncio."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    async def send(self, request: Send) -> Answer:
        return self._prepared.send(request)

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        answer, pieces = self._prepared.open(request)
        return answer, _AsyncPieces(pieces)

    async def close(self) -> None:
        pass


class _Pieces:
    """A body in pieces."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content = content
        self._size = size
        self.is_closed = False

    def read(self) -> bytes:
        piece, self._content = self._content[: self._size], self._content[self._size :]
        return piece

    def close(self) -> None:
        self.is_closed = True


class _AsyncPieces:
    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    async def read(self) -> bytes:
        return self._pieces.read()

    async def close(self) -> None:
        self._pieces.close()
