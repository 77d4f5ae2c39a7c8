"""A request that says "once": the scope of its key, and a digest of what it asked for (DESIGN 6)."""

import msgspec

from node.store import keys


class Once(msgspec.Struct, frozen=True):
    """An Idempotency-Key, bound to who used it and for what."""

    scope: str
    """Names the record; hides client and key."""
    digest: str
    """Of the request body: the same key with another body is a conflict."""

    @property
    def partition(self) -> int:
        """Where the record and what the request creates live together."""
        return keys.partition_of(self.scope)


def once(operation: str, who: str, key: str | None, body: bytes) -> Once | None:
    """None if the request carries no key."""
    if key is None:
        return None
    return Once(keys.digest(operation, who, key), keys.digest(body))
