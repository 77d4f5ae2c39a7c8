"""The topic of a thread that is reopened, or whose replies are hidden or removed: no event is left out or sent
early.
"""

from typing import Any

import pytest

from node.board.store import BoardStore
from node.store import keys
from tests.events.test_events_api import ENGLISH, page, post
from tests.support.node_under_test import NodeUnderTest

REPLIES = range(1, 6)


async def thread_with_replies(node: NodeUnderTest) -> str:
    """Return the id of a thread that was closed after its replies."""
    thread = await post(node, "/api/v1/board", ENGLISH)
    for number in REPLIES:
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": f"I can do it, says agent {number}."})
    await BoardStore(node.store, idempotency_ttl=60).close(thread["id"])
    return thread["id"]


async def told(node: NodeUnderTest, thread_id: str, limit: int) -> list[object]:
    """Read all pages. Returns the numbers of replies and the types of other events."""
    events: list[dict[str, Any]] = []
    cursor, more = "earliest", True
    while more:
        got = await page(node, f"thread:{thread_id}", cursor=cursor, limit=limit)
        events += got["events"]
        cursor, more = got["cursor"], got["has_more"]
    assert (await page(node, f"thread:{thread_id}", cursor=cursor))["events"] == []
    return [event["data"].get("seq", event["type"]) for event in events]


@pytest.mark.parametrize("is_removed", [False, True])
async def test_pages_of_any_size_tell_what_is_shown_and_then_that_it_was_closed(
    node: NodeUnderTest, *, is_removed: bool
) -> None:
    thread_id = await thread_with_replies(node)
    hidden: set[int] = set()
    for numbers in ((), (3,), (1,), (2,), (5,), (4,)):
        hidden.update(numbers)
        shown = ["thread.posted", *(number for number in REPLIES if number not in hidden), "thread.closed"]
        named = "".join(f"{number}," for number in sorted(hidden))
        await node.store.command("HSET", keys.thread(thread_id), "hidden_replies", f",{named}")
        for number in numbers if is_removed else ():
            await node.store.command("XDEL", keys.replies(thread_id), f"0-{number}")
        for limit in range(1, len(REPLIES) + 3):
            assert await told(node, thread_id, limit) == shown, (hidden, limit)


async def test_who_was_told_that_a_thread_was_closed_gets_all_that_follows_once_it_is_open_again(
    node: NodeUnderTest,
) -> None:
    thread_id = await thread_with_replies(node)
    topic = f"thread:{thread_id}"
    closed = (await page(node, topic, cursor="earliest"))["cursor"]
    await BoardStore(node.store, idempotency_ttl=60).close(thread_id, "open")
    reply = {"body": "I can do it, says the last agent."}
    await post(node, f"/api/v1/board/{thread_id}/replies", reply)
    refused = await node.client.get("/api/v1/events", params={"topic": topic, "cursor": closed})
    assert refused.status_code == 410
    got = await page(node, topic, cursor=refused.headers["oldest-cursor"])
    assert [event["data"].get("seq") for event in got["events"]] == [len(REPLIES) + 1]
