"""The progress of callbacks as shown to whoever gave their URL, with a real worker and a real receiver (NETWORK 4)."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx2
import msgspec
import pytest
from nacl.signing import SigningKey

from node.callbacks.breaker import FAILURES
from node.callbacks.delivery import DeliveryPage, DeliveryQuery, DeliveryRecords
from node.callbacks.queue import CallbackMessage, CallbackQueue, Ending
from node.callbacks.service import PUT_OFF
from node.sign.node_key import NodeKey
from node.store import Store, ids, keys
from node.store.limits import DAY_MS
from node.store.steps import Key
from node.tasks.compaction import unpack
from tests.board.signed_posts import BOARD, OTHER_KEY, QUESTION, send, signed
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import hurry
from tests.sign.signing import KEY
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until
from tests.support.servers import WOKEN

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
TASKS = "/api/v1/tasks"
UNKNOWN = ids.new_id()


pytestmark = pytest.mark.settings(callback_allow_private=True, embedding_model="none")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def claimed(node: NodeUnderTest, callback_url: str) -> tuple[str, dict[str, str]]:
    """Create a contract with one pending callback. Returns the path of its deliveries, and the headers to read them."""
    offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": callback_url}
    task = (await node.client.post(TASKS, json=offer)).json()
    await node.client.post(f"{TASKS}/{task['id']}/claim", json={"assignee_id": "w"})
    return f"{TASKS}/{task['id']}/callbacks", bearer(task["publisher_token"])


async def deliveries(node: NodeUnderTest, path: str, headers: dict[str, str], **query: Any) -> dict[str, Any]:
    answer = await node.client.get(path, headers=headers, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def after_an_attempt(node: NodeUnderTest, path: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return the only callback, once an attempt has ended or has been put off."""
    found: list[dict[str, Any]] = []

    async def attempted() -> bool:
        found[:] = (await deliveries(node, path, headers))["callbacks"]
        return bool(found) and (found[0]["last_error"] is not None or found[0]["status"] != "pending")

    await until(attempted)
    return found[0]


async def test_deliveries_show_a_receiver_that_fails_and_recovers(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda n: 503 if n == 0 else 204) as receiver, node.worker():
        path, token = await claimed(node, receiver.url)
        first = await after_an_attempt(node, path, token)
        assert (first["status"], first["attempts"], first["last_error"]) == ("pending", 1, "answered 503")
        assert (first["type"], first["host"]) == ("task.claimed", "127.0.0.1")
        assert first["next_attempt_at"] > first["created_at"]
        known = await deliveries(node, path, token)
        waiting = asyncio.create_task(deliveries(node, path, token, wait=30, since=known["next_since"]))
        await hurry(node)
        (last,) = (await asyncio.wait_for(waiting, WOKEN))["callbacks"]
        assert (last["status"], last["attempts"], last["last_error"]) == ("delivered", 2, None)
        assert last["next_attempt_at"] is None
        assert [last["id"]] == [webhook_id for webhook_id, _ in receiver.messages]


async def test_a_host_that_does_not_resolve_is_named(node: NodeUnderTest) -> None:
    async with node.worker():
        seen = await after_an_attempt(node, *await claimed(node, "http://nobody.invalid/hook"))
        assert (seen["status"], seen["host"]) == ("pending", "nobody.invalid")
        assert "nobody.invalid" in seen["last_error"]


async def test_a_callback_that_waits_for_its_turn_says_why(node: NodeUnderTest) -> None:
    """Such a callback is pending without an attempt of its own; the reason shows that earlier ones to this receiver
    failed.
    """
    async with Receiver(PUBLIC, lambda _: 503) as receiver, node.worker():
        attempted = 0
        while (seen := await after_an_attempt(node, *await claimed(node, receiver.url)))["attempts"]:
            attempted += 1
    assert (seen["status"], seen["last_error"]) == ("pending", PUT_OFF)
    assert attempted >= FAILURES


async def test_a_receiver_that_wants_no_more_ends_the_delivery(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda _: 410) as receiver, node.worker():
        seen = await after_an_attempt(node, *await claimed(node, receiver.url))
        assert (seen["status"], seen["last_error"]) == ("dropped", "the receiver answered 410")


async def test_what_is_under_way_to_a_receiver_that_is_no_longer_named_is_dropped(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC, lambda _: 503) as receiver, node.worker():
        inbox = (await node.client.post("/api/v1/inboxes", json={"callback_url": receiver.url})).json()
        token = bearer(inbox["inbox_token"])
        await node.client.post(f"/api/v1/inboxes/{inbox['address']}/messages", json={"body": "A message"})
        path = f"/api/v1/inboxes/{inbox['address']}/callbacks"
        assert (await after_an_attempt(node, path, token))["status"] == "pending"
        await node.client.post("/api/v1/inboxes", json={"callback_url": None}, headers=token)
        await hurry(node)
        known = await deliveries(node, path, token)
        if known["callbacks"][0]["status"] == "pending":
            known = await deliveries(node, path, token, wait=30, since=known["next_since"])
        (last,) = known["callbacks"]
        assert (last["status"], last["last_error"]) == (
            "dropped",
            "what it tells of is gone, or names this receiver no more",
        )
        assert receiver.requests == 1


