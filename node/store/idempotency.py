"""Idempotency-Keys: under which name a script records what a request created, and in which partition (DESIGN 6).

The record is kept by the script that does the write (`lua/lib/once.lua`, `lua/lib/remember.lua`).
"""

import msgspec

from node.common.refusal import Refused
from node.store import ids, keys
from node.store.keys import Key

SECRET_KEY_LENGTH = 16
"""A key of at least this length is taken for a secret: that many random characters hold 60 bits or more. Public parts
of it, such as the id of the contract that is claimed, do not count."""

MIN_KNOWN_LENGTH = 8
"""Shortest public part that does not count: a shorter one may be in a secret by chance."""

RETRY_SECONDS = 60
"""Time within which a client repeats a request whose answer it did not get. A key that is not a secret may be guessed
by somebody else, or used by chance, so the answer to it carries a token only that long."""


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, bound to the client that sent it and to the operation."""

    scope: str
    """The name of the record: a digest, from which neither client nor key can be read."""
    digest: str
    """A digest of the body of the request. The same key with another body is a conflict."""
    is_secret: bool = True
    """Whether the key is long enough that only its maker can know it."""
    home: int | None = None
    """The partition where the request writes: that of the thread it adds to, for example, or of its client. None if it
    may write anywhere: then the key decides."""

    @property
    def partition(self) -> int:
        """The partition of the record, and of what the request creates."""
        return ids.partition_of(self.scope) if self.home is None else self.home

    def check_token(self, first: int, now: int) -> None:
        """Raise Refused `idempotency.short` if a token given out at `first` is not to be given again `now` (ms)."""
        if not self.is_secret and now - first > RETRY_SECONDS * 1000:
            raise Refused("idempotency.short", seconds=RETRY_SECONDS, least=SECRET_KEY_LENGTH)


class Once(msgspec.Struct, frozen=True, gc=False):
    """Arguments of a step that creates something once for each Idempotency-Key."""

    idem: Key
    digest: str
    """A digest of the body; empty for a request without a key."""
    idem_ttl: int

    @classmethod
    def of(cls, given: IdempotencyKey | None, partition: int, other: Key, ttl_ms: int) -> "Once":
        """The arguments for a key. Without one nothing is recorded; `other`, any key in the slot, is passed."""
        if given is None:
            return cls(other, "", ttl_ms)
        return cls(keys.idempotency(partition, given.scope), given.digest, ttl_ms)


def bound_key(
    operation: str,
    client: str,
    key: str | None,
    body: bytes,
    name: str | None = None,
    home: int | None = None,
    entity: str = "",
) -> IdempotencyKey | None:
    """The key as it is recorded; None if the request carries no key.

    A key belongs to its client. With a `name` from the body (`publisher_id`), a secret key belongs to that name, from
    whatever address it comes. `home`: the partition where the request writes, if the key does not decide.
    `entity`: the public id of what the request is about.
    """
    if key is None:
        return None
    rest = key
    for known in (entity, name or ""):
        if len(known) >= MIN_KNOWN_LENGTH:
            rest = rest.replace(known, "")
    is_secret = len(rest) >= SECRET_KEY_LENGTH
    who = (client,) if name is None else (name,) if is_secret else (client, name)
    return IdempotencyKey(ids.digest(operation, *who, key), ids.digest(body), is_secret, home)
