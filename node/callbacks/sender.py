"""One attempt to deliver a webhook: one connection and one POST, within ten seconds.

Redirects are not followed, and neither cookies nor connections are kept. The body of the answer is not used. When the
next attempt is due, and which callback is given up, the queue decides (`service.py`).
"""

import asyncio
import ssl
import time
from contextlib import suppress
from functools import partial

import httpcore2
import msgspec
from httpcore2 import AsyncNetworkBackend

from node.callbacks.attempt import AttemptResult, Later, Retry, TargetForbidden, Unreachable, judge
from node.callbacks.breaker import Dials, NotNow
from node.callbacks.envelope import Envelope
from node.callbacks.guard import Guard
from node.callbacks.resolve import DELIVERY_TIMEOUT, Resolver
from node.callbacks.target import Policy, Target, TargetRefused
from node.sign.node_key import NodeKey

NETWORK_TROUBLE = (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError)
"""What httpcore2 raises for the network. A TLS error after the handshake comes through it as it is."""


class AttemptTimeouts(msgspec.Struct, frozen=True):
    """Seconds that each part of an attempt may take."""

    resolve: float = DELIVERY_TIMEOUT
    connect: float = 3.0
    """For the dial, and again for the TLS handshake."""
    total: float = 10.0


class Sender:
    """Sends the webhooks of a node."""

    def __init__(
        self,
        key: NodeKey,
        policy: Policy,
        resolver: Resolver,
        *,
        public_url: str,
        timeouts: AttemptTimeouts | None = None,
        tls: ssl.SSLContext | None = None,
        dialler: AsyncNetworkBackend | None = None,
        dials: Dials | None = None,
    ) -> None:
        self._key = key
        self._timeouts = timeouts or AttemptTimeouts()
        self._tls = tls or httpcore2.default_ssl_context()
        self._guard_for = partial(
            Guard, policy, resolver, dials=dials, dns_timeout=self._timeouts.resolve, dialler=dialler
        )
        self._user_agent = f"relay-node-webhooks/1.0 (+{public_url})".encode()

    async def send(self, target: Target, envelope: Envelope, site: str = "") -> AttemptResult:
        """POST the message once, on behalf of a site. Raises StoreUnavailable; what the network causes is a result."""
        request = self._request(target, envelope)
        guard = self._guard_for(site=site)
        answer: httpcore2.Response | None = None
        trouble = ""
        try:
            async with asyncio.timeout(self._timeouts.total), self._connection(target, guard) as connection:
                answer = await connection.handle_async_request(request)
                await _let_finish(answer)
        except TargetRefused as refusal:
            return TargetForbidden(str(refusal))
        except NotNow as not_now:
            return Later(not_now.wait_ms)
        except TimeoutError:
            trouble = f"no answer within {self._timeouts.total:g} s"
        except (*NETWORK_TROUBLE, httpcore2.TimeoutException) as error:
            trouble = f"no answer: {str(error) or type(error).__name__}"
        if answer is not None:
            return judge(answer.status, answer.headers, time.time())
        return Unreachable(trouble) if guard.is_unreachable else Retry(trouble)

    def _connection(self, target: Target, guard: Guard) -> httpcore2.AsyncHTTPConnection:
        return httpcore2.AsyncHTTPConnection(
            _url(target).origin, ssl_context=self._tls, network_backend=guard, retries=0, http2=False
        )

    def _request(self, target: Target, envelope: Envelope) -> httpcore2.Request:
        headers = [
            (b"Host", target.authority.encode()),
            (b"User-Agent", self._user_agent),
            (b"Accept", b"*/*"),
            (b"Connection", b"close"),
            (b"Content-Length", str(len(envelope.body)).encode()),
            *envelope.headers(self._key, time.time()),
        ]
        extensions = {"timeout": {"connect": self._timeouts.connect}}
        return httpcore2.Request("POST", _url(target), headers=headers, content=envelope.body, extensions=extensions)


async def _let_finish(answer: httpcore2.Response) -> None:
    """Read the rest of an answer, up to what the guard allows, so that the receiver is not cut off while it writes.

    The status is known by now, so what goes wrong here does not count.
    """
    with suppress(*NETWORK_TROUBLE):
        async for _ in answer.aiter_stream():
            pass


def _url(target: Target) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=target.scheme.encode(),
        host=target.host.strip("[]").encode(),
        port=target.port,
        target=target.resource.encode(),
    )
