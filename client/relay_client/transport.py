"""Transports based on httpx, synchronous and for asyncio. A faster one for asyncio is in `fast.py`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from typing import Any, Protocol, TypeVar

import anyio
import httpx

from relay_client.errors import UsageError
from relay_client.steps import ENDLESS, Answer, Body, NoAnswer, Send
from relay_client.version import __version__

UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
USER_AGENT = f"relay-node-client/{__version__}"
CLOSED = "this client is closed: make a new one, or close it later"

S = TypeVar("S")


class Pieces(Protocol):
    """The body of an answer, read piece by piece. The end is an empty piece."""

    def read(self) -> bytes: ...
    def close(self) -> None: ...


class Transport(Protocol):
    """Sends requests. Raises NoAnswer."""

    def send(self, request: Send) -> Answer: ...
    def open(self, request: Send) -> tuple[Answer, Pieces]: ...
    def close(self) -> None: ...


class AsyncPieces(Protocol):
    """`Pieces` for asyncio."""

    async def read(self) -> bytes: ...
    async def close(self) -> None: ...


class AsyncTransport(Protocol):
    """`Transport` for asyncio. Raises NoAnswer."""

    async def send(self, request: Send) -> Answer: ...
    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]: ...
    async def close(self) -> None: ...


class HttpxTransport:
    """A transport on `httpx.Client`. Takes its options, such as `proxy` and `verify`."""

    def __init__(self, **options: Any) -> None:
        with _usable():
            self._http = httpx.Client(headers=_headers(options), **options)
        self._options = options
        self._process = os.getpid()

    def send(self, request: Send) -> Answer:
        http = self._of_this_process()
        body = Body(request.within)  # httpx has no such limit; it reads even endless headers in one go
        with _translated(http), closing(http.send(_asked(http, request, iter), stream=True)) as got:
            for piece in got.iter_bytes():
                body.add(piece)
        return Answer(got.status_code, got.headers, bytes(body.content))

    def open(self, request: Send) -> tuple[Answer, Pieces]:
        http = self._of_this_process()
        with _translated(http):
            got = http.send(_asked(http, request, iter), stream=True)
        return Answer(got.status_code, got.headers, b""), _Pieces(http, got)

    def close(self) -> None:
        self._of_this_process().close()

    def _of_this_process(self) -> httpx.Client:
        """Return the httpx client. After a fork, it is a new one with its own connections.

        On a shared connection, each process could get the answers of the other.
        """
        if self._process != os.getpid() and not self._http.is_closed:
            self._http = httpx.Client(headers=self._http.headers, **self._options)
            self._process = os.getpid()
        return self._http


class OneLoop:
    """The event loop in which a client for asyncio was first used. Its connections work only in that loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise UsageError in any other loop, where a call would fail if it reused a connection."""
        running = asyncio.get_running_loop()
        self._loop = self._loop or running
        if self._loop is not running:
            raise UsageError("this client was used in another event loop: make one client for each loop")


class AsyncHttpxTransport:
    """A transport on `httpx.AsyncClient`. Takes its options."""

    def __init__(self, **options: Any) -> None:
        self._loop = OneLoop()
        with _usable():
            self._http = httpx.AsyncClient(headers=_headers(options), **options)

    async def send(self, request: Send) -> Answer:
        self._loop.check()
        with _translated(self._http), in_time(request):
            asked, body = _asked(self._http, request, beside_the_loop), Body()
            async with aclosing(await self._http.send(asked, stream=True)) as got:
                async for piece in got.aiter_bytes():
                    body.add(piece)
        return Answer(got.status_code, got.headers, bytes(body.content))

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        self._loop.check()
        with _translated(self._http):
            got = await self._http.send(_asked(self._http, request, beside_the_loop), stream=True)
        return Answer(got.status_code, got.headers, b""), _AsyncPieces(self._http, got)

    async def close(self) -> None:
        await self._http.aclose()


class _Pieces:
    def __init__(self, http: httpx.Client, got: httpx.Response) -> None:
        self._http = http
        self._got = got
        self._pieces = got.iter_bytes()

    def read(self) -> bytes:
        with _translated(self._http):
            return next(self._pieces, b"")

    def close(self) -> None:
        self._got.close()


class _AsyncPieces:
    def __init__(self, http: httpx.AsyncClient, got: httpx.Response) -> None:
        self._http = http
        self._got = got
        self._pieces = got.aiter_bytes()

    async def read(self) -> bytes:
        with _translated(self._http):
            return await anext(self._pieces, b"")

    async def close(self) -> None:
        await self._got.aclose()


@contextmanager
def in_time(request: Send) -> Generator[None, None, None]:
    """Cancel what takes longer than `within`, and raise NoAnswer."""
    try:
        with anyio.fail_after(request.within):  # asyncio has nothing like it before Python 3.11
            yield
    except TimeoutError:
        raise NoAnswer(ENDLESS, unsent=False) from None


async def beside_the_loop(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Read the pieces of a file in a thread."""
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def content_of(request: Send, streamed: Callable[[Iterator[bytes]], S]) -> S | bytes | None:
    """Return the body of a request for a library. A body in pieces is converted by `streamed`."""
    return streamed(request.content()) if callable(request.content) else request.content


def _asked(
    http: httpx.Client | httpx.AsyncClient, request: Send, streamed: Callable[[Iterator[bytes]], Any]
) -> httpx.Request:
    content = content_of(request, streamed)
    return http.build_request(
        request.method, request.url, headers=request.headers, content=content, timeout=request.timeout
    )


@contextmanager
def _usable() -> Generator[None, None, None]:
    """Raise UsageError for options that httpx cannot use, which may come from the environment."""
    try:
        yield
    except (httpx.InvalidURL, ValueError, ImportError, OSError) as wrong:  # OSError: from a certificate file
        names = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE, SSL_CERT_DIR"
        raise UsageError(f"the connection options (or {names}) cannot be used: {wrong}") from wrong


@contextmanager
def _translated(http: httpx.Client | httpx.AsyncClient) -> Generator[None, None, None]:
    """Raise the library's exceptions as the client's own."""
    try:
        yield
    except RuntimeError as error:
        if http.is_closed:
            raise UsageError(CLOSED) from error
        raise
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeError) as error:
        raise UsageError(f"this cannot be sent: {error}") from error
    except httpx.RequestError as error:
        raise NoAnswer(str(error) or type(error).__name__, unsent=isinstance(error, UNSENT)) from None


def _headers(options: dict[str, Any]) -> httpx.Headers:
    """Return the headers of all requests. Headers in the options take precedence."""
    headers = httpx.Headers({"User-Agent": USER_AGENT})
    headers.update(options.pop("headers", None))
    return headers
