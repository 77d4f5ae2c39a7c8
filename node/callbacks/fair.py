"""Single requests on behalf of a client, such as the fetch of an agent card: with the rates, breakers and places of
callbacks, and within the share of that client.
"""

import time
from asyncio import get_running_loop, sleep
from http import HTTPStatus

import httpcore2

from node.callbacks.attempt import Later, Retry, Unreachable, retry_after
from node.callbacks.breaker import Breaker, NotNow, breaker_of
from node.callbacks.call import CallAnswer, Caller, CallResult
from node.callbacks.guard import MAX_READ
from node.callbacks.owners import site_part
from node.callbacks.places import Places, admitted
from node.callbacks.target import Policy, Target


class FairCaller:
    """Makes requests on behalf of clients, none of whom can have the node call somebody more often than is fair."""

    def __init__(self, caller: Caller, breaker: Breaker, places: Places) -> None:
        self.caller = caller
        self._breaker = breaker
        self._places = places

    @property
    def policy(self) -> Policy:
        """By which URLs and the addresses of the next requests are judged."""
        return self.caller.policy

    def change(self, policy: Policy) -> None:
        """Judge by this policy from the next request on."""
        self.caller.policy = policy

    async def call(
        self, target: Target, request: httpcore2.Request, publisher: str, most: int = MAX_READ
    ) -> CallResult:
        """Send the request once for a client (`owners`). Raises StoreUnavailable."""
        try:
            async with admitted(self._breaker, self._places, target, publisher) as has_failed:
                result = await self.caller.call(target, request, site_part(publisher), most)
        except NotNow as not_now:
            return Later(not_now.wait_ms)
        await self._tell_breaker(target, result, has_failed=has_failed)
        return result

    async def call_in_turn(
        self, target: Target, request: httpcore2.Request, publisher: str, ends: float, most: int = MAX_READ
    ) -> CallResult:
        """The same, waiting for a turn if there is one before the loop time `ends`. Raises StoreUnavailable."""
        while True:
            result = await self.call(target, request, publisher, most)
            if not isinstance(result, Later) or get_running_loop().time() + result.wait_ms / 1000 >= ends:
                return result
            await sleep(result.wait_ms / 1000)

    async def _tell_breaker(self, target: Target, result: CallResult, *, has_failed: bool) -> None:
        breaker = breaker_of(target)
        match result:
            case CallAnswer() if result.status == HTTPStatus.TOO_MANY_REQUESTS:
                await self._breaker.pause(*breaker, retry_after(result.header(b"retry-after"), time.time()) or 0.0)
            case CallAnswer() if result.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                await self._breaker.failed(*breaker)
            case CallAnswer() if has_failed:
                await self._breaker.succeeded(*breaker)
            case Retry() if not isinstance(result, Unreachable):
                await self._breaker.failed(*breaker)
            case _:
                pass
