"""A transport of aiohttp, several times as fast as httpx: `AsyncRelay(url, transport=AiohttpTransport())`.

Needs the extra `fast`. Make it where the event loop runs.
"""

from typing import Any

import aiohttp

from relay_client.steps import Answer, NoAnswer, Send
from relay_client.transport import USER_AGENT, AsyncPieces, beside_the_loop


class AiohttpTransport:
    """Takes the options of `aiohttp.ClientSession`, such as `connector`, `proxy` and `trust_env`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Send) -> Answer:
        try:
            async with self._asked(request) as got:
                return Answer(got.status, got.headers, await got.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from None

    async def open(self, request: Send) -> tuple[Answer, AsyncPieces]:
        try:
            got = await self._asked(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from None
        return Answer(got.status, got.headers, b""), _AsyncPieces(got)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    def _asked(self, request: Send) -> Any:
        if self._session is None:  # belongs to the loop that runs now
            self._session = aiohttp.ClientSession(headers={"User-Agent": USER_AGENT}, **self._options)
        return self._session.request(
            request.method,
            request.url,
            headers=request.headers,
            data=beside_the_loop(request.content()) if callable(request.content) else request.content,
            allow_redirects=False,
            timeout=_timeout(request.timeout),
        )


class _AsyncPieces:
    def __init__(self, got: aiohttp.ClientResponse) -> None:
        self._got = got

    async def read(self) -> bytes:
        try:
            return await self._got.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from None

    async def close(self) -> None:
        self._got.close()


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=seconds, sock_read=seconds)


def _no_answer(error: Exception) -> NoAnswer:
    return NoAnswer(str(error) or type(error).__name__, unsent=isinstance(error, aiohttp.ClientConnectorError))
