"""One request to an address that a stranger gave: one connection through the guard, within ten seconds.

Redirects are not followed, cookies and connections are not kept, and no more of the answer is read than the caller
asked for. What an answer means is decided by the callers: deliveries of callbacks (`sender.py`) and checks of agents.
"""

import asyncio
import re
import ssl
from collections.abc import Iterable
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TypeAlias

import httpcore2
import msgspec
from httpcore2 import AsyncNetworkBackend

from node.callbacks.attempt import Later, NotNow, Retry, TargetForbidden, Unreachable
from node.callbacks.breaker import Breaker
from node.callbacks.guard import MAX_READ, PIECE_BYTES, Guard
from node.callbacks.owners import Requester
from node.callbacks.resolve import Resolver
from node.callbacks.target import Target, TargetPolicy, TargetRefused
from node.callbacks.tls import client_contexts, was_refused

NETWORK_TROUBLE = (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError)
"""What httpcore2 raises for network errors. TLS errors after the handshake pass through it unchanged."""

_SAID = re.compile(r""":? (?:bytearray\()?b['"].*""", re.DOTALL)
"""Matches what an error message quotes of an answer that is not HTTP. It is left out: a stranger would decide what is
stored for each attempt, written to the log, and shown in the directory as words of this node."""

Headers: TypeAlias = list[tuple[bytes, bytes]]


class AttemptTimeouts(msgspec.Struct, frozen=True):
    """Seconds that each part of an attempt may take."""

    connect: float = 3.0
    """For dialling an address, and again for the TLS handshake."""
    total: float = 10.0


class CallAnswer(msgspec.Struct, frozen=True):
    """The answer to a request."""

    status: int
    headers: Headers
    body: bytes
    is_whole: bool
    """Whether the body was read to its end, within the limits of time and bytes."""

    def header(self, name: bytes) -> str:
        """Return the first header with this name, which is given in lower case; empty if there is none."""
        return next((value.decode("latin-1") for known, value in self.headers if known.lower() == name), "")


CallResult: TypeAlias = CallAnswer | Retry | Later | TargetForbidden
"""An answer, or why there is none."""


class Caller:
    """Makes single requests for a node."""

    def __init__(
        self,
        policy: TargetPolicy,
        resolver: Resolver,
        breaker: Breaker,
        *,
        timeouts: AttemptTimeouts | None = None,
        tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
        dialler: AsyncNetworkBackend | None = None,
    ) -> None:
        self.policy = policy
        """The policy for URLs, and for the addresses of the next requests. It may be replaced at any time."""
        self._timeouts = timeouts or AttemptTimeouts()
        self._tls, self._other_tls = tls or client_contexts()
        self._guard_of = partial(Guard, resolver=resolver, breaker=breaker, dialler=dialler)

    async def call(
        self, target: Target, request: httpcore2.Request, requester: Requester, most: int = MAX_READ
    ) -> CallResult:
        """Send the request once, and read at most `most` bytes of the answer, or fewer if it comes in small pieces.

        Raises StoreUnavailable. Network errors are returned as results.
        """
        guard = self._guard_of(self.policy, requester=requester, most=most)
        answer: httpcore2.Response | None = None
        body, pieces, is_whole, trouble = bytearray(), 0, False, ""
        try:
            async with asyncio.timeout(self._timeouts.total), AsyncExitStack() as connections:
                answer = await self._begin(target, request, guard, connections)
                guard.begin_body()
                parts = await connections.enter_async_context(aclosing(answer.aiter_stream()))
                async for part in parts:
                    body += part
                    pieces += 1
                    if pieces * PIECE_BYTES > most:
                        break
                else:
                    is_whole = True
        except TargetRefused as refusal:
            return TargetForbidden(str(refusal))
        except NotNow as not_now:
            return Later(not_now.wait_ms)
        except TimeoutError:
            trouble = f"no answer within {self._timeouts.total:g} s"
        except (*NETWORK_TROUBLE, httpcore2.TimeoutException) as error:
            trouble = f"no answer: {_SAID.sub('', str(error)) or type(error).__name__}"
        if answer is not None:  # a failure after the headers shows only in `is_whole`
            return CallAnswer(answer.status, list(answer.headers), bytes(body), is_whole)
        return Unreachable(trouble) if guard.is_unreachable else Retry(trouble)

    def request(
        self, method: str, target: Target, headers: Iterable[tuple[bytes, bytes]], body: bytes = b""
    ) -> httpcore2.Request:
        """Return a request that `call` can send, with `headers` in addition to those that every request has."""
        sent = [(b"Host", target.authority.encode()), (b"Connection", b"close"), *headers]
        if body:
            sent.append((b"Content-Length", str(len(body)).encode()))
        extensions = {"timeout": {"connect": self._timeouts.connect}}
        return httpcore2.Request(method, _url(target), headers=sent, content=body or None, extensions=extensions)

    async def _begin(
        self, target: Target, request: httpcore2.Request, guard: Guard, connections: AsyncExitStack
    ) -> httpcore2.Response:
        """Return the head of the answer, whose connection `connections` closes. Raises what `call` handles."""
        try:
            return await _asked(target, request, guard, connections, self._tls)
        except httpcore2.ConnectError as error:  # nothing of the request has been sent
            if not was_refused(error):
                raise
        return await _asked(target, request, guard, connections, self._other_tls)


async def _asked(
    target: Target, request: httpcore2.Request, guard: Guard, connections: AsyncExitStack, tls: ssl.SSLContext
) -> httpcore2.Response:
    origin = _url(target).origin
    connection = httpcore2.AsyncHTTPConnection(origin, ssl_context=tls, network_backend=guard, retries=0, http2=False)
    await connections.enter_async_context(connection)
    return await connection.handle_async_request(request)


def _url(target: Target) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=target.scheme.encode(),
        host=target.host.strip("[]").encode(),
        port=target.port,
        target=target.resource.encode(),
    )
