"""Limits for calls that no web request makes."""

from node.common.refusal import Refused
from node.config import Limit
from node.store.limits import LimitState


class Limited:
    """Limits one client to a number of requests, and to `most` things that it may hold; 0 is no limit."""

    def __init__(self, client: str, limit: Limit, most: int = 0) -> None:
        self.client = client
        self.limit = limit
        self.most = most

    def settle(self, taken: LimitState) -> None:
        """Raise Refused `limit.exceeded`."""
        if not taken.allowed and self.limit.count:
            raise Refused("limit.exceeded", retry_after=taken.reset)


class Unlimited(Limited):
    """Does not limit the requests of one client."""

    def __init__(self, client: str) -> None:
        super().__init__(client, Limit(0, 1))
