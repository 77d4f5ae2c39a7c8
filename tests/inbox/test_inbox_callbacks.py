"""The callback of an inbox is signed, and has id and number of a message, never its text."""

import asyncio

import pytest

from node.store import ids, keys
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import PUBLIC, hurry, no_second_message, tells_of, under_way
from tests.inbox.calls import INBOXES, bearer, opened, path_of, read, sent
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import free_port

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


async def test_messages_that_follow_at_once_are_told_by_one(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_second_message(monkeypatch)
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node, callback_url=receiver.url)
        callback = keys.callback(ids.partition_of(inbox["address"]), inbox["address"])

        async def first_is_told() -> bool:
            return receiver.requests == 1 and await under_way(node) == 0

        await sent(node, inbox)
        await until(first_is_told)
        for _ in range(3):
            await sent(node, inbox)
        await until(lambda: tells_of(node, callback, 4))
        assert receiver.requests == 1
        await hurry(node)
        await receiver.until(2)
        assert [told["data"]["seq"] for _, told in receiver.messages] == [1, 4]


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


async def test_a_receiver_that_is_gone_does_not_take_the_one_with_it_that_has_followed(node: NodeUnderTest) -> None:
    """The owner gives another URL while the old receiver is called, which then answers 410."""
    async with Receiver(PUBLIC) as following, node.worker():

        async def move_and_refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await node.client.post(INBOXES, json={"callback_url": following.url}, headers=bearer(inbox["inbox_token"]))
            writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(move_and_refuse, "127.0.0.1", port := free_port()):
            inbox = await opened(node, callback_url=f"http://127.0.0.1:{port}/hook")
            await sent(node, inbox)

            async def gone() -> bool:
                path = path_of(inbox, "/callbacks")
                seen = (await node.client.get(path, headers=bearer(inbox["inbox_token"]))).json()["callbacks"]
                return [each["status"] for each in seen] == ["dropped"]

            await until(gone)
            await sent(node, inbox)
            await following.until(1)
