"""Used signatures, and the partitions in which they are recorded (`node.store.replay`)."""

import pytest

from node.common.refusal import Refused
from node.store import Store, ids, keys
from node.store.replay import unrecorded


async def test_a_signature_is_good_in_one_partition_only(store: Store) -> None:
    home = ids.partition_of("signature")
    first, other = ((home + step) % ids.PARTITIONS for step in (1, 2))
    assert [await unrecorded(store, None, "signature", first) for _ in range(2)] == ["signature"] * 2
    with pytest.raises(Refused, match=r"signature\.replayed"):
        await unrecorded(store, None, "signature", other)


async def test_in_the_partition_of_a_signature_the_script_records_it(store: Store) -> None:
    home = ids.partition_of("signature")
    assert await unrecorded(store, None, "signature", home) == "signature"
    assert await store.command("EXISTS", keys.replay(home, "signature")) == 0
