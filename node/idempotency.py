"""A request that says "once": the scope of its key, a digest of what it asked for, and where that goes (DESIGN 6)."""

import msgspec

from node.store import Store, keys
from node.store.replay import bind


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


async def home_of(store: Store, given: Once | None, replay_id: str) -> tuple[int | None, str] | None:
    """Where a request creates something, and the signature that its script has still to remember.

    None if the signature was used for something else. Raises StoreUnavailable.
    """
    if given is None:
        return keys.partition_of(replay_id) if replay_id else None, replay_id
    if replay_id and not await bind(store, replay_id, given.scope):
        return None
    return given.partition, ""
