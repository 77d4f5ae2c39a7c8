"""Who sends: httpx, for programs that wait and for asyncio. Another for asyncio is in `fast.py`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import httpx

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
        self._http = httpx.Client(headers={"User-Agent": USER_AGENT}, **options)

    def send(self, request: Send) -> Answer:
        try:
            got = self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content() if callable(request.content) else request.content,
                timeout=request.timeout,
            )
        except httpx.TransportError as error:
            raise _no_answer(error) from None
        return Answer(got.status_code, got.headers, got.content)

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        asked = self._http.build_request(
            request.method, request.url, headers=request.headers, content=_bytes(request), timeout=request.timeout
        )
        try:
            got = self._http.send(asked, stream=True)
        except httpx.TransportError as error:
            raise _no_answer(error) from None
        return Answer(got.status_code, got.headers, b""), _Pieces(got)

    def close(self) -> None:
        self._http.close()


class AsyncHttpxTransport:
    """The same for asyncio; takes the options of `httpx.AsyncClient`."""

    def __init__(self, **options: Any) -> None:
        self._http = httpx.AsyncClient(headers={"User-Agent": USER_AGENT}, **options)

    async def send(self, request: Send) -> Answer:
        try:
            got = await self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=beside_the_loop(request.content()) if callable(request.content) else request.content,
                timeout=request.timeout,
            )
        except httpx.TransportError as error:
            raise _no_answer(error) from None
        return Answer(got.status_code, got.headers, got.content)

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        asked = self._http.build_request(
            request.method, request.url, headers=request.headers, content=_bytes(request), timeout=request.timeout
        )
        try:
            got = await self._http.send(asked, stream=True)
        except httpx.TransportError as error:
            raise _no_answer(error) from None
        return Answer(got.status_code, got.headers, b""), _AsyncPieces(got)

    async def close(self) -> None:
        await self._http.aclose()


class _Pieces:
    def __init__(self, got: httpx.Response) -> None:
        self._got = got
        self._pieces = got.iter_bytes()

    def read(self) -> bytes:
        try:
            return next(self._pieces, b"")
        except httpx.TransportError as error:
            raise _no_answer(error) from None

    def close(self) -> None:
        self._got.close()


class _AsyncPieces:
    def __init__(self, got: httpx.Response) -> None:
        self._got = got
        self._pieces = got.aiter_bytes()

    async def read(self) -> bytes:
        try:
            return await anext(self._pieces, b"")
        except httpx.TransportError as error:
            raise _no_answer(error) from None

    async def close(self) -> None:
        await self._got.aclose()


async def beside_the_loop(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a file, read by a thread."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def _bytes(request: Send) -> bytes | None:
    return None if callable(request.content) else request.content


def _no_answer(error: httpx.TransportError) -> NoAnswer:
    return NoAnswer(str(error) or type(error).__name__, unsent=isinstance(error, UNSENT))
