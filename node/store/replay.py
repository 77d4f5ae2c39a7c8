"""Each request signature is good for one write (DESIGN 8, Signatures), so Redis remembers those already used.

A signed write without an Idempotency-Key records the signature in its own script. One with a key cannot: what it
creates is in the key's partition, but the same signature sent with another key would be looked up in that other key's
partition. So the signature is bound to its key first, in a partition of its own. A request that is repeated with the
same signature and the same key passes: the key then answers with what was created.
"""

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


def replay_key(replay_id: str, partition: int, other: Key) -> Key:
    """Where a script records a signature; `other`, any key of the slot, if there is none to record."""
    return keys.replay(partition, replay_id) if replay_id else other


def replay_ttl(replay_id: str) -> int:
    """For how long (ms) a script records a signature; 0 if there is none to record."""
    return REPLAY_MS if replay_id else 0
