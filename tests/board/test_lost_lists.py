"""The lists of threads, rebuilt from the threads after Redis has lost them."""

from node.board.store import BoardStore
from node.store import keys
from tests.board.calls import BOARD, posted
from tests.support.node_under_test import NodeUnderTest, until


async def test_the_worker_puts_a_thread_back_on_a_list_that_lost_it(node: NodeUnderTest) -> None:
    thread = await posted(node)
    await node.store.command("DEL", keys.OPEN_THREADS)

    async def listed() -> bool:
        threads = (await node.client.get(BOARD)).json()["threads"]
        return [found["id"] for found in threads] == [thread["id"]]

    async with node.worker():
        await until(listed)


async def test_threads_that_are_put_back_stand_where_they_stood(node: NodeUnderTest) -> None:
    answered, waiting = [(await posted(node))["id"] for _ in range(2)]
    await node.a_millisecond_later()  # threads with equal times are listed by their ids
    await node.client.post(f"{BOARD}/{answered}/replies", json={"body": "I can help."})
    await node.a_millisecond_later()
    newest = (await posted(node))["id"]
    await node.store.command("DEL", keys.OPEN_THREADS)
    await BoardStore(node.store, 60).project([answered, waiting, newest])
    threads = (await node.client.get(BOARD)).json()["threads"]
    assert [found["id"] for found in threads] == [newest, answered, waiting]
