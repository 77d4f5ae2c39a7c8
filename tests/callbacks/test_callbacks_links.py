"""The link in a callback about replies leads to all replies that it reports, however many."""

from typing import cast

import pytest

from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.sign.node_key import NodeKey
from node.store import ids, keys
from node.tasks.compaction import unpack
from tests.board.calls import BOARD, posted
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
HOME = 5


pytestmark = pytest.mark.settings(callback_allow_private=True, embedding_model="none")


@pytest.fixture(autouse=True)
def pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pause between two messages of a thread. It is still longer than it takes to post some replies."""
    for module in ("service", "sources"):
        monkeypatch.setattr(f"node.callbacks.{module}.ENTITY_PAUSE_MS", 1000)
    monkeypatch.setattr("node.callbacks.sources.EntitySource.pause_ms", 1000)


class Reader:
    """A receiver's owner, who follows the links and reads no further than each message reports. Newer replies may be
    there already, but have a message of their own.
    """

    def __init__(self, node: NodeUnderTest, receiver: Receiver) -> None:
        self._node = node
        self._receiver = receiver
        self._followed = 0
        self.read: list[int] = []
        """Numbers of the replies, in the order in which they were found."""

    async def has_read(self, count: int) -> bool:
        """Follow the links of the new messages. Returns whether this many replies have been found in all."""
        new = self._receiver.messages[self._followed :]
        self._followed += len(new)
        for _, message in new:
            path = message["data"]["api_url"].removeprefix("http://node.example")
            found = (await self._node.client.get(path)).json()["replies"]
            self.read += [reply["seq"] for reply in found if reply["seq"] <= message["data"]["seq"]]
        return len(set(self.read)) >= count


async def reply(node: NodeUnderTest, thread: str) -> None:
    answer = await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "I can help with that."})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("bursts", [(1, 3), (2,), (2, 1, 4)], ids=str)
async def test_whoever_follows_the_links_reads_every_reply(node: NodeUnderTest, bursts: tuple[int, ...]) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        thread = (await posted(node, callback_url=receiver.url))["id"]
        reader, written = Reader(node, receiver), 0
        for burst in bursts:
            for _ in range(burst):
                await reply(node, thread)
            written += burst
            expected = written
            await until(lambda: reader.has_read(expected))  # noqa: B023 - called in this turn only
        assert reader.read == list(range(1, written + 1))


async def test_what_comes_while_the_receiver_fails_is_read_as_well(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda n: 503 if n < 1 else 204) as receiver, node.worker():
        thread = (await posted(node, callback_url=receiver.url))["id"]
        await reply(node, thread)
        await receiver.until(1)
        for _ in range(2):
            await reply(node, thread)
        reader = Reader(node, receiver)

        async def read() -> bool:
            for partition in range(ids.PARTITIONS):
                due = keys.callbacks_due(partition)
                for name in cast("list[bytes]", await node.store.command("ZRANGE", due, 0, -1)):
                    await node.store.command("ZADD", due, "XX", 0, name)
            return await reader.has_read(3)

        await until(read)


class TestSteps:
    """Which reply numbers the queue keeps, step by step."""

    @pytest.fixture
    def queue(self, node: NodeUnderTest) -> CallbackQueue:
        return CallbackQueue(node.store, unpack)

    async def enqueue(self, queue: CallbackQueue, seq: int) -> None:
        data = {"thread_id": "t", "seq": seq, "api_url": "http://node.example/t"}
        await queue.enqueue(HOME, [CallbackMessage("t", f"msg_{seq}", "http://a/", "board.reply", seq, data, seq - 1)])

    async def taken(self, node: NodeUnderTest, queue: CallbackQueue) -> Callback:
        await node.store.command("ZADD", keys.callbacks_due(HOME), "XX", 0, "t")
        (callback,) = await queue.take([HOME])
        return callback

    async def test_a_merged_message_goes_on_from_the_oldest_reply_that_was_not_told(
        self, node: NodeUnderTest, queue: CallbackQueue
    ) -> None:
        for seq in (3, 4, 5):
            await self.enqueue(queue, seq)
        first = await self.taken(node, queue)
        assert (first.id, first.after) == ("msg_5", 2)
        for seq in (6, 7):
            await self.enqueue(queue, seq)
        await queue.settle(first, "delivered", 0)
        second = await self.taken(node, queue)
        assert (second.id, second.after) == ("msg_7", 5)
        await queue.settle(second, "delivered", 0)
        await self.enqueue(queue, 8)
        assert (await self.taken(node, queue)).after == 7

    async def test_an_attempt_that_failed_has_told_nothing(self, node: NodeUnderTest, queue: CallbackQueue) -> None:
        await self.enqueue(queue, 3)
        await queue.settle(await self.taken(node, queue), "retry", 0, "answered 500")
        await self.enqueue(queue, 4)
        assert (await self.taken(node, queue)).after == 2

    async def test_a_dead_letter_is_sent_again_with_all_that_it_told_of(
        self, node: NodeUnderTest, queue: CallbackQueue
    ) -> None:
        for seq in (3, 4):
            await self.enqueue(queue, seq)
        await queue.settle(await self.taken(node, queue), "dead", 0, "answered 500")
        (letter,) = await queue.dead()
        await queue.redrive(letter)
        again = await self.taken(node, queue)
        assert (again.id, again.after) == ("msg_4", 2)
