"""A limit for calls that no web request makes."""

from node.config import Limit
from node.store.limits import Taken


class Unlimited:
    """Any number of requests of one client."""

    limit = Limit(0, 1)

    def __init__(self, client: str) -> None:
        self.client = client

    def settle(self, taken: Taken) -> None:
        """Nothing to say."""
