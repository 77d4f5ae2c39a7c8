"""Each request signature is good for one write (DESIGN 8, Signatures), so Redis remembers those already used.

A signed write without an Idempotency-Key records the signature in its own script. One with a key cannot: it writes to
the key's partition, and the same signature sent with another key would be looked up in that other key's partition. So
the signature is bound to its key first, in the signature's own partition. A repeated request with the same signature
and key passes, and is answered with what was created. Where a write goes to the client's partition, the signature is
bound to that, for the same reason.
"""

import msgspec

from node.common.refusal import Refused
from node.sign.request import REPLAY_SECONDS
from node.store import Store, ids, keys
from node.store.idempotency import IdempotencyKey
from node.store.keys import Key

REPLAY_MS = REPLAY_SECONDS * 1000
"""How long a used signature is remembered: as long as it would be accepted."""


class FirstUse(msgspec.Struct, frozen=True, gc=False):
    """Arguments of a step whose request may be signed."""

    replay: Key
    replay_ttl: int
    """0 if there is no signature to record."""

    @classmethod
    def of(cls, replay_id: str, partition: int, other: Key) -> "FirstUse":
        """The arguments for a signature. Without one nothing is recorded; `other`, any key in the slot, is passed."""
        return cls(keys.replay(partition, replay_id), REPLAY_MS) if replay_id else cls(other, 0)


async def unrecorded(store: Store, given: IdempotencyKey | None, replay_id: str, partition: int) -> str:
    """The signature that a script in this partition has to record; empty if there is none, or if it is bound to the
    Idempotency-Key.

    Raises Refused `signature.replayed` if it was used for anything else before, StoreUnavailable.
    """
    if not replay_id:
        return ""
    home = ids.partition_of(replay_id)
    if given is None and partition == home:
        return replay_id
    use = given.scope if given else f"partition {partition}"
    bound = await store.command("SET", keys.replay(home, replay_id), use, "NX", "GET", "PX", REPLAY_MS)
    if bound not in (None, use.encode()):
        raise Refused("signature.replayed")
    return "" if given else replay_id


async def partition_for_new(store: Store, given: IdempotencyKey | None, replay_id: str) -> tuple[int | None, str]:
    """The partition in which a request creates something (None: any), and the signature that its script has to record.

    Raises as `unrecorded`.
    """
    if given is None:
        return ids.partition_of(replay_id) if replay_id else store.serving_partition(), replay_id
    return given.partition, await unrecorded(store, given, replay_id, given.partition)
