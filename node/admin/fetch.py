"""Fetches a URL that the operator has given, with one GET: any host, no redirects, bounded in time and size."""

import asyncio
import ssl
from http import HTTPStatus

import httpcore2

MAX_BYTES = 8 * 1024 * 1024
"""Largest body that is read, in bytes."""

TIMEOUT = 10.0
"""Timeout of the whole exchange, in seconds."""


class FetchFailed(Exception):
    """There is no usable answer; the message says why."""


async def fetch(url: str) -> bytes:
    """Return the body of a 200 answer. Raises FetchFailed."""
    headers = [("Accept", "application/json"), ("User-Agent", "relay-node-verify/1.0")]
    if not url.isascii():
        raise FetchFailed("not an http or https URL: it has characters that must be percent-encoded")
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            httpcore2.AsyncConnectionPool(http2=False, retries=0) as pool,
            pool.stream("GET", url, headers=headers) as response,
        ):
            if response.status != HTTPStatus.OK:
                raise FetchFailed(f"the server answered {response.status}")
            return await _read(response)
    except TimeoutError:
        raise FetchFailed(f"no complete answer within {TIMEOUT:g} s") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, ssl.SSLError) as error:
        raise FetchFailed(f"no answer: {str(error) or type(error).__name__}") from error
    except (httpcore2.UnsupportedProtocol, ValueError) as error:
        raise FetchFailed(f"not an http or https URL: {error}") from error


async def _read(response: httpcore2.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_stream():
        size += len(piece)
        if size > MAX_BYTES:
            raise FetchFailed(f"the answer is longer than {MAX_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)
