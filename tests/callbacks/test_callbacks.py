"""Callbacks from an API call to a receiver, through Redis and a real worker (SPEC 6, DESIGN 8)."""

from typing import Any, cast

import pytest

from node.callbacks.queue import CallbackQueue
from node.config import Schedule
from node.sign.node_key import NodeKey
from node.store import ids, keys
from node.store.steps import Key
from node.tasks.compaction import unpack
from tests.board.calls import BOARD, QUESTION, posted
from tests.callbacks.receiver import Receiver
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw


pytestmark = pytest.mark.settings(callback_allow_private=True)


async def hurry(node: NodeUnderTest) -> None:
    """Make every pending callback due now."""
    for partition in range(ids.PARTITIONS):
        due = keys.callbacks_due(partition)
        for name in await members(node, due):
            await node.store.command("ZADD", due, "XX", 0, name)  # unless the callback has just ended


async def members(node: NodeUnderTest, due: str) -> list[bytes]:
    found = await node.store.command("ZRANGE", due, 0, -1)
    assert isinstance(found, list)
    return [name for name in found if isinstance(name, bytes)]


async def under_way(node: NodeUnderTest) -> int:
    return sum([len(await members(node, keys.callbacks_due(partition))) for partition in range(ids.PARTITIONS)])


async def tells_of(node: NodeUnderTest, callback: Key, seq: int) -> bool:
    """Return whether that callback is pending and reports this reply number."""
    data = cast("bytes | None", await node.store.command("HGET", callback, "data"))
    return b'"seq":%d' % seq in (data or b"")


