"""What an inbox keeps of A2A tasks: their contexts, continued messages, and withdrawn messages (NETWORK 1)."""

from typing import Any, cast

import httpx2
import pytest

from node.a2a.refusal import A2AError
from node.inbox import message_store
from node.inbox.model import InboxTask
from node.inbox.tasks import InboxTasks
from node.store import ids, keys
from node.store.limits import DAY_MS
from tests.a2a.inbox_calls import answered, begun, got, kinds, message, pushed_to, reason, sent
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import PUBLIC
from tests.inbox.calls import Json, closed, members, opened, path_of, read
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE, RedisServer

EXPIRED = 1  # ms since 1970


pytestmark = pytest.mark.settings(callback_allow_private=True)


async def canceled(node: NodeUnderTest, inbox: Json, task: Json) -> str:
    response = await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))
    return response.json()["status"]["state"]


async def expiring(node: NodeUnderTest, inbox: Json) -> list[str]:
    """Return the ids of messages whose expiry will be pushed."""
    found = await members(node, keys.inbox_push_ends(ids.partition_of(inbox["address"])))
    return [place.decode().split()[1] for place, _ in found]


async def asked_back(node: NodeUnderTest, receiver: Receiver) -> tuple[Json, Json]:
    """Return an inbox whose owner has asked back, and the task, whose changes are pushed to the receiver."""
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    assert (await pushed_to(node, inbox, task, url=receiver.url)).status_code == 200
    await receiver.until(1)
    return inbox, task


async def test_a_context_keeps_its_newest_tasks(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_store, "MAX_CONTEXT_TASKS", 2)
    inbox = await opened(node)
    first = await begun(node, inbox, message(contextId="c"))
    [context] = await node.names(f"inbox-context:*{inbox['address']}*")
    await node.store.command("ZADD", context, EXPIRED, first["id"])  # as if it had begun long before the others
    await node.store.command("PEXPIRE", context, 60 * DAY_MS)  # as if one of its tasks lived that long
    later = [await begun(node, inbox, message(contextId="c")) for _ in range(2)]
    assert cast("int", await node.store.command("PTTL", context)) > 59 * DAY_MS
    page = (await node.client.get(path_of(inbox, "/a2a/tasks"), params={"contextId": "c"})).json()
    assert ({each["id"] for each in page["tasks"]}, page["totalSize"]) == ({each["id"] for each in later}, 2)
    assert (await got(node, inbox, first))["status"]["state"] == "TASK_STATE_SUBMITTED"


async def test_a_context_lists_a_task_for_as_long_as_that_is_there(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox, message(contextId="c"))
    await answered(node, inbox, status="input_required", reply="Which?")
    [context] = await node.names(f"inbox-context:*{inbox['address']}*")
    # As if the owner had asked just before the message expired, and the question were withdrawn just before the receipt
    # ends.
    passed = 14 * DAY_MS - 60_000
    await node.store.command("PEXPIRE", context, cast("int", await node.store.command("PTTL", context)) - passed)
    assert await canceled(node, inbox, task) == "TASK_STATE_CANCELED"
    named = keys.inbox_receipt(inbox["address"], task["id"])
    ends, task_ends = [cast("int", await node.store.command("PEXPIRETIME", each)) for each in (context, named)]
    assert ends >= task_ends


