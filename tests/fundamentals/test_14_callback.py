"""14. A callback says that something happened, not what. The node signs it, and a worker sends it at least once."""

import pytest

from node.sign.node_key import NodeKey
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest

THREAD = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}


# the receiver is on this machine
pytestmark = pytest.mark.settings(callback_allow_private=True)


async def test_a_reply_pings_the_callback_of_its_thread(node: NodeUnderTest) -> None:
    async with Receiver(NodeKey.parse(SIGNING_KEY).public.raw) as receiver, node.worker():
        thread = (await node.client.post("/api/v1/board", json=THREAD | {"callback_url": receiver.url})).json()
        await node.client.post(f"/api/v1/board/{thread['id']}/replies", json={"body": "I can help"})
        await receiver.until(1)

    assert receiver.forged == 0  # the receiver has verified each signature
    [(_, message)] = receiver.messages
    assert (message["type"], message["data"]["thread_id"], message["data"]["seq"]) == ("board.reply", thread["id"], 1)
    assert "I can help" not in str(message)
