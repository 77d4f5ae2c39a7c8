"""6. A list over all partitions is a projection: the request updates it, and a worker repairs it from the events."""

from node.store import keys
from tests.support.node_under_test import NodeUnderTest, until

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}


async def listed(node: NodeUnderTest) -> list[str]:
    return [thread["id"] for thread in (await node.client.get("/api/v1/board")).json()["threads"]]


async def test_a_client_finds_its_own_write_in_the_list_at_once(node: NodeUnderTest) -> None:
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    assert await listed(node) == [thread["id"]]


async def test_a_list_that_missed_a_write_is_repaired_from_its_event(node: NodeUnderTest) -> None:
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    await node.store.command("DEL", keys.OPEN_THREADS)  # as if the process had died before it updated the list
    assert await listed(node) == []

    async def is_listed() -> bool:
        return await listed(node) == [thread["id"]]

    async with node.worker():
        await until(is_listed)
