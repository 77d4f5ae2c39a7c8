"""2. Every entity lives in one of 64 partitions, which its id names: any process finds an entity by its id."""

from node.store import ids, keys
from tests.support.node_under_test import NodeUnderTest


def test_an_id_carries_its_partition_in_its_last_byte() -> None:
    assert [ids.partition_of_id(ids.new_id(partition)) for partition in range(64)] == list(range(64))


def test_the_keys_of_one_entity_share_a_hash_tag_and_so_a_slot_of_a_cluster() -> None:
    thread = ids.new_id(0x2A)
    assert "{2a}" in keys.thread(thread)
    assert "{2a}" in keys.replies(thread)
    assert "{2a}" in keys.events(0x2A)


async def test_a_client_is_counted_in_the_partition_where_its_messages_are_kept(node: NodeUnderTest) -> None:
    message = (await node.client.post("/api/v1/relay", json={"message": "Hello, is anybody there?"})).json()
    assert ids.partition_of_id(message["reference_id"]) == ids.home_of("203.0.113.7")
