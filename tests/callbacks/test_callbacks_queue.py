"""The callback queue: every step on a real Redis, with times changed by the tests (DESIGN 8)."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import msgspec
import pytest

from node.callbacks.owners import publisher_of, site_part
from node.callbacks.queue import HIDDEN_MS, Callback, CallbackMessage, CallbackQueue, Ending
from node.config import Schedule
from node.sign.node_key import NodeKey
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.steps import Step
from node.store.store import Wanted
from node.tasks.compaction import unpack
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
HOME = 5
NAME = "thread-1"


# Retries follow at once; there are as many as by default.
pytestmark = pytest.mark.settings(
    callback_allow_private=True, embedding_model="none", callback_schedule=Schedule((0.001,) * 6)
)


@pytest.fixture
def queue(node: NodeUnderTest) -> CallbackQueue:
    return CallbackQueue(node.store, unpack)


async def enqueue(queue: CallbackQueue, message_id: str, at: int, pause_ms: int = 0) -> None:
    message = CallbackMessage(NAME, message_id, "http://a/", "board.reply", at, {"thread_id": "t", "seq": at})
    await queue.enqueue(HOME, [message], pause_ms)


async def make_due(node: NodeUnderTest) -> None:
    await node.store.command("ZADD", keys.callbacks_due(HOME), "XX", 0, NAME)


async def taken(queue: CallbackQueue) -> Callback:
    (callback,) = await queue.take([HOME])
    return callback


async def test_what_one_worker_has_taken_no_other_takes(queue: CallbackQueue) -> None:
    await enqueue(queue, "msg_1", 1)
    await taken(queue)
    assert await queue.take([HOME]) == []


async def test_what_a_dead_worker_had_taken_comes_again(node: NodeUnderTest, queue: CallbackQueue) -> None:
    await enqueue(queue, "msg_1", 1)
    first = await taken(queue)
    score, now = await node.store.command("ZSCORE", keys.callbacks_due(HOME), NAME), await now_ms(node.store)
    assert isinstance(score, bytes)
    assert now < float(score) <= now + HIDDEN_MS
    await make_due(node)
    soonest = asyncio.get_running_loop().time() + HIDDEN_MS / 1000
    again = await taken(queue)
    assert again.ours_until >= soonest
    assert msgspec.structs.replace(again, ours_until=first.ours_until) == first


@pytest.mark.parametrize("message_id", ["msg_05_7_0", "msg_05_7_1", "msg_05_7_2"])
async def test_an_event_that_comes_late_or_again_does_not_replace_a_newer_one(
    queue: CallbackQueue, message_id: str
) -> None:
    await enqueue(queue, "msg_05_7_10", 7)
    await enqueue(queue, message_id, 7)
    await enqueue(queue, "msg_05_6_99", 6)
    assert (await taken(queue)).id == "msg_05_7_10"


async def test_an_event_that_comes_again_after_its_delivery_is_not_told_again(
    node: NodeUnderTest, queue: CallbackQueue
) -> None:
    await enqueue(queue, "msg_1", 1)
    await queue.settle(await taken(queue), "delivered", 0)
    await enqueue(queue, "msg_1", 1)
    await make_due(node)
    assert await queue.take([HOME]) == []
    await enqueue(queue, "msg_2", 2)
    assert (await taken(queue)).id == "msg_2"


async def test_what_happens_during_an_attempt_is_told_in_another_message(
    node: NodeUnderTest, queue: CallbackQueue
) -> None:
    await enqueue(queue, "msg_1", 1)
    first = await taken(queue)
    await enqueue(queue, "msg_2", 2)
    await queue.settle(first, "delivered", 5000)
    assert await queue.take([HOME]) == []
    await make_due(node)
    assert (await taken(queue)).id == "msg_2"


@pytest.mark.parametrize(("first", "second"), [("msg_1", "msg_2"), ("msg_9", "msg_10")])
async def test_of_two_messages_of_one_millisecond_the_one_with_the_later_number_is_told(
    queue: CallbackQueue, first: str, second: str
) -> None:
    for each in (first, second, first):
        await enqueue(queue, each, 1)
    assert (await taken(queue)).id == second


@pytest.mark.parametrize("ending", ["dropped", "dead", "delivered"])
async def test_what_happens_during_a_later_attempt_is_told_from_its_first(
    node: NodeUnderTest, queue: CallbackQueue, ending: Ending
) -> None:
    await enqueue(queue, "msg_1", 1)
    await queue.settle(await taken(queue), "postpone", 1000)
    await make_due(node)
    await queue.settle(msgspec.structs.replace(await taken(queue), misses=1), "retry", 0, "answered 404")
    second = await taken(queue)
    assert (second.attempt, second.misses, second.waited) == (1, 1, 1000)
    await enqueue(queue, "msg_2", 2)
    await queue.settle(second, ending, 0, "answered 410")
    third = await taken(queue)
    assert (third.id, third.attempt, third.misses, third.waited) == ("msg_2", 0, 0, 0)
    assert await node.store.command("HGET", keys.callback(HOME, NAME), "reason") is None


async def test_an_attempt_is_counted_once_however_often_it_is_settled(
    node: NodeUnderTest, queue: CallbackQueue
) -> None:
    await enqueue(queue, "msg_1", 1)
    first = await taken(queue)
    await queue.settle(first, "retry", 0, "answered 500")
    await queue.settle(first, "retry", 0, "answered 500")
    await make_due(node)
    assert (await taken(queue)).attempt == 1


async def test_what_had_to_wait_is_due_again_and_is_no_attempt(node: NodeUnderTest, queue: CallbackQueue) -> None:
    await enqueue(queue, "msg_1", 1)
    await queue.settle(await taken(queue), "retry", 0, "answered 500")
    for waited in (0, 60_000):
        callback = await taken(queue)
        assert (callback.id, callback.attempt, callback.waited) == ("msg_1", 1, waited)
        await queue.settle(callback, "postpone", 60_000)
        assert await queue.take([HOME]) == []
        await make_due(node)
    assert await node.store.command("HGET", keys.callback(HOME, NAME), "reason") == b"answered 500"


@pytest.mark.parametrize("ending", ["delivered", "retry", "dead", "dropped", "postpone"])
async def test_a_worker_that_comes_too_late_changes_nothing(
    node: NodeUnderTest, queue: CallbackQueue, ending: Any
) -> None:
    await enqueue(queue, "msg_1", 1)
    slow = await taken(queue)
    await queue.settle(slow, "delivered", 0)
    await queue.settle(slow, ending, 0, "too late")
    await make_due(node)
    assert await queue.take([HOME]) == []
    assert await queue.dead() == []


async def test_delivered_messages_are_settled_when_memory_is_full(node: NodeUnderTest, queue: CallbackQueue) -> None:
    await enqueue(queue, "msg_1", 1)
    first = await taken(queue)
    await node.store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        await queue.settle(first, "delivered", 0)
    finally:
        await node.store.command("CONFIG", "SET", "maxmemory", 0)
    assert await node.store.command("ZCARD", keys.callbacks_due(HOME)) == 0


async def test_what_another_worker_ends_while_it_is_taken_is_over(
    monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest, queue: CallbackQueue
) -> None:
    await enqueue(queue, "msg_1", 1)
    slow = await taken(queue)
    await make_due(node)

    run_reachable = Store.run_reachable

    async def read_after_its_end(store: Store, many: Iterable[Wanted]) -> Any:
        wanted = list(many)
        if not isinstance(wanted[0], Step):  # the callback has been taken
            await queue.settle(slow, "delivered", 0)
        return await run_reachable(store, wanted)

    monkeypatch.setattr(Store, "run_reachable", read_after_its_end)
    assert await queue.take([HOME]) == []


async def test_any_number_of_messages_is_put_under_way_where_few_calls_may_be(
    node: NodeUnderTest, queue: CallbackQueue
) -> None:
    count = node.store.max_in_flight + 1
    await queue.enqueue(
        HOME, [CallbackMessage(f"m{n}", "msg", "http://a/", "task.claimed", n, {"task_id": "t"}) for n in range(count)]
    )
    assert await node.store.command("ZCARD", keys.callbacks_due(HOME)) == count


async def test_so_many_dead_letters_are_kept(monkeypatch: pytest.MonkeyPatch, queue: CallbackQueue) -> None:
    monkeypatch.setattr("node.callbacks.queue.DEAD_LETTERS_KEPT", 100)
    told = [CallbackMessage(f"m{n}", f"msg_{n}", "http://a/", "task.claimed", n, {"task_id": "t"}) for n in range(300)]
    await queue.enqueue(HOME, told)
    while callbacks := await queue.take([HOME]):
        await asyncio.gather(*(queue.settle(each, "dead", 0, "answered 500") for each in callbacks))
    kept = [letter.at for letter in await queue.dead()]
    assert 100 <= len(kept) < 300
    assert 299 in kept


async def test_of_the_dead_letters_of_a_site_the_newest_are_kept_and_no_others_go(
    monkeypatch: pytest.MonkeyPatch, queue: CallbackQueue
) -> None:
    monkeypatch.setattr("node.callbacks.queue.DEAD_LETTERS_OF_A_SITE", 3)
    for number, client in enumerate(["192.0.2.1", *["198.51.100.1"] * 5, "192.0.2.1"]):
        await enqueue(queue, f"msg_{number}", number)
        await queue.settle(await taken(queue), "dead", 0, "answered 500", publisher_of(client))
    assert [letter.at for letter in await queue.dead()] == [0, 3, 4, 5, 6]


async def test_a_dead_letter_that_cannot_be_read_keeps_no_other_from_being_listed(
    node: NodeUnderTest, queue: CallbackQueue
) -> None:
    for number in (1, 2):
        await enqueue(queue, f"msg_{number}", number)
        await queue.settle(await taken(queue), "dead", 0, "answered 500")
        if number == 1:
            await node.store.command("XADD", keys.callbacks_dead(HOME), "*", "id", "msg_of_a_later_version")
    assert [letter.id for letter in await queue.dead()] == ["msg_1", "msg_2"]


class TestDelivery:
    """What a worker does with the queue."""

    async def claimed(self, node: NodeUnderTest, url: str, **more: object) -> str:
        """Return the id of a claimed contract, whose publisher gets a callback."""
        offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": url} | more
        task = (await node.client.post("/api/v1/tasks", json=offer)).json()
        await node.client.post(f"/api/v1/tasks/{task['id']}/claim", json={"assignee_id": "w"})
        return task["id"]

    async def idle(self, node: NodeUnderTest, task_id: str) -> bool:
        """Return whether no callback about the contract is pending."""
        return await node.store.command("ZCARD", keys.callbacks_due(ids.partition_of_id(task_id))) == 0

    async def test_the_third_404_drops_the_message_whatever_else_was_answered(self, node: NodeUnderTest) -> None:
        answers = [500, 404, 404, 500, 404, 204]
        async with Receiver(PUBLIC, lambda n: answers[n]) as receiver, node.worker():
            task_id = await self.claimed(node, receiver.url)
            await receiver.until(1)
            await until(lambda: self.idle(node, task_id))
            assert receiver.requests == 5
            assert await CallbackQueue(node.store, unpack).dead() == []

    async def test_after_a_410_nothing_that_was_on_its_way_is_sent(self, node: NodeUnderTest) -> None:
        async with Receiver(PUBLIC, lambda _: 410) as receiver:
            task_id = await self.claimed(node, receiver.url)
            await node.client.post(f"/api/v1/tasks/{task_id}/transition", json={"actor_id": "w"})
            await node.store.command("HDEL", keys.task(task_id), "callback_url")
            async with node.worker():
                await self.told(node, task_id)
                await until(lambda: self.idle(node, task_id))
            assert receiver.requests == 0

    async def told(self, node: NodeUnderTest, task_id: str) -> None:
        """Wait until the contract's events have been handled."""
        stream = keys.events(ids.partition_of_id(task_id))

        async def read() -> bool:
            groups = await node.store.command("XINFO", "GROUPS", stream, key=stream)
            assert isinstance(groups, list)
            lags = {row[1]: row[-1] for row in groups if isinstance(row, list)}
            return lags.get(b"hooks") == 0

        await until(read)

    async def test_a_lease_that_ends_is_told(self, node: NodeUnderTest) -> None:
        async with Receiver(PUBLIC) as receiver:
            task_id = await self.claimed(node, receiver.url, lease_seconds=30)
            await node.store.command("HSET", keys.task(task_id), "lease_expires_at", 1)
            await node.store.command("ZADD", keys.leases(ids.partition_of_id(task_id)), 1, task_id)
            async with node.worker():
                await receiver.until(2)
            assert {message["type"] for _, message in receiver.messages} == {"task.claimed", "task.expired"}

    async def test_what_its_receiver_refused_to_the_end_is_kept_as_the_publishers(self, node: NodeUnderTest) -> None:
        async with Receiver(PUBLIC, lambda _: 400) as receiver, node.worker():
            task_id = await self.claimed(node, receiver.url)
            await receiver.until(1)
            await until(lambda: self.idle(node, task_id))
        home = ids.partition_of_id(task_id)
        (letter,) = await CallbackQueue(node.store, unpack).dead()
        publisher = cast("bytes", await node.store.command("HGET", keys.task(task_id), "callback_by")).decode()
        kept = keys.callbacks_dead_of(home, site_part(publisher))
        assert await node.store.command("LRANGE", kept, 0, -1) == [letter.entry.encode()]

    async def test_a_message_that_cannot_be_made_ends_as_a_dead_letter_and_harms_no_other(
        self, node: NodeUnderTest
    ) -> None:
        async with Receiver(PUBLIC) as receiver:
            task_id = await self.claimed(node, receiver.url)
            home = ids.partition_of_id(task_id)
            data: dict[str, object] = {"task_id": task_id, "url": "x" * 20_000}
            big = CallbackMessage("big", "msg_1", receiver.url, "task.claimed", 1, data)
            await CallbackQueue(node.store, unpack).enqueue(home, [big])
            async with node.worker():
                await receiver.until(1)
                await until(lambda: self.idle(node, task_id))
            (letter,) = await CallbackQueue(node.store, unpack).dead()
            assert (letter.id, letter.attempts) == ("msg_1", 7)
