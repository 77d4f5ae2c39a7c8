"""Limits for calls that no web request makes."""

from node.common.refusal import Refused
from node.config import Limit
from node.store.limits import LimitState


class Limited:
    """A number of requests of one client, and `most` things that it may have; 0 for any number."""

    def __init__(self, client: str, limit: Limit, most: int = 0) -> None:
        self.client = client
        self.limit = limit
        self.most = most

    def settle(self, taken: LimitState) -> None:
        """Raises Refused `limit.exceeded`."""
        if not taken.allowed and self.limit.count:
            raise Refused("limit.exceeded", retry_after=taken.reset)


class Unlimited(Limited):
    """Any number of requests of one client."""

    def __init__(self, client: str) -> None:
        super().__init__(client, Limit(0, 1))
