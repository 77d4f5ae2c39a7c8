"""Single requests on behalf of a client, such as the fetch of an agent card, within that client's share of the rates
and places of callbacks, and with their breakers.
"""

import time
from asyncio import gather, get_running_loop, sleep
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpcore2

from node.callbacks.attempt import Delivered, Later, NotNow, ReceiverGone, Rejected, judge
from node.callbacks.breaker import Admitted, Breaker, circuit_of
from node.callbacks.call import CallAnswer, Caller, CallResult
from node.callbacks.concurrency import Concurrency
from node.callbacks.guard import MAX_READ
from node.callbacks.owners import Requester
from node.callbacks.target import Target, TargetPolicy
from node.store import ids

Result = TypeVar("Result")

ANSWERED = (Delivered, ReceiverGone, Rejected)
"""Results that show that a URL works. Unlike for a callback, a 4xx is one of them: here any answer will do."""


class FairCaller:
    """Makes requests on behalf of clients. No client can make the node call anybody more often than is fair."""

    def __init__(self, caller: Caller, breaker: Breaker, concurrency: Concurrency) -> None:
        self.caller = caller
        self._breaker = breaker
        self._concurrency = concurrency

    @property
    def policy(self) -> TargetPolicy:
        """The policy for URLs, and for the addresses of the next requests."""
        return self.caller.policy

    async def call(
        self, target: Target, request: httpcore2.Request, publisher: str, most: int = MAX_READ
    ) -> CallResult:
        """Send the request once on behalf of the client `publisher` (`owners`). Raises StoreUnavailable."""
        requester = Requester(publisher, ids.digest(target.url))
        result, has_failed = await if_admitted(
            self._breaker,
            self._concurrency,
            target,
            requester,
            lambda: self.caller.call(target, request, requester, most),
        )
        judged = judge(result.status, result.headers, time.time()) if isinstance(result, CallAnswer) else result
        await self._breaker.note(target, requester, judged, works=has_failed and isinstance(judged, ANSWERED))
        return result

    async def call_in_turn(
        self, target: Target, request: httpcore2.Request, publisher: str, ends: float, most: int = MAX_READ
    ) -> CallResult:
        """Like `call`, but wait for a turn if one comes before the loop time `ends`. Raises StoreUnavailable."""
        while True:
            result = await self.call(target, request, publisher, most)
            if not isinstance(result, Later) or get_running_loop().time() + result.wait_ms / 1000 >= ends:
                return result
            await sleep(result.wait_ms / 1000)


async def if_admitted(
    breaker: Breaker, limits: Concurrency, target: Target, requester: Requester, call: Callable[[], Awaitable[Result]]
) -> tuple[Result | Later, bool]:
    """Call a target if breaker, rates and places allow it now; the call is counted, and holds a place while it runs.

    Returns the result, and whether the URL has failed since it last worked. If the call was not made, what was counted
    for it is refunded. Raises StoreUnavailable.
    """
    answers = await gather(breaker.allow(requester), breaker.admit(circuit_of(target, requester), requester))
    refusals = [each for each in answers if isinstance(each, Later)]
    result: Result | Later | None = max(refusals, key=lambda refusal: refusal.wait_ms, default=None)
    if result is None:
        try:
            async with limits.of(requester.site, target.host):
                result = await call()
        except NotNow as not_now:
            result = Later(not_now.wait_ms)
    admitted = [each for each in answers if isinstance(each, Admitted)]
    if isinstance(result, Later):
        await breaker.refund(*admitted)
    return result, any(each.has_failed for each in admitted)
