"""Replay protection: a request signature is good for one write (DESIGN 8, Signatures), so Redis records used ones.

The script of a signed write without an Idempotency-Key records the signature itself. With a key it cannot: the script
runs in the key's partition, and the same signature sent with another key would be looked up in another partition. So
the signature is first bound to its key, in the signature's own partition. A repeated request with the same signature
and key passes and gets the original response again. If a write goes to the client's partition, the signature is bound
to that partition, for the same reason.
"""

import msgspec

from node.common.refusal import Refused
from node.sign.request import REPLAY_SECONDS
from node.store import Store, ids, keys
from node.store.idempotency import IdempotencyKey
from node.store.keys import Key

REPLAY_MS = REPLAY_SECONDS * 1000
"""TTL of a used signature: at least as long as the signature would be accepted."""


class FirstUse(msgspec.Struct, frozen=True, gc=False):
    """The arguments about the signature, for a step whose request may be signed."""

    replay: Key
    replay_ttl: int
    """Milliseconds; 0 if there is no signature to record."""

    @classmethod
    def of(cls, replay_id: str, partition: int, other: Key) -> "FirstUse":
        """Return the arguments for a signature. If `replay_id` is empty, nothing is recorded, and `other`, any key in
        the same slot, fills the place of the key."""
        return cls(keys.replay(partition, replay_id), REPLAY_MS) if replay_id else cls(other, 0)


async def unrecorded(store: Store, given: IdempotencyKey | None, replay_id: str, partition: int) -> str:
    """Return the signature that a script in this partition must record; empty if there is none, or if this call has
    bound it to the Idempotency-Key.

    Raises Refused `signature.replayed` if the signature was used for anything else before, StoreUnavailable.
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
    """Return the partition in which a request creates its entity (None: any), and the signature that its script must
    record.

    Raises the same as `unrecorded`.
    """
    if given is None:
        return ids.partition_of(replay_id) if replay_id else store.serving_partition(), replay_id
    return given.partition, await unrecorded(store, given, replay_id, given.partition)
