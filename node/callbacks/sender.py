"""One attempt to deliver a webhook: one POST (`call.py`), and what its answer means for the message.

The body of the answer is read but not used, so that the receiver is not cut off while it writes. `service.py` decides
when the next attempt is due, and which callback is given up.
"""

import time

import httpcore2

from node.callbacks.attempt import AttemptResult, judge
from node.callbacks.call import CallAnswer, Caller
from node.callbacks.envelope import Envelope
from node.callbacks.owners import Requester
from node.callbacks.target import Target, TargetPolicy
from node.sign.node_key import NodeKey


class Sender:
    """Sends the webhooks of a node."""

    def __init__(self, key: NodeKey, caller: Caller, public_url: str) -> None:
        self._key = key
        self._caller = caller
        self._user_agent = f"relay-node-webhooks/1.0 (+{public_url})".encode()

    @property
    def policy(self) -> TargetPolicy:
        """The policy for URLs, and for the addresses of the next attempts."""
        return self._caller.policy

    async def send(self, target: Target, envelope: Envelope, requester: Requester) -> AttemptResult:
        """POST the message once. Raises StoreUnavailable. Network errors are returned as results."""
        result = await self._caller.call(target, self._request(target, envelope), requester)
        if isinstance(result, CallAnswer):
            return judge(result.status, result.headers, time.time())
        return result

    def _request(self, target: Target, envelope: Envelope) -> httpcore2.Request:
        headers = [
            (b"User-Agent", self._user_agent),
            (b"Accept", b"*/*"),
            *envelope.headers(self._key, time.time()),
        ]
        return self._caller.request("POST", target, headers, envelope.body)
