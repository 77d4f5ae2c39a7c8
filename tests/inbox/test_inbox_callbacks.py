"""The callback of an inbox: signed, with id and number, never with the text."""

import pytest

from node.callbacks.queue import Callback, CallbackQueue
from node.callbacks.sources import Entities
from node.store import ids, keys
from node.tasks.compaction import unpack
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import PUBLIC, hurry, under_way
from tests.inbox.calls import INBOXES, bearer, opened, path_of, read, sent
from tests.support.node_under_test import NodeUnderTest, until

pytestmark = pytest.mark.settings(callback_allow_private=True)


async def test_an_owner_is_told_that_a_message_has_come_and_not_what_it_says(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node, callback_url=receiver.url)
        message = await sent(node, inbox, body="A secret matter", subject="Secret", author="planner")
        await receiver.until(1)
        assert receiver.forged == 0
        _, told = receiver.messages[0]
        assert told["type"] == "inbox.message"
        assert told["data"] == {
            "address": inbox["address"],
            "id": message["id"],
            "seq": 1,
            "url": f"http://node.example{path_of(inbox, '/messages')}",
            "callback_host": "127.0.0.1",
        }
        for word in ("secret", "Secret", "planner"):
            assert word not in str(told)


async def test_messages_that_follow_at_once_are_told_by_one(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node, callback_url=receiver.url)
        await sent(node, inbox)
        await receiver.until(1)
        for _ in range(3):
            await sent(node, inbox)

        async def waits() -> bool:
            return await under_way(node) == 1

        await until(waits)

        async def told_of_all() -> bool:
            await hurry(node)
            return receiver.messages[-1][1]["data"]["seq"] == 4

        await until(told_of_all)
        assert len(receiver.messages) <= 4


async def test_an_owner_who_takes_the_callback_back_is_told_no_more(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node, callback_url=receiver.url)
        headers = bearer(inbox["inbox_token"])
        assert (await node.client.post(INBOXES, json={"callback_url": None}, headers=headers)).status_code == 200
        await sent(node, inbox)
        other = await opened(node, callback_url=receiver.url)
        await sent(node, other)
        await receiver.until(1)
        assert [told["data"]["address"] for _, told in receiver.messages] == [other["address"]]
        assert (await read(node, inbox))["waiting"] == 1


async def test_a_receiver_that_wants_no_more_does_not_take_the_next_one_with_it(node: NodeUnderTest) -> None:
    """A callback to the URL before may be under way while the owner names another one."""
    old, new = "https://old.example.com/hook", "https://new.example.com/hook"
    inbox = await opened(node, callback_url=new)
    source = Entities(CallbackQueue(node.store, unpack))
    for url, left in ((old, new.encode()), (new, None)):
        partition, data = ids.partition_of(inbox["address"]), {"address": inbox["address"]}
        await source.forget(
            Callback(
                name="inbox", id="msg", url=url, type="inbox.message", at=0, data=data, partition=partition, attempt=1
            )
        )
        assert await node.store.command("HGET", keys.inbox(inbox["address"]), "callback_url") == left
