"""A request that says "once": the scope of its key, a digest of what it asked for, and where that goes (DESIGN 6)."""

import msgspec

from node.common.refusal import Refused
from node.store import Store, ids
from node.store.replay import bind

UNGUESSABLE = 16
"""Characters of a key from which on it is taken for a secret: as many random ones hold 60 bits or more."""

RETRIED = 60
"""Seconds within which a client repeats a request whose answer it has not got. A shorter key, which somebody else may
have guessed or come upon, gets a token again for as long."""


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, bound to who used it and for what."""

    scope: str
    """Names the record; hides client and key."""
    digest: str
    """Of the request body: the same key with another body is a conflict."""
    is_secret: bool = True
    """Whether the key is long enough that only who made it knows it."""

    @property
    def partition(self) -> int:
        """Where the record and what the request creates live together."""
        return ids.partition_of(self.scope)

    def check_token(self, first: int, now: int) -> None:
        """Raise Refused `idempotency.short` if a token that was given out at `first` is not told again (both ms)."""
        if not self.is_secret and now - first > RETRIED * 1000:
            raise Refused("idempotency.short", seconds=RETRIED, least=UNGUESSABLE)


def bound_key(
    operation: str, client: str, key: str | None, body: bytes, name: str | None = None
) -> IdempotencyKey | None:
    """None if the request carries no key. A secret key counts for `name`, if there is one, wherever its client is."""
    if key is None:
        return None
    is_secret = len(key) >= UNGUESSABLE
    who = (client,) if name is None else (name,) if is_secret else (client, name)
    return IdempotencyKey(ids.digest(operation, *who, key), ids.digest(body), is_secret)


async def home_of(store: Store, given: IdempotencyKey | None, replay_id: str) -> tuple[int | None, str] | None:
    """Where a request creates something, and the signature that its script has still to remember.

    None if the signature was used for something else. Raises StoreUnavailable.
    """
    if given is None:
        return ids.partition_of(replay_id) if replay_id else None, replay_id
    if replay_id and not await bind(store, replay_id, given.scope):
        return None
    return given.partition, ""
