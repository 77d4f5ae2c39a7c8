"""Replies hidden by the operator: nobody is shown them, and no reader waits behind them."""

import asyncio

from node.board.moderation_store import ModerationStore
from node.store import keys
from tests.board.calls import BOARD, posted
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN


async def test_a_reader_does_not_wait_for_a_reply_that_is_there_behind_hidden_ones(node: NodeUnderTest) -> None:
    thread = await posted(node)
    address = f"{BOARD}/threads/{thread['id']}"
    for number in range(1, 4):
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": f"I can help, says agent {number}."})
    await node.store.command("HSET", keys.thread(thread["id"]), "hidden_replies", ",1,2,")

    async def seen() -> list[int]:
        """Read with `wait`, each time from the number that the last answer gave, until there is a reply."""
        since, replies = 0, []
        while not replies:
            query = {"since_seq": since, "limit": 1, "wait": 30}
            read = (await node.client.get(address, params=query, timeout=40)).json()
            since, replies = read["next_since_seq"], [reply["seq"] for reply in read["replies"]]
        return replies

    assert await asyncio.wait_for(seen(), WOKEN) == [3]


async def test_a_retry_does_not_show_a_hidden_reply_or_another_one(node: NodeUnderTest) -> None:
    thread, moderation = await posted(node), ModerationStore(node.store)
    path, key = f"{BOARD}/{thread['id']}/replies", {"idempotency-key": "answer-1"}

    async def retried() -> tuple[int, str | None]:
        response = await node.client.post(path, json={"body": "I can help."}, headers=key)
        return response.status_code, response.headers.get("x-error-code")

    assert await retried() == await retried() == (201, None)
    for action in ("hide", "purge"):
        await moderation.change(thread["id"], 1, action)
        assert await retried() == (404, "thread.unknown"), action
    await node.client.post(path, json={"body": "So can I."})
    assert await retried() == (404, "thread.unknown")


async def test_a_reader_waits_behind_hidden_replies_for_the_next_one(node: NodeUnderTest) -> None:
    thread = await posted(node)
    replies = f"{BOARD}/{thread['id']}/replies"
    await node.client.post(replies, json={"body": "I can help, says the first agent."})
    await node.store.command("HSET", keys.thread(thread["id"]), "hidden_replies", ",1,")
    read = asyncio.create_task(node.client.get(f"{BOARD}/threads/{thread['id']}?wait=30", timeout=40))
    await node.listened_to(keys.thread(thread["id"]))
    await node.client.post(replies, json={"body": "I can help, says the second agent."})
    assert [reply["seq"] for reply in (await read).json()["replies"]] == [2]


async def test_a_reader_who_waits_is_woken_when_a_hidden_reply_is_shown_again(node: NodeUnderTest) -> None:
    thread, moderation = await posted(node), ModerationStore(node.store)
    await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help, says the first agent."})
    await moderation.change(thread["id"], 1, "hide")
    read = asyncio.create_task(node.client.get(f"{BOARD}/threads/{thread['id']}?wait=30", timeout=40))
    await node.listened_to(keys.thread(thread["id"]))
    await moderation.change(thread["id"], 1, "show")
    assert [reply["seq"] for reply in (await asyncio.wait_for(read, WOKEN)).json()["replies"]] == [1]


async def test_what_is_shown_again_is_as_it_was_and_all_else_stays_hidden(node: NodeUnderTest) -> None:
    thread, moderation = await posted(node), ModerationStore(node.store)
    replies = f"{BOARD}/{thread['id']}/replies"
    for number in (1, 2, 3):
        await node.client.post(replies, json={"body": f"I can help, says agent {number}."})
    for seq in (1, 2, 3, 0):
        await moderation.change(thread["id"], seq, "hide")
    assert (await node.client.post(replies, json={"body": "So can I."})).status_code == 404
    for seq in (0, 2):
        await moderation.change(thread["id"], seq, "show")
    shown = (await node.client.get(f"{BOARD}/threads/{thread['id']}")).json()
    assert (shown["status"], [reply["seq"] for reply in shown["replies"]]) == ("open", [2])


async def test_a_reader_who_waits_is_woken_when_the_thread_is_hidden(node: NodeUnderTest) -> None:
    thread, moderation = await posted(node), ModerationStore(node.store)
    read = asyncio.create_task(node.client.get(f"{BOARD}/threads/{thread['id']}?wait=30", timeout=40))
    await node.listened_to(keys.thread(thread["id"]))
    await moderation.change(thread["id"], 0, "hide")
    assert (await asyncio.wait_for(read, WOKEN)).status_code == 404
