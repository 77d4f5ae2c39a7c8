"""Signatures and the partitions where they are recorded (`node.store.replay`)."""

from node.store import Store, ids, keys
from node.store.replay import bind_to


async def test_a_signature_is_good_in_one_partition_only(store: Store) -> None:
    home = ids.partition_of("signature")
    bound = [await bind_to(store, "signature", (home + step) % ids.PARTITIONS) for step in (1, 1, 2)]
    assert bound == [True, True, False]


async def test_in_the_partition_of_a_signature_the_script_records_it(store: Store) -> None:
    home = ids.partition_of("signature")
    assert await bind_to(store, "signature", home)
    assert await store.command("EXISTS", keys.replay(home, "signature")) == 0
