"""Some events are gone: a reader that continues from before them gets what comes next, together with later
followers.
"""

import pytest

from node.board.moderation_store import ModerationStore
from node.events.model import EventQuery
from node.events.service import Topic
from node.inbox.model import InboxProof
from tests.events.test_events_api import ENGLISH, post
from tests.inbox.calls import INBOXES
from tests.support.node_under_test import PATIENCE, NodeUnderTest

REPLY = {"body": "I can do it, says the agent."}


async def assert_joins_the_others(topic: Topic, cursor: str) -> None:
    """Check that a reader who continues from the cursor reaches the position of those who follow from now on.

    Otherwise the reader could not join them, and would read again and again: 20,000 times a second, for as long as it
    waits, or for a quarter of an hour.
    """
    others = topic.join((await topic.begin("now", 10)).position)
    assert others
    read = await topic.begin(cursor, 10)
    assert (read.events, read.has_more) == ([], False)
    follower = topic.join(read.position)
    assert follower
    assert follower.position == others.position


@pytest.mark.parametrize("is_partly_read", [False, True])
async def test_messages_that_are_settled(node: NodeUnderTest, *, is_partly_read: bool) -> None:
    inbox = await post(node, INBOXES, {})
    path, proof = f"{INBOXES}/{inbox['address']}", InboxProof(token=inbox["inbox_token"])
    events = node.services().events
    topic = events.topic(EventQuery(f"inbox:{inbox['address']}"), proof)
    for number in range(3):
        await post(node, f"{path}/messages", {"body": f"Message {number}"})
    cursor = topic.cursor((await topic.begin("earliest", 1)).position) if is_partly_read else "earliest"
    owner = {"Authorization": f"Bearer {inbox['inbox_token']}"}
    settled = await node.client.post(f"{path}/settle", json={"through_seq": 3}, headers=owner)
    assert settled.json()["settled"] == 3
    await assert_joins_the_others(topic, cursor)
    followers = topic.join((await topic.begin(cursor, 1)).position)
    assert followers
    await post(node, f"{path}/messages", {"body": "Message 3"})
    [frame] = await followers.next(PATIENCE)
    assert b"Message 3" in frame.json


@pytest.mark.parametrize("types", ["", "reply.added"])
async def test_replies_that_are_removed(node: NodeUnderTest, types: str) -> None:
    thread_id = (await post(node, "/api/v1/board", ENGLISH))["id"]
    for _ in range(3):
        await post(node, f"/api/v1/board/{thread_id}/replies", REPLY)
    topic = node.services().events.topic(EventQuery(f"thread:{thread_id}", types=types), InboxProof())
    cursor = topic.cursor((await topic.begin("earliest", 2)).position)
    for seq in (2, 3):
        await ModerationStore(node.store).change(thread_id, seq, "purge")
    await assert_joins_the_others(topic, cursor)
