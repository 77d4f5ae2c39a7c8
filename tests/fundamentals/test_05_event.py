"""5. Slow work starts from an event: a step adds it to its partition's outbox, and a worker handles it later."""

from node.store import ids, keys
from node.store.search_keys import BOARD_KEYS
from tests.support.node_under_test import NodeUnderTest, until

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}


async def waiting(node: NodeUnderTest, partition: int) -> int:
    """Return the number of events in an outbox."""
    return int(await node.store.command("XLEN", keys.events(partition)))  # type: ignore[arg-type]


async def test_an_event_waits_in_the_outbox_until_a_worker_has_handled_it(node: NodeUnderTest) -> None:
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    partition = ids.partition_of_id(thread["id"])
    assert await waiting(node, partition) == 1

    async def is_indexed() -> bool:
        return bool(await node.store.command("EXISTS", BOARD_KEYS.doc(thread["id"])))

    async with node.worker():
        await until(is_indexed)
