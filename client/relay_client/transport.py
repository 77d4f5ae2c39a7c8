"""Who sends: httpx, for programs that wait and for asyncio. Another for asyncio is in `fast.py`."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import httpx

from relay_client.errors import UsageError
from relay_client.steps import Answer, NoAnswer, Send
from relay_client.version import __version__

UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
USER_AGENT = f"relay-node-client/{__version__}"


class Pieces(Protocol):
    """The body of an answer, as it comes."""

    def read(self) -> bytes: ...
    def close(self) -> None: ...


class Transport(Protocol):
    """Sends requests. Raises NoAnswer."""

    def send(self, request: Send) -> Answer: ...
    def open(self, request: Send) -> tuple[Answer, Pieces]: ...
    def close(self) -> None: ...


class AsyncPieces(Protocol):
    """The body of an answer, as it comes."""

    async def read(self) -> bytes: ...
    async def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Sends requests, awaited. Raises NoAnswer."""

    async def send(self, request: Send) -> Answer: ...
    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]: ...
    async def close(self) -> None: ...


class HttpxTransport:
    """httpx; takes the options of `httpx.Client`, such as `proxy` and `verify`."""

    def __init__(self, **options: Any) -> None:
        self._http = httpx.Client(headers=_headers(options), **options)

    def send(self, request: Send) -> Answer:
        with _told():
            got = self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content() if callable(request.content) else request.content,
                timeout=request.timeout,
            )
        return Answer(got.status_code, got.headers, got.content)

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        with _told():
            asked = self._http.build_request(
                request.method, request.url, headers=request.headers, content=_bytes(request), timeout=request.timeout
            )
            got = self._http.send(asked, stream=True)
        return Answer(got.status_code, got.headers, b""), _Pieces(got)

    def close(self) -> None:
        self._http.close()


class AsyncHttpxTransport:
    """The same for asyncio; takes the options of `httpx.AsyncClient`."""

    def __init__(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(headers=_headers(options), **options)

    async def send(self, request: Send) -> Answer:
        with _told():
            got = await self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=beside_the_loop(request.content()) if callable(request.content) else request.content,
                timeout=request.timeout,
            )
        return Answer(got.status_code, got.headers, got.content)

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        with _told():
            asked = self._http.build_request(
                request.method, request.url, headers=request.headers, content=_bytes(request), timeout=request.timeout
            )
            got = await self._http.send(asked, stream=True)
        return Answer(got.status_code, got.headers, b""), _AsyncPieces(got)

    async def close(self) -> None:
        await self._http.aclose()


class _Pieces:
    def __init__(self, got: httpx.Response) -> None:
        self._got = got
        self._pieces = got.iter_bytes()

    def read(self) -> bytes:
        with _told():
            return next(self._pieces, b"")

    def close(self) -> None:
        self._got.close()


class _AsyncPieces:
    def __init__(self, got: httpx.Response) -> None:
        self._got = got
        self._pieces = got.aiter_bytes()

    async def read(self) -> bytes:
        with _told():
            return await anext(self._pieces, b"")

    async def close(self) -> None:
        await self._got.aclose()


async def beside_the_loop(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a file, read by a thread."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def _bytes(request: Send) -> bytes | None:
    return None if callable(request.content) else request.content


@contextmanager
def _told() -> Generator[None, None, None]:
    """What went wrong, as other transports say it."""
    try:
        yield
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise UsageError(f"this cannot be sent: {error}") from error
    except httpx.RequestError as error:
        raise NoAnswer(str(error) or type(error).__name__, unsent=isinstance(error, UNSENT)) from None


def _headers(options: dict[str, Any]) -> httpx.Headers:
    """Those of all requests; options may name others."""
    headers = httpx.Headers({"User-Agent": USER_AGENT})
    headers.update(options.pop("headers", None))
    return headers
