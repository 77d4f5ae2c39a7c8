"""One GET of a URL that the operator has named: any host, no redirect, not for ever and not without end."""

import asyncio
import ssl

import httpcore2

LONGEST = 8 * 1024 * 1024
"""Bytes of an answer."""

PATIENCE = 10.0
"""Seconds from the beginning to the end of it."""

OK = 200


class FetchFailed(Exception):
    """There is no answer to work with; the message says why."""


async def fetch(url: str) -> bytes:
    """The body of a 200 answer. Raises FetchFailed."""
    headers = [("Accept", "application/json"), ("User-Agent", "relay-node-verify/1.0")]
    try:
        async with (
            asyncio.timeout(PATIENCE),
            httpcore2.AsyncConnectionPool(http2=False, retries=0) as pool,
            pool.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status != OK:
                raise FetchFailed(f"it answered {answer.status}")
            return await _read(answer)
    except TimeoutError:
        raise FetchFailed(f"no whole answer within {PATIENCE:g} s") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, ssl.SSLError) as error:
        raise FetchFailed(f"no answer: {str(error) or type(error).__name__}") from error
    except (httpcore2.UnsupportedProtocol, ValueError, UnicodeError) as error:
        raise FetchFailed(f"not an http or https URL: {error}") from error


async def _read(answer: httpcore2.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.aiter_stream():
        size += len(piece)
        if size > LONGEST:
            raise FetchFailed(f"the answer is longer than {LONGEST} bytes")
        pieces.append(piece)
    return b"".join(pieces)
