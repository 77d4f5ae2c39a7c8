"""`relay-node admin callbacks`, on a real node."""

from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.store import keys
from node.tasks.compaction import unpack
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest


async def given_up(node: NodeUnderTest, message_id: str, partition: int) -> None:
    """Create a dead letter."""
    queue = CallbackQueue(node.store, unpack)
    told = ("thread-1", message_id, "https://agent.example/hook", "board.reply", 1)
    await queue.enqueue(partition, [CallbackMessage(*told, data={"thread_id": "t", "seq": 1})])
    callback = Callback(*told, data={"thread_id": "t", "seq": 1}, partition=partition, attempt=6)
    await queue.settle(callback, "dead", 0, "answered 500")


async def test_dead_callbacks_are_sent_again(node: NodeUnderTest, admin: Admin) -> None:
    await given_up(node, "msg_1", 3)
    await given_up(node, "msg_2", 60)
    dead = (await admin("callbacks", "dead", "--json")).data
    assert {(each["id"], each["attempts"], each["reason"]) for each in dead} == {
        ("msg_1", 1, "answered 500"),
        ("msg_2", 1, "answered 500"),
    }
    dry = await admin("callbacks", "redrive", "--all", "--dry-run", "--json")
    assert (dry.status, [each["outcome"] for each in dry.data]) == (0, ["dry run", "dry run"])
    assert len((await admin("callbacks", "dead", "--json")).data) == 2
    ran = await admin("callbacks", "redrive", "msg_2", "--json")
    assert (ran.status, ran.data) == (0, [{"id": "msg_2", "outcome": "redriven"}])
    pending = (await admin("callbacks", "pending", "--json")).data
    assert (pending["total"], pending["callbacks"][0]["id"], pending["callbacks"][0]["attempts"]) == (1, "msg_2", 0)
    assert [each["id"] for each in (await admin("callbacks", "dead", "--json")).data] == ["msg_1"]


async def test_a_redriven_callback_leaves_a_newer_one_alone(node: NodeUnderTest, admin: Admin) -> None:
    await given_up(node, "msg_1", 3)
    told = ("thread-1", "msg_2", "https://agent.example/hook", "board.reply", 2)
    newer = CallbackMessage(*told, {"thread_id": "t", "seq": 2})
    await CallbackQueue(node.store, unpack).enqueue(3, [newer])
    await admin("callbacks", "redrive", "--all")
    pending = (await admin("callbacks", "pending", "--json")).data["callbacks"]
    assert {each["id"] for each in pending} == {"msg_1", "msg_2"}


async def test_a_callback_that_cannot_be_read_is_shown_by_its_name_and_dropped(
    node: NodeUnderTest, admin: Admin
) -> None:
    """Such a callback does not become a dead letter, because a later version of the node may be able to read it."""
    for name, fields in {
        "torn": ["attempt", 0],
        "thread-1": ["attempt", 0, "id", "msg_1", "data", "{"],
        "thread-2": ["attempt", "x", "id", "msg_2", "url", b"\xff"],
    }.items():
        await node.store.command("HSET", keys.callback(3, name), *fields)
        await node.store.command("ZADD", keys.callbacks_due(3), 1, name)
    pending = (await admin("callbacks", "pending", "--json")).data["callbacks"]
    shown = {each["id"]: (each["type"], each["url"], each["attempts"]) for each in pending}
    assert shown == {"torn": ("-", "-", 0), "msg_1": ("-", "-", 0), "msg_2": ("-", "\ufffd", 0)}
    assert (await admin("callbacks", "drop", "--all")).status == 0  # drops dead letters only
    assert (await admin("callbacks", "drop", "torn", "--dry-run")).status == 0
    assert (await admin("callbacks", "pending", "--json")).data["total"] == 3
    dropped = await admin("callbacks", "drop", "torn", "msg_1", "msg_2", "msg_9", "--json")
    assert (dropped.status, {each["id"]: each["outcome"] for each in dropped.data}) == (
        1,
        {"torn": "dropped", "msg_1": "dropped", "msg_2": "dropped", "msg_9": "unknown"},
    )
    assert (await admin("audit", "--json")).data[0]["outcome"] == "dropped: 3"
    assert (await admin("callbacks", "pending", "--json")).data["total"] == 0
    assert await node.names("callback:*") == []


async def test_the_callbacks_under_way_begin_with_the_next_one(node: NodeUnderTest, admin: Admin) -> None:
    for name, partition, due in (("c", 1, 3000), ("a", 5, 1000), ("b", 5, 2000), ("d", 9, 4000)):
        await node.store.command("HSET", keys.callback(partition, name), "attempt", 0, "id", name)
        await node.store.command("ZADD", keys.callbacks_due(partition), due, name)
    for limit in (1, 2, 3, 4):
        shown = (await admin("callbacks", "pending", "--limit", str(limit), "--json")).data
        assert [each["id"] for each in shown["callbacks"]] == ["a", "b", "c", "d"][:limit]
        assert shown["total"] == 4


async def test_dead_callbacks_are_dropped(node: NodeUnderTest, admin: Admin) -> None:
    await given_up(node, "msg_1", 3)
    assert (await admin("callbacks", "drop", "msg_9")).status == 1
    assert (await admin("callbacks", "drop", "--all", "--dry-run")).status == 0
    assert (await admin("callbacks", "drop", "--all", "--json")).data == [{"id": "msg_1", "outcome": "dropped"}]
    assert (await admin("callbacks", "dead", "--json")).data == []


async def test_a_dead_letter_that_cannot_be_read_is_shown_and_dropped(node: NodeUnderTest, admin: Admin) -> None:
    await given_up(node, "msg_1", 3)
    dead = keys.callbacks_dead(4)
    for number, torn in enumerate((["url", "https://x.example/"], ["id", "msg_2", "url", b"\xff"], ["id", "msg_3"])):
        await node.store.command("XADD", dead, f"{number + 1}-0", *torn)
    shown = {each["id"]: each["url"] for each in (await admin("callbacks", "dead", "--json")).data}
    assert shown == {
        "msg_1": "https://agent.example/hook",
        "04-1-0": "https://x.example/",
        "msg_2": "\ufffd",
        "msg_3": "-",
    }
    assert "msg_3" in (await admin("callbacks", "dead")).out
    redriven = await admin("callbacks", "redrive", "msg_3", "--json")
    assert (redriven.status, redriven.data) == (1, [{"id": "msg_3", "outcome": "unknown"}])
    assert (await admin("callbacks", "drop", "04-1-0", "msg_2", "--dry-run")).status == 0
    assert await node.store.command("XLEN", dead) == 3
    assert (await admin("callbacks", "drop", "04-1-0", "msg_2")).status == 0
    assert [each["id"] for each in (await admin("callbacks", "dead", "--json")).data] == ["msg_1", "msg_3"]
    assert (await admin("callbacks", "drop", "--all")).status == 0
    assert (await admin("callbacks", "dead", "--json")).data == []
