"""One attempt to deliver a webhook, and what came of it.

An attempt is one connection and one POST: nothing is followed, nothing is kept, nothing is
unpacked, and the clock is ours. When the next attempt is due, and which callback is given up, is
for the queue.
"""

import asyncio
import ssl
import time
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial

import httpcore2
import msgspec
from httpcore2 import AsyncNetworkBackend

from node.callbacks.breaker import Dials, NotNow
from node.callbacks.envelope import Envelope
from node.callbacks.guard import Guard
from node.callbacks.resolve import DELIVERY_TIMEOUT, Resolver
from node.callbacks.target import Policy, Target, TargetRefused
from node.sign.node_key import NodeKey

GONE = 410
TOO_MANY = 429
THROTTLED = frozenset((408, 425, 429))  # the 4xx that ask to come back
NETWORK_TROUBLE = (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError)
"""A TLS error after the handshake comes through httpcore2 as it is."""
MAX_RETRY_AFTER = 86400.0  # seconds; what is asked beyond a day is not heard


class Delivered(msgspec.Struct, frozen=True, tag=True):
    """Answered with 2xx."""

    status: int


class ReceiverGone(msgspec.Struct, frozen=True, tag=True):
    """Answered with 410: the receiver wants no more of this."""


class Retry(msgspec.Struct, frozen=True, tag=True):
    """No answer, or one that says it may work later."""

    reason: str
    after: float | None = None
    """Seconds the receiver asks to wait, if it does; see `delay`."""


class Throttled(Retry, frozen=True, tag=True):
    """Answered with 429: the receiver works, and asks for fewer."""


class Unreachable(Retry, frozen=True, tag=True):
    """Nobody took a connection: the address is to blame, not the URL."""


class Later(msgspec.Struct, frozen=True, tag=True):
    """Not tried: what has to be called may not be, for so many milliseconds."""

    wait_ms: int


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """Answered, and the answer is no: a redirect, or a 4xx that is not about time."""

    reason: str
    status: int


class TargetForbidden(msgspec.Struct, frozen=True, tag=True):
    """Not sent: the target is not allowed."""

    reason: str


AttemptResult = Delivered | ReceiverGone | Retry | Later | Rejected | TargetForbidden


class AttemptTimeouts(msgspec.Struct, frozen=True):
    """Seconds each part of an attempt may take."""

    resolve: float = DELIVERY_TIMEOUT
    connect: float = 3.0
    """For the dial, and for the TLS handshake."""
    total: float = 10.0


class Sender:
    """Delivers webhooks in the name of a node."""

    def __init__(
        self,
        key: NodeKey,
        policy: Policy,
        resolver: Resolver,
        *,
        public_url: str,
        deadlines: AttemptTimeouts | None = None,
        tls: ssl.SSLContext | None = None,
        dialler: AsyncNetworkBackend | None = None,
        dials: Dials | None = None,
    ) -> None:
        self._key = key
        self._deadlines = deadlines or AttemptTimeouts()
        self._tls = tls or httpcore2.default_ssl_context()
        self._guard_for = partial(
            Guard, policy, resolver, dials=dials, dns_timeout=self._deadlines.resolve, dialler=dialler
        )
        self._user_agent = f"relay-node-webhooks/1.0 (+{public_url})".encode()

    async def send(self, target: Target, envelope: Envelope, site: str = "") -> AttemptResult:
        """POST the message once, on behalf of a site. Raises StoreUnavailable, and nothing that the network causes."""
        request = self._request(target, envelope)
        guard = self._guard_for(site=site)
        answer: httpcore2.Response | None = None
        trouble = ""
        try:
            async with asyncio.timeout(self._deadlines.total), self._connection(target, guard) as connection:
                answer = await connection.handle_async_request(request)
                await _let_finish(answer)
        except TargetRefused as refusal:
            return TargetForbidden(str(refusal))
        except NotNow as not_now:
            return Later(not_now.wait_ms)
        except TimeoutError:
            trouble = f"no answer within {self._deadlines.total:g} s"
        except (*NETWORK_TROUBLE, httpcore2.TimeoutException) as error:
            trouble = f"no answer: {str(error) or type(error).__name__}"
        if answer is not None:
            return _judge(answer, time.time())
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
        timeouts = {"connect": self._deadlines.connect}
        return httpcore2.Request(
            "POST", _url(target), headers=headers, content=envelope.body, extensions={"timeout": timeouts}
        )


def delay(scheduled: float, asked: float | None) -> float:
    """Seconds to wait if the schedule says `scheduled` and the receiver asked for `asked`.

    Between once and twice the schedule: a receiver can slow the node down, not hurry or park it.
    """
    return min(max(scheduled, asked or 0.0), 2 * scheduled)


def retry_after(value: str, now: float) -> float | None:
    """Seconds that a Retry-After asks to wait at `now` (RFC 9110 §10.2.3); None if it is none."""
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


def _judge(answer: httpcore2.Response, now: float) -> AttemptResult:
    status = answer.status
    if 200 <= status < 300:
        return Delivered(status)
    if status == GONE:
        return ReceiverGone()
    reason = f"answered {status}"
    if status >= 500 or status in THROTTLED:
        asked = [value for name, value in answer.headers if name.lower() == b"retry-after"]
        after = retry_after(asked[0].strip().decode("latin-1"), now) if asked else None
        return (Throttled if status == TOO_MANY else Retry)(reason, after)
    return Rejected(reason, status)


async def _let_finish(answer: httpcore2.Response) -> None:
    """Read on until the receiver has said all, or the guard has enough: the status is known by now."""
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