async def test_a_refused_address_is_the_reason_that_is_shown(node: NodeUnderTest) -> None:
    """The address was allowed when the URL was given, but not when it is called."""
    path, token = await claimed(node, "http://127.0.0.1:9/hook")
    settings = msgspec.structs.replace(node.settings, callback_allow_private=False)
    async with NodeUnderTest(node.app, settings, node.store).worker():
        seen = await after_an_attempt(node, path, token)
    assert (seen["status"], seen["last_error"]) == ("dropped", "the host is not a public address")


async def test_sessions_and_inboxes_have_deliveries_too(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        session = (await node.client.post("/api/v1/sessions", json={"callback_url": receiver.url})).json()
        at = f"/api/v1/sessions/{session['session_id']}"
        await node.client.post(f"{at}/messages", json={"body": "A line"})
        seen = await after_an_attempt(node, f"{at}/callbacks", bearer(session["destroy_token"]))
        assert (seen["type"], seen["status"]) == ("session.line", "delivered")

        inbox = (await node.client.post("/api/v1/inboxes", json={"callback_url": receiver.url})).json()
        at = f"/api/v1/inboxes/{inbox['address']}"
        await node.client.post(f"{at}/messages", json={"body": "A message"})
        seen = await after_an_attempt(node, f"{at}/callbacks", bearer(inbox["inbox_token"]))
        assert (seen["type"], seen["status"]) == ("inbox.message", "delivered")


async def ended_while_waiting(
    node: NodeUnderTest, path: str, headers: dict[str, str], key: Key, ending: Awaitable[object]
) -> str:
    """Wait for callbacks of the entity with this key, await `ending` meanwhile, and return the answer's error code."""
    waiting = asyncio.create_task(node.client.get(f"{path}/callbacks", headers=headers, params={"wait": 30}))
    await node.listened_to(key)
    await ending
    return (await asyncio.wait_for(waiting, WOKEN)).headers["x-error-code"]


async def test_a_wait_ends_when_its_session_is_destroyed(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions")).json()
    token, path = session["destroy_token"], f"/api/v1/sessions/{session['session_id']}"
    destroying = node.client.post(f"{path}/destroy", json={"destroy_token": token})
    key = keys.session(session["session_id"])
    assert await ended_while_waiting(node, path, bearer(token), key, destroying) == "session.gone"


async def test_a_wait_ends_when_its_session_expires(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions")).json()
    await node.store.command("PEXPIRE", keys.session(session["session_id"]), 500)
    path, token = f"/api/v1/sessions/{session['session_id']}/callbacks", bearer(session["destroy_token"])
    waiting = node.client.get(path, headers=token, params={"wait": 30})
    assert (await asyncio.wait_for(waiting, WOKEN)).headers["x-error-code"] == "session.gone"


async def opened_inbox(node: NodeUnderTest) -> tuple[str, dict[str, str], Key]:
    inbox = (await node.client.post("/api/v1/inboxes")).json()
    return f"/api/v1/inboxes/{inbox['address']}", bearer(inbox["inbox_token"]), keys.inbox(inbox["address"])


async def test_a_wait_ends_with_the_inbox_or_with_the_token_of_its_owner(node: NodeUnderTest) -> None:
    path, token, key = await opened_inbox(node)
    closing = node.client.delete(path, headers=token)
    assert await ended_while_waiting(node, path, token, key, closing) == "inbox.unknown"
    path, token, key = await opened_inbox(node)
    rotating = node.client.post("/api/v1/inboxes", json={"rotate": True}, headers=token)
    assert await ended_while_waiting(node, path, token, key, rotating) == "inbox.token"


async def test_a_signature_is_not_looked_at_where_it_proves_nothing(node: NodeUnderTest) -> None:
    """A session belongs to whoever has its token, so its operations cannot be signed."""
    session = (await node.client.post("/api/v1/sessions")).json()
    unusable = {"signature-input": "nonsense", "signature": "nonsense"}
    path = f"/api/v1/sessions/{session['session_id']}/callbacks"
    assert (await deliveries(node, path, unusable | bearer(session["destroy_token"])))["callbacks"] == []


async def test_deliveries_of_a_signed_thread_are_read_with_its_key(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        thread = (await send(node, signed(BOARD, QUESTION | {"callback_url": receiver.url}))).json()
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": "I can help"})
        await receiver.until(1)
        path = f"{BOARD}/{thread['id']}/callbacks"

        async def shown(key: SigningKey) -> httpx2.Response:
            return await node.client.get(path, headers=signed(path, key=key, method="GET").headers)

        async def delivered() -> bool:
            (seen,) = (await shown(KEY)).json()["callbacks"]
            return (seen["type"], seen["status"]) == ("board.reply", "delivered")

        await until(delivered)
        refused = await shown(OTHER_KEY)
        assert (refused.status_code, refused.headers["x-error-code"]) == (403, "thread.signer")


async def test_nobody_else_reads_them(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions")).json()["session_id"]
    task = (await node.client.post(TASKS, json={"publisher_id": "p", "title": "Translate a memo"})).json()["id"]
    thread = (await node.client.post("/api/v1/board", json={"title": "A question", "body": "Who is there?"})).json()
    inbox = (await node.client.post("/api/v1/inboxes")).json()["address"]
    others = {
        f"{TASKS}/{task}/callbacks": "task.publisher",
        f"/api/v1/sessions/{session}/callbacks": "session.token",
        f"/api/v1/inboxes/{inbox}/callbacks": "inbox.token",
    }
    for path, code in others.items():
        for shown in ({}, {"authorization": "Bearer"}, {"authorization": "Basic Zm9vOmJhcg=="}):
            nothing = await node.client.get(path, headers=shown)
            assert (nothing.status_code, nothing.headers["www-authenticate"]) == (401, "Bearer")
        wrong = await node.client.get(path, headers=bearer("x" * 43))
        assert (wrong.status_code, wrong.headers["x-error-code"]) == (403, code)
    unsigned = await node.client.get(f"/api/v1/board/{thread['id']}/callbacks", headers=bearer("x" * 43))
    assert (unsigned.status_code, unsigned.headers["x-error-code"]) == (403, "thread.signer")  # no token gives access
    for path in (TASKS, "/api/v1/sessions", "/api/v1/board"):
        for name in (UNKNOWN, "nonsense"):
            answer = await node.client.get(f"{path}/{name}/callbacks", headers=bearer("x"))
            assert answer.status_code == 404


async def recorded(store: Store) -> DeliveryPage:
    """Return the record of the entity `t` in partition 5."""

    async def everybody() -> None:
        """Let everybody read."""

    return await DeliveryRecords(store).read(Key("task:{05}:t"), DeliveryQuery(), everybody)


async def test_the_record_of_an_entity_is_bounded(node: NodeUnderTest) -> None:
    queue = CallbackQueue(node.store, unpack)
    for n in range(30):
        message = CallbackMessage(f"m{n}", f"msg_{n}", "http://a.example/", "task.claimed", 1000 + n, {"task_id": "t"})
        await queue.enqueue(5, [message])
    page = await recorded(node.store)
    assert [each.id for each in page.callbacks] == [f"msg_{n}" for n in range(29, 9, -1)]
    life = await node.store.command("PTTL", keys.callback_record(5, "t"))
    assert isinstance(life, int)
    assert 0 < life <= 2 * 86_400_000


async def test_of_two_messages_that_became_one_the_newer_is_shown(node: NodeUnderTest) -> None:
    queue = CallbackQueue(node.store, unpack)

    async def happens(n: int) -> None:
        data = {"thread_id": "t", "seq": n}
        await queue.enqueue(5, [CallbackMessage("t", f"msg_{n}", "http://a.example/", "board.reply", n, data)], 5000)

    await happens(1)
    (failed,) = await queue.take([5])
    await queue.settle(failed, "retry", 0, "answered 503")
    (sent,) = await queue.take([5])
    for n in (2, 3):
        await happens(n)
        page = await recorded(node.store)
        assert [(each.id, each.status) for each in page.callbacks] == [(f"msg_{n}", "pending")]
    await queue.settle(sent, "delivered", 5000)
    page = await recorded(node.store)
    told = [(each.id, each.status, each.attempts, each.last_error) for each in page.callbacks]
    assert told == [("msg_3", "pending", 0, None), ("msg_1", "delivered", 2, None)]


async def test_the_record_outlives_what_is_due_in_two_days_though_another_callback_arrives_now(
    node: NodeUnderTest,
) -> None:
    queue = CallbackQueue(node.store, unpack)
    endings: list[tuple[Ending, int]] = [("retry", 2 * DAY_MS), ("delivered", 5000)]
    for n, (ending, pause_ms) in enumerate(endings):
        message = CallbackMessage(f"m{n}", f"msg_{n}", "http://a.example/", "task.claimed", n, {"task_id": "t"})
        await queue.enqueue(5, [message])
        (taken,) = await queue.take([5])
        await queue.settle(taken, ending, pause_ms, "answered 503")
    life = await node.store.command("PTTL", keys.callback_record(5, "t"))
    assert isinstance(life, int)
    assert life > 2 * DAY_MS
    page = await recorded(node.store)
    assert [each.status for each in page.callbacks] == ["delivered", "pending"]