async def test_that_an_answer_has_expired_is_pushed_as_it_is_of_the_first_message(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.run.worker.PUSH_SWEEP_SECONDS", 0.1)  # the test changes the times in Redis directly
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox, task = await asked_back(node, receiver)
        await begun(node, inbox, message("That one", taskId=task["id"]))
        await receiver.until(2)
        ends = keys.inbox_push_ends(ids.partition_of(inbox["address"]))
        [(place, expires_at)] = await members(node, ends)
        address, answer_id = place.decode().split()
        named = keys.inbox_receipt(address, answer_id)
        assert await node.store.command("HGET", named, "expires_at") == str(expires_at).encode()
        await node.store.command("HSET", named, "expires_at", EXPIRED)
        await node.store.command("ZADD", ends, EXPIRED, place)
        await receiver.until(3)
        assert kinds(receiver) == ["task INPUT_REQUIRED", "statusUpdate SUBMITTED", "statusUpdate FAILED"]


async def test_a_question_that_is_not_answered_but_taken_back_is_pushed_and_kept_a_week_from_then(
    node: NodeUnderTest,
) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox, task = await asked_back(node, receiver)
        named = keys.inbox_receipt(inbox["address"], task["id"])
        await node.store.command("PEXPIRE", named, DAY_MS)  # as if the owner had asked six days ago
        await node.store.command("HSET", named, "settled_at", EXPIRED)
        assert await canceled(node, inbox, task) == "TASK_STATE_CANCELED"
        await receiver.until(2)
        assert kinds(receiver) == ["task INPUT_REQUIRED", "statusUpdate CANCELED"]
        assert await node.store.command("HGET", named, "settled_at") != str(EXPIRED).encode()
        assert 6 * DAY_MS < cast("int", await node.store.command("PTTL", named)) <= 7 * DAY_MS


async def test_a_task_whose_second_question_is_taken_back_is_kept_a_week_from_then(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    named = keys.inbox_receipt(inbox["address"], task["id"])
    await node.store.command("PEXPIRE", named, DAY_MS)
    await begun(node, inbox, message("That one", taskId=task["id"]))
    assert cast("int", await node.store.command("PTTL", named)) > 7 * DAY_MS  # a week longer than the new message
    await answered(node, inbox, status="input_required", reply="Which of them?")
    for receipt in await node.names(f"inbox-receipt:*{inbox['address']}*"):
        await node.store.command("PEXPIRE", receipt, DAY_MS)  # as if the second question had been asked six days ago
    assert await canceled(node, inbox, task) == "TASK_STATE_CANCELED"
    assert 6 * DAY_MS < cast("int", await node.store.command("PTTL", named)) <= 7 * DAY_MS


async def test_an_answer_that_is_repeated_with_its_key_is_sent_once(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which year?")
    body = {"message": message("1999", taskId=task["id"]), "configuration": {"returnImmediately": True}}

    async def answer(key: str) -> httpx2.Response:
        return await node.client.post(path_of(inbox, "/a2a/message:send"), json=body, headers={"idempotency-key": key})

    first, again = [await answer("a key that nobody guesses") for _ in range(2)]
    assert (first.status_code, again.json(), again.headers["idempotency-replayed"]) == (200, first.json(), "true")
    other = await answer("another key that nobody guesses")
    assert (other.status_code, reason(other)) == (400, "UNSUPPORTED_OPERATION")
    await answered(node, inbox, reply="Done.")
    assert (await answer("a key that nobody guesses")).json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await read(node, inbox))["messages"] == []


@pytest.mark.parametrize("meanwhile", ["canceled", "answered"])
@pytest.mark.parametrize("wanted", ["cancel", "answer"])
async def test_a_question_is_answered_or_taken_back_once(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, wanted: str, meanwhile: str
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    answer = message("That one", taskId=task["id"])
    cancel = path_of(inbox, f"/a2a/tasks/{task['id']}:cancel")
    name = "head" if wanted == "cancel" else "get"
    look = getattr(InboxTasks, name)

    async def after(self: InboxTasks, address: str, task_id: str, *most: int | None) -> InboxTask:
        """Return the task as it was just before another change."""
        monkeypatch.undo()
        found = await look(self, address, task_id, *most)
        first = await (node.client.post(cancel) if meanwhile == "canceled" else sent(node, inbox, answer))
        assert first.status_code == 200
        return found

    monkeypatch.setattr(InboxTasks, name, after)
    response = await (node.client.post(cancel) if wanted == "cancel" else sent(node, inbox, answer))
    if wanted == "cancel" and meanwhile == "canceled":
        assert response.status_code == 200  # repeating a cancellation succeeds
    else:
        refusal = (400, "TASK_NOT_CANCELABLE" if wanted == "cancel" else "UNSUPPORTED_OPERATION")
        assert (response.status_code, reason(response)) == refusal
    assert (await read(node, inbox))["waiting"] == (meanwhile == "answered")


@pytest.mark.parametrize("ends", ["settled", "canceled"])
async def test_a_message_may_expire_until_it_is_settled_and_not_until_it_is_read(
    node: NodeUnderTest, ends: str
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    assert (await read(node, inbox))["waiting"] == 1
    assert await expiring(node, inbox) == [task["id"]]
    if ends == "settled":
        await answered(node, inbox, status="done")
    else:
        assert await canceled(node, inbox, task) == "TASK_STATE_CANCELED"
    assert await expiring(node, inbox) == []


async def test_a_receiver_that_comes_late_is_told_of_all_that_follows(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    [second] = await expiring(node, inbox)
    assert (await answered(node, inbox, status="input_required", reply="Which of them?"))["id"] == second
    assert await expiring(node, inbox) == []
    pushes = keys.inbox_pushes(inbox["address"], task["id"])
    await node.store.command("PEXPIRE", pushes, DAY_MS)
    await begun(node, inbox, message("The first", taskId=task["id"]))
    assert cast("int", await node.store.command("PTTL", pushes)) > 7 * DAY_MS  # as long as that message
    [third] = await expiring(node, inbox)
    assert (await answered(node, inbox))["id"] == third


@pytest.mark.parametrize("meanwhile", ["answered", "gone"])
async def test_a_receiver_that_comes_while_a_task_changes_is_told_of_its_last_message(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    last = await answered(node, inbox, status="input_required", reply="Which of them?")
    named = keys.inbox_receipt(inbox["address"], last["id"])
    head = InboxTasks.head

    async def after(self: InboxTasks, address: str, task_id: str) -> InboxTask:
        monkeypatch.undo()
        found = await head(self, address, task_id)
        if meanwhile == "gone":
            await node.store.command("DEL", named)
        else:
            await begun(node, inbox, message("The first", taskId=task["id"]))
        return found

    monkeypatch.setattr(InboxTasks, "head", after)
    response = await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")
    if meanwhile == "gone":
        assert response.status_code == 404
        assert await node.store.command("EXISTS", named) == 0
    else:
        [third] = await expiring(node, inbox)
        assert (response.status_code, (await answered(node, inbox))["id"]) == (200, third)


async def test_a_receiver_that_comes_after_a_message_has_expired_is_not_told_twice(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await node.store.command("HSET", keys.inbox_receipt(inbox["address"], task["id"]), "expires_at", EXPIRED)
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    assert await expiring(node, inbox) == []


async def test_a_receiver_that_comes_while_the_inbox_is_closed_is_told_once_that_its_message_has_expired(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    head = InboxTasks.head

    async def before(self: InboxTasks, address: str, task_id: str) -> InboxTask:
        monkeypatch.undo()
        found = await head(self, address, task_id)
        await closed(node, inbox)
        return found

    monkeypatch.setattr(InboxTasks, "head", before)
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    assert await expiring(node, inbox) == []
    told: Any = await node.store.command("XREVRANGE", keys.events(ids.partition_of(inbox["address"])), "+", "-")
    last = dict(zip(told[0][1][::2], told[0][1][1::2], strict=True))
    assert (last[b"type"], last[b"status"]) == (b"inbox.task", b"expired")


async def test_a_worker_that_was_held_up_does_not_shorten_the_life_of_configs_of_a_task_that_has_gone_on(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    second = await answered(node, inbox, status="input_required", reply="Which of them?")
    of_message = InboxTasks.of_message

    async def before(self: InboxTasks, address: str, message_id: str) -> InboxTask | None:
        monkeypatch.undo()
        found = await of_message(self, address, message_id)
        await begun(node, inbox, message("The first", taskId=task["id"]))
        return found

    monkeypatch.setattr(InboxTasks, "of_message", before)
    pushes = node.services().pushes
    named, targets = await pushes.notified_of(inbox["address"], second["id"])
    assert (named, len(targets)) == (task["id"], 1)
    kept = keys.inbox_pushes(inbox["address"], task["id"])
    assert cast("int", await node.store.command("PTTL", kept)) > 8 * DAY_MS  # as long as the newest message


async def test_whom_a_change_is_told_is_found_without_what_anybody_said(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    inbox, size = await opened(node), 10_000
    task = await begun(node, inbox, message("word " * (size // 5)))
    assert (await pushed_to(node, inbox, task, url="http://127.0.0.1:9/")).status_code == 200
    settled = await answered(node, inbox, reply="what? " * (size // 6))
    before = empty_redis.info("stats")["total_net_output_bytes"]
    named, targets = await node.services().pushes.notified_of(inbox["address"], settled["id"])
    assert (named, len(targets)) == (task["id"], 1)
    # The whole task is 40 kB. In a cluster, the traffic among its servers counts as well.
    assert empty_redis.info("stats")["total_net_output_bytes"] - before < 2 * size


async def test_a_second_receiver_is_told_how_a_task_stands_and_the_first_is_not_told_again(
    node: NodeUnderTest,
) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        inbox = await opened(node)
        task = await begun(node, inbox)
        for name in ("first", "second"):
            config = {"id": name, "url": receiver.url_at(f"/{name}")}
            assert (await pushed_to(node, inbox, task, **config)).status_code == 200
            await receiver.until(1, path=f"/{name}")
        assert await canceled(node, inbox, task) == "TASK_STATE_CANCELED"
        for name in ("first", "second"):
            await receiver.until(2, path=f"/{name}")
        assert receiver.paths == {"/first": 2, "/second": 2}


async def test_a_task_whose_last_message_was_lost_by_redis_is_unknown_to_who_waits(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    await begun(node, inbox, message("That one", taskId=task["id"]))
    agents = node.services().inbox_agents
    known = await agents.get(inbox["address"], task["id"])
    # As after the restoration of a backup that was made before the second message.
    await node.store.command("HSET", keys.inbox_receipt(inbox["address"], task["id"]), "turns", task["id"])
    with pytest.raises(A2AError) as failed:
        await agents.until_changed(inbox["address"], known, PATIENCE)
    assert failed.value.reason == "TASK_NOT_FOUND"


@pytest.mark.parametrize("lost", ["turns", "sent_at", "said"])
async def test_a_task_that_cannot_be_read_is_left_out_of_lists(node: NodeUnderTest, lost: str) -> None:
    inbox = await opened(node)
    first = await begun(node, inbox)
    second = await begun(node, inbox, message(contextId=first["contextId"]))
    await node.store.command("HDEL", keys.inbox_receipt(inbox["address"], first["id"]), lost)
    query = {"contextId": first["contextId"]}
    listed = await node.client.get(path_of(inbox, "/a2a/tasks"), params=query)
    assert [each["id"] for each in listed.json()["tasks"]] == [second["id"]]
