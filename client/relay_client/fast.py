"""A transport based on aiohttp, several times as fast as httpx: `AsyncRelay(url, transport=AiohttpTransport())`.

Needs the extra `fast`. Create it while the event loop runs.
"""

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from relay_client.errors import UsageError
from relay_client.steps import Answer, Body, NoAnswer, Send
from relay_client.transport import CLOSED, USER_AGENT, AsyncPieces, OneLoop, beside_the_loop, content_of

UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class AiohttpTransport:
    """A transport on `aiohttp.ClientSession`. Takes its options, such as `connector`, `proxy` and `trust_env`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._loop = OneLoop()
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._answers: set[aiohttp.ClientResponse] = set()
        """Answers whose bodies are being read. When aiohttp closes, it would let their readers wait for ever."""

    async def send(self, request: Send) -> Answer:
        with _translated():
            async with self._asked(request) as got:
                self._answers.add(got)
                body = Body()
                try:
                    async for piece in got.content.iter_any():
                        body.add(piece)
                finally:
                    self._answers.discard(got)
        return Answer(got.status, got.headers, bytes(body.content))

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        with _translated():
            got = await self._asked(request)
        self._answers.add(got)
        return Answer(got.status, got.headers, b""), _AsyncPieces(got, self._answers)

    async def close(self) -> None:
        self._is_closed = True
        for got in self._answers:
            got.close()
        if self._session:
            await self._session.close()

    def _asked(self, request: Send) -> Any:
        if self._is_closed:
            raise UsageError(CLOSED)
        self._loop.check()
        if self._session is None:  # belongs to the loop that runs now
            headers = CIMultiDict({"User-Agent": USER_AGENT})
            headers.update(self._options.pop("headers", None) or {})
            middlewares = (_once, *(self._options.pop("middlewares", None) or ()))
            self._session = aiohttp.ClientSession(headers=headers, middlewares=middlewares, **self._options)
        return self._session.request(
            request.method,
            URL(request.url, encoded=True),  # unchanged, because the signature covers its text
            headers=request.headers,
            data=content_of(request, beside_the_loop),
            allow_redirects=False,
            timeout=_timeout(request),
        )


class _AsyncPieces:
    def __init__(self, got: aiohttp.ClientResponse, answers: set[aiohttp.ClientResponse]) -> None:
        self._got = got
        self._answers = answers

    async def read(self) -> bytes:
        with _translated():
            return await self._got.content.readany()

    async def close(self) -> None:
        self._answers.discard(self._got)
        self._got.close()


def _timeout(request: Send) -> aiohttp.ClientTimeout:
    seconds = request.timeout
    is_endless = request.is_stream or request.within == math.inf  # aiohttp cannot round infinity
    total = None if is_endless else request.within
    return aiohttp.ClientTimeout(total, connect=seconds, sock_connect=seconds, sock_read=seconds)


@contextmanager
def _translated() -> Generator[None, None, None]:
    """Raise the library's exceptions as the client's own."""
    try:
        yield
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, UnicodeError) as error:
        raise UsageError(f"this cannot be sent: {error}") from error
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise _lost(error) from None


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A middleware that prevents aiohttp from repeating a GET, PUT or DELETE whose connection broke.

    aiohttp would repeat it with the same signature, and hide that the first try may have taken effect.
    """
    try:
        return await send(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _lost(error) from None


def _lost(error: Exception) -> NoAnswer:
    return NoAnswer(str(error) or type(error).__name__, unsent=isinstance(error, UNSENT))
