"""Idempotency-Keys: the name and the partition of the record of what a request created (DESIGN 6).

The script that does the write also reads and writes the record (`lua/lib/once.lua`, `lua/lib/remember.lua`).
"""

import msgspec

from node.common.refusal import Refused
from node.store import ids, keys
from node.store.keys import Key

SECRET_KEY_LENGTH = 16
"""Least length, in characters, from which a key counts as a secret: this many random characters hold 60 bits or more.
Public parts of the key, such as the id of the claimed contract, are not counted."""

MIN_KNOWN_LENGTH = 8
"""Least length, in characters, of a public part that is not counted; a shorter one may be in a secret by chance."""

RETRY_SECONDS = 60
"""Time within which a repeated request gets its token again if the key is not a secret. It is long enough to retry
after a lost answer, and limits what others gain who guess the key or use the same one by chance."""


class IdempotencyKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, bound to its sender (see `bound_key`) and to the operation."""

    scope: str
    """The name of the record: a digest that reveals neither the client nor the key."""
    digest: str
    """A digest of the request's body. The same key with another body is a conflict."""
    is_secret: bool = True
    """Whether the key is so long that nobody else can guess it."""
    home: int | None = None
    """The partition where the request writes, such as that of the thread it adds to, or of its client. None if the
    request may write anywhere; then the key determines the partition."""

    @property
    def partition(self) -> int:
        """The partition of the record, and of what the request creates."""
        return ids.partition_of(self.scope) if self.home is None else self.home

    def check_token(self, first: int, now: int) -> None:
        """Raise Refused `idempotency.short` if a token issued at `first` must not be returned again at `now` (both
        ms)."""
        if not self.is_secret and now - first > RETRY_SECONDS * 1000:
            raise Refused("idempotency.short", seconds=RETRY_SECONDS, least=SECRET_KEY_LENGTH)


class Once(msgspec.Struct, frozen=True, gc=False):
    """The arguments about the Idempotency-Key, for a step that creates something only once for each key."""

    idem: Key
    digest: str
    """A digest of the body; empty for a request without a key."""
    idem_ttl: int

    @classmethod
    def of(cls, given: IdempotencyKey | None, partition: int, other: Key, ttl_ms: int) -> "Once":
        """Return the arguments for a key. If `given` is None, nothing is recorded, and `other`, any Redis key in the
        same slot, fills the place of the record."""
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
    """Return the Idempotency-Key bound to its client and operation; None if the request has no key.

    If a `name` from the body (`publisher_id`) is given, a secret key is bound to that name instead of the client's
    address; a key that is not secret is bound to both. `home`: the partition where the request writes, if not
    determined by the key. `entity`: the public id of the entity that the request is about.
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
