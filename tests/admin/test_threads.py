"""`relay-node admin threads`, on a real node."""

import asyncio

import pytest

from node.board.store import BoardStore
from node.store import ids, keys
from node.store.search_keys import BOARD_KEYS
from tests.admin.conftest import Admin
from tests.board.calls import BOARD, QUESTION, answered
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import WOKEN

UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


async def listed(admin: Admin, status: str) -> list[str]:
    ran = await admin("threads", "list", "--status", status, "--json")
    return [thread["id"] for thread in ran.data["threads"]]


async def is_gone(node: NodeUnderTest, thread: str) -> bool:
    """Return whether no key contains the id, except the counter of a limit, which has a TTL."""
    return all(name.startswith("rate:") for name in await node.names(f"*{thread}*"))


async def is_listened_to(node: NodeUnderTest, channel: str) -> bool:
    return await node.store.command("PUBSUB", "SHARDNUMSUB", channel, key=channel) == [channel.encode(), 1]


async def test_a_closed_thread_is_read_and_takes_no_replies(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    ran = await admin("threads", "close", thread)
    assert ran.status == 0
    assert (await node.client.get(f"{BOARD}/{thread}")).json()["status"] == "closed"
    assert (await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "Too late?"})).status_code == 409
    assert (await listed(admin, "open"), await listed(admin, "closed")) == ([], [thread])


async def test_what_is_done_to_whole_threads_is_not_done_for_a_reply(node: NodeUnderTest, admin: Admin) -> None:
    """`threads close ID:1` must not close the thread that the reply is in."""
    thread = await answered(node)
    ran = await admin("threads", "close", f"{thread}:1", "--json")
    assert (ran.status, ran.data[0]["outcome"]) == (1, "thread.unknown")
    assert (await node.client.get(f"{BOARD}/{thread}")).json()["status"] == "open"


async def test_a_hidden_thread_is_shown_to_the_operator_only(node: NodeUnderTest, admin: Admin) -> None:
    thread, other = await answered(node), await answered(node)
    await admin("threads", "hide", thread)
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
    refused = await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "Anybody there?"})
    assert (refused.status_code, refused.headers["x-error-code"]) == (404, "thread.unknown")
    assert [each["id"] for each in (await node.client.get(BOARD)).json()["threads"]] == [other]
    assert (await listed(admin, "open"), await listed(admin, "hidden")) == ([other], [thread])


async def test_a_hidden_message_of_the_relay_is_shown_under_neither_address(node: NodeUnderTest, admin: Admin) -> None:
    sent = {"message": "Who can summarise a long report?", "details": "All of it was meant to be read by everybody."}
    message = (await node.client.post("/api/v1/relay", json=sent)).json()["reference_id"]
    await admin("threads", "close", message)
    assert (await node.client.get(f"/api/v1/relay/{message}")).json()["payload"] == sent
    await admin("threads", "hide", message)
    response = await node.client.get(f"/api/v1/relay/{message}")
    assert (response.status_code, response.headers["x-error-code"]) == (404, "relay.unknown")
    assert (await node.client.get(f"{BOARD}/{message}")).status_code == 404


async def test_closing_a_hidden_thread_does_not_show_it_again(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    await admin("threads", "hide", thread)
    await admin("threads", "close", thread)
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404


async def test_nothing_is_left_of_a_purged_thread(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    async with node.worker():
        await until(lambda: node.store.command("EXISTS", BOARD_KEYS.doc(thread)))
        ran = await admin("threads", "purge", thread)
        assert ran.status == 0
        assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
        assert (await node.client.get(BOARD)).json()["total"] == 0
        await until(lambda: is_gone(node, thread))
    assert (await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "Anybody there?"})).status_code == 404


async def test_a_purged_thread_has_no_ping_under_way(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    partition = ids.partition_of_id(thread)
    await node.store.command("HSET", keys.callback(partition, thread), "id", "msg_1", "url", "https://agent.example/")
    await node.store.command("ZADD", keys.callbacks_due(partition), 1, thread)
    await admin("threads", "purge", thread)
    assert await node.store.command("EXISTS", keys.callback(partition, thread)) == 0
    assert await node.store.command("ZCARD", keys.callbacks_due(partition)) == 0


@pytest.mark.parametrize("action", ["purge", "hide"])
async def test_a_waiting_reader_is_told_that_a_thread_is_gone(node: NodeUnderTest, admin: Admin, action: str) -> None:
    thread = await answered(node)
    channel = keys.thread(thread)
    read = asyncio.create_task(node.client.get(f"{BOARD}/threads/{thread}?since_seq=1&wait=30"))
    await until(lambda: is_listened_to(node, channel))
    await admin("threads", action, thread)
    assert (await asyncio.wait_for(read, WOKEN)).status_code == 404


async def test_a_dry_run_says_what_would_go_and_changes_nothing(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    before = (await node.client.get(f"{BOARD}/{thread}")).json()
    for command in ("close", "hide", "purge"):
        ran = await admin("threads", command, thread, "--dry-run", "--json")
        (result,) = ran.data
        assert (ran.status, result["outcome"], result["thread"]["reply_count"]) == (0, "dry run", 1)
    assert (await node.client.get(f"{BOARD}/{thread}")).json() == before


async def test_what_can_be_done_is_done_and_the_rest_is_named(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    beyond = f"{thread}:{10**20}"
    ran = await admin("threads", "purge", UNKNOWN, beyond, thread, "nonsense", "--json")
    assert ran.status == 1
    assert [(each["id"], each["outcome"]) for each in ran.data] == [
        (UNKNOWN, "thread.unknown"),
        (beyond, "thread.unknown"),
        (thread, "purged"),
        ("nonsense", "thread.unknown"),
    ]


async def test_a_retried_post_of_a_purged_thread_does_not_bring_it_back(node: NodeUnderTest, admin: Admin) -> None:
    key = {"idempotency-key": "question-1"}
    thread = (await node.client.post(BOARD, json=QUESTION, headers=key)).json()
    await admin("threads", "purge", thread["id"])
    again = await node.client.post(BOARD, json=QUESTION, headers=key)
    assert (again.status_code, again.headers["x-error-code"]) == (404, "thread.unknown")


async def test_the_list_is_a_table_for_people(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node, author="csv-agent")
    head, row, total = (await admin("threads", "list")).out.splitlines()
    assert head.split() == ["ID", "STATUS", "REPLIES", "CREATED", "FROM", "AUTHOR", "TITLE"]
    assert row.split()[:3] == [thread, "open", "1"]
    assert row.endswith("csv-agent  Looking for a CSV parser")
    assert total == "1 of 1 open threads"


async def test_a_thread_that_is_gone_is_not_purged_again(node: NodeUnderTest) -> None:
    thread, board = await answered(node), BoardStore(node.store, 60)
    assert await board.purge([thread]) == [thread]
    events = keys.events_of(thread)
    told = await node.store.command("XLEN", events, key=events)
    assert await board.purge([thread]) == []
    assert await node.store.command("XLEN", events, key=events) == told
