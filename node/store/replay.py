"""Signatures that were used: each is good for one write (DESIGN 8, Signatures).

A signed write remembers its signature in its own script. One that also has an Idempotency-Key cannot:
what it creates lives in the partition of the key, and the same signature with another key, which it
need not cover, would be looked for in another partition. So such a write first binds the signature to
the key. To be asked again for the same pair is fine: the key then answers with what it created.
"""

from node.store import Store, ids, keys

REPLAY_MS = 420_000
"""How long a used signature is remembered: longer than one is fresh (300 s and 60 s of skew on each side)."""


async def bind(store: Store, replay_id: str, scope: str) -> bool:
    """Bind a signature to the scope of an Idempotency-Key; False if it was used for something else.

    Raises StoreUnavailable.
    """
    key = keys.replay(ids.partition_of(replay_id), replay_id)
    bound = await store.command("SET", key, scope, "NX", "GET", "PX", REPLAY_MS)
    return bound is None or bound == scope.encode()
