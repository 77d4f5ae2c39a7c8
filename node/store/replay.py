"""Each request signature is good for one write (DESIGN 8, Signatures), so Redis remembers those already used.

A signed write without an Idempotency-Key records the signature in its own script. One with a key cannot: it writes to
the key's partition, and the same signature sent with another key would be looked up in that other key's partition. So
the signature is bound to its key first, in the signature's own partition. A repeated request with the same signature
and key passes, and is answered with what was created. Where a write goes to the client's partition, the signature is
bound to that, for the same reason.
"""

import msgspec

from node.sign.request import REPLAY_SECONDS
from node.store import Store, ids, keys
from node.store.keys import Key

REPLAY_MS = REPLAY_SECONDS * 1000
"""How long a used signature is remembered: as long as it would be accepted."""


async def bind(store: Store, replay_id: str, scope: str) -> bool:
    """Bind a signature to the scope of an Idempotency-Key. Returns False if it was used for anything else before.

    Raises StoreUnavailable.
    """
    key = keys.replay(ids.partition_of(replay_id), replay_id)
    bound = await store.command("SET", key, scope, "NX", "GET", "PX", REPLAY_MS)
    return bound is None or bound == scope.encode()


async def bind_to(store: Store, replay_id: str, partition: int) -> bool:
    """Bind a signature to the partition whose scripts record it (`FirstUse`). Returns False if it was used elsewhere
    before.

    Raises StoreUnavailable.
    """
    return ids.partition_of(replay_id) == partition or await bind(store, replay_id, f"partition {partition}")


class FirstUse(msgspec.Struct, frozen=True, gc=False):
    """Arguments of a step whose request may be signed."""

    replay: Key
    replay_ttl: int
    """0 if there is no signature to record."""

    @classmethod
    def of(cls, replay_id: str, partition: int, other: Key) -> "FirstUse":
        """The arguments for a signature. Without one nothing is recorded; `other`, any key in the slot, is passed."""
        return cls(keys.replay(partition, replay_id), REPLAY_MS) if replay_id else cls(other, 0)