def no_second_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pause between messages so long that nothing more is sent about an entity until a test calls `hurry`."""
    for pause in ("service.ENTITY_PAUSE_MS", "sources.EntitySource.pause_ms"):
        monkeypatch.setattr(f"node.callbacks.{pause}", 3_600_000)
    monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 0.2)  # no event wakes the worker after `hurry`


async def test_a_reply_pings_the_thread_s_callback(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
        await receiver.until(1)
        assert receiver.forged == 0
        _, message = receiver.messages[0]
        assert message["type"] == "board.reply"
        assert message["data"] == {
            "thread_id": thread["id"],
            "seq": 1,
            "url": thread["url"],
            "api_url": f"http://node.example{BOARD}/threads/{thread['id']}?since_seq=0",
            "callback_host": "127.0.0.1",
        }
        assert "I can help" not in str(message)


async def test_a_url_that_was_given_to_release_1_0_0_is_called_too(node: NodeUnderTest) -> None:
    """Release 1.0.0 did not record who gave a URL."""
    async with Receiver(PUBLIC) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        assert await node.store.command("HDEL", keys.thread(thread["id"]), "callback_by") == 1
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
        await receiver.until(1)


async def test_replies_in_quick_succession_are_told_together(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_second_message(monkeypatch)
    async with Receiver(PUBLIC) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        callback = keys.callback(ids.partition_of_id(thread["id"]), thread["id"])

        async def reply(number: int) -> None:
            await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": f"Answer number {number}"})

        async def first_is_told() -> bool:
            return receiver.requests == 1 and await under_way(node) == 0

        await reply(1)
        await until(first_is_told)
        for number in range(2, 6):
            await reply(number)
        await until(lambda: tells_of(node, callback, 5))
        assert receiver.requests == 1
        await hurry(node)
        await receiver.until(2)
        told = [(message["data"]["seq"], message["data"]["api_url"]) for _, message in receiver.messages]
        api_url = f"http://node.example{BOARD}/threads/{thread['id']}"
        assert told == [(1, f"{api_url}?since_seq=0"), (5, f"{api_url}?since_seq=1")]


async def test_a_reply_to_a_relayed_message_pings_its_sender(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        sent = {"message": "Who can summarise a report?", "callback_url": receiver.url}
        ack = (await node.client.post("/api/v1/relay", json=sent)).json()
        await node.client.post(f"{BOARD}/{ack['reference_id']}/replies", json={"body": "I can help"})
        await receiver.until(1)
        assert receiver.messages[0][1]["type"] == "relay.reply"


async def test_a_publisher_is_told_of_every_step_of_its_task(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": receiver.url}
        task = (await node.client.post("/api/v1/tasks", json=offer)).json()
        path = f"/api/v1/tasks/{task['id']}"
        claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "w"})).json()
        await node.client.post(f"{path}/transition", json={"actor_id": "w"})
        await node.client.post(f"{path}/complete", json={"claim_token": claim["claim_token"]})
        await receiver.until(3)
        kinds = {message["type"] for _, message in receiver.messages}
        assert kinds == {"task.claimed", "task.in_progress", "task.completed"}
        assert claim["claim_token"] not in str(receiver.messages)


async def test_lines_of_a_session_are_told_without_their_text(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver:
        session = (await node.client.post("/api/v1/sessions", json={"callback_url": receiver.url})).json()
        lines = f"/api/v1/sessions/{session['session_id']}/messages"
        for number in range(2):
            await node.client.post(lines, json={"body": f"secret plan {number}"})
        async with node.worker():
            await receiver.until(1)
        _, message = receiver.messages[0]
        assert message["type"] == "session.line"
        assert message["data"] == {
            "session_id": session["session_id"],
            "seq": 2,
            "url": f"http://node.example{lines}",
            "callback_host": "127.0.0.1",
        }
        assert "secret plan" not in str(message)


async def test_a_receiver_that_fails_is_tried_again_with_the_same_id(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda n: 500 if n < 2 else 200) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})

        async def delivered() -> bool:
            await hurry(node)
            return bool(receiver.messages)

        await receiver.until(1)
        await until(delivered)
        assert receiver.requests >= 3
        await until(lambda: _none(node))
        await until(lambda: _forgiven(node))


async def _none(node: NodeUnderTest) -> bool:
    return await under_way(node) == 0


async def _forgiven(node: NodeUnderTest) -> bool:
    """Return whether no failure of a receiver is remembered."""
    return not await node.names("rate:*:callback-failures:*")


async def test_a_receiver_that_wants_no_more_is_not_called_again(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda _: 410) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
        await receiver.until(1)

        async def dropped() -> bool:
            return await node.store.command("HEXISTS", keys.thread(thread["id"]), "callback_url") == 0

        await until(dropped)
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help too"})
        await until(lambda: _none(node))
        assert receiver.requests == 1


async def test_a_message_that_is_never_taken_becomes_a_dead_letter_and_can_be_sent_again(node: NodeUnderTest) -> None:
    working = False
    async with Receiver(PUBLIC, lambda _: 200 if working else 400) as receiver, node.worker():
        thread = await posted(node, callback_url=receiver.url)
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
        queue = CallbackQueue(node.store, unpack)

        async def dead() -> bool:
            await hurry(node)
            return bool(await queue.dead())

        await until(dead)
        # `hurry` makes a callback due that is being sent, so another sender sends it too, as if the first had died.
        assert receiver.requests >= 7
        (letter,) = await queue.dead()
        assert (letter.attempts, letter.type) == (7, "board.reply")
        working, before = True, receiver.requests
        await queue.redrive(letter)
        await receiver.until(before + 1)
        assert receiver.messages[0][0] == letter.id
        assert await queue.dead() == []


@pytest.mark.settings()
@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "http://localhost/hook", "ftp://example.org/", "http://[::1]/", "not a url"]
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/relay", {"message": "Hello there"}),
        (BOARD, QUESTION),
        ("/api/v1/tasks", {"publisher_id": "p", "title": "Translate a memo"}),
        ("/api/v1/sessions", {}),
    ],
)
class TestRefusedTargets:
    """A target that would never be called is refused when it is given."""

    async def test_a_private_target_is_refused(
        self, node: NodeUnderTest, path: str, body: dict[str, Any], url: str
    ) -> None:
        response = await node.client.post(path, json=body | {"callback_url": url})
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"] == ["body", "callback_url"]


class TestWithoutLooking:
    """A worker knows when its callbacks are due without reading every partition again and again."""

    @pytest.fixture(autouse=True)
    def look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("node.callbacks.queue.POLL_SECONDS", 1000.0)

    @pytest.fixture
    def overrides(self) -> dict[str, Any]:
        schedule = Schedule((0.05, 0.05, 5.0))
        return {"callback_allow_private": True, "embedding_model": "none", "callback_schedule": schedule}

    async def test_events_and_the_schedule_wake_it(self, node: NodeUnderTest) -> None:
        async with Receiver(PUBLIC, lambda n: 500 if n < 2 else 204) as receiver, node.worker():
            thread = await posted(node, callback_url=receiver.url)
            await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
            await receiver.until(3)
            assert [message["data"]["seq"] for _, message in receiver.messages] == [1]
