"""What is old is compacted or removed, and nothing else (docs/operations.md, "What is kept")."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.board.model import ThreadStatus
from node.board.retention import remove_idle
from node.board.store import LISTS, BoardStore
from node.retention.rules import retention_of
from node.store import ids, keys
from node.store.clock import now_ms
from node.store.limits import DAY_MS
from node.store.search_keys import BOARD_KEYS
from tests.board.calls import BOARD
from tests.retention.calls import OLD, end_long_ago, finished, look
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.tasks.calls import UNKNOWN_ID, offered

NOW = 1_800_000_000_000

pytestmark = pytest.mark.settings(limits=NO_LIMITS)


async def thread(node: NodeUnderTest, title: str, **fields: int) -> str:
    """Post a thread, then change these fields. Returns its id."""
    posted = (await node.client.post(BOARD, json={"title": title, "body": "Who knows about solar panels?"})).json()
    await age(node, posted["id"], **fields)
    return posted["id"]


async def relayed(node: NodeUnderTest, text: str, **fields: int) -> str:
    """Relay a message that becomes a thread. Returns its id."""
    acknowledged = (await node.client.post("/api/v1/relay", json={"message": text})).json()
    await age(node, acknowledged["reference_id"], **fields)
    return acknowledged["reference_id"]


async def age(node: NodeUnderTest, thread_id: str, **fields: int) -> None:
    for name, value in fields.items():
        await node.store.command("HSET", keys.thread(thread_id), name, value)
    active = fields.get("last_reply_at") or fields.get("created_at") or NOW
    await node.store.command("ZADD", keys.OPEN_THREADS, active, thread_id)


async def statuses(node: NodeUnderTest, *threads: str) -> list[int]:
    return [(await node.client.get(f"{BOARD}/{each}")).status_code for each in threads]


async def test_relayed_threads_go_after_a_while_and_board_threads_stay(node: NodeUnderTest) -> None:
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD)
    answered = await relayed(node, "Who can translate a short memo?", created_at=OLD, last_reply_at=NOW)
    new = await relayed(node, "Who can review a pull request?")
    board = await thread(node, "An old question", created_at=OLD)
    assert await look(node) == 1
    assert await statuses(node, old, answered, new, board) == [404, 200, 200, 200]
    assert (await node.client.get(f"/api/v1/relay/{old}")).status_code == 404
    assert (await node.client.get(BOARD)).json()["total"] == 3
    assert await look(node, thread_retention_days=30) == 1
    assert await statuses(node, board) == [404]


@pytest.mark.parametrize("status", ["closed", "hidden"])
async def test_what_nobody_can_answer_goes_like_what_is_open(node: NodeUnderTest, status: ThreadStatus) -> None:
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD)
    await node.store.command("HSET", keys.thread(old), "status", status)
    await node.store.run_all([("ZREM", keys.OPEN_THREADS, old), ("ZADD", LISTS[status], OLD, old, OLD, UNKNOWN_ID)])
    assert await look(node) == 1
    assert await node.store.run_all([("EXISTS", keys.thread(old)), ("ZCARD", LISTS[status])]) == [0, 0]


async def test_each_source_has_its_own_time(node: NodeUnderTest) -> None:
    two_days_ago = await now_ms(node.store, keys.OPEN_THREADS) - 2 * DAY_MS
    message = await relayed(node, "Who can summarise a long report?", created_at=two_days_ago)
    board = await thread(node, "A question", created_at=two_days_ago)
    assert await look(node, relay_retention_days=30, thread_retention_days=3) == 0
    assert await look(node, relay_retention_days=1, thread_retention_days=3) == 1
    assert await statuses(node, message, board) == [404, 200]
    assert await look(node, relay_retention_days=3, thread_retention_days=1) == 1
    assert await statuses(node, board) == [404]


async def test_a_retention_of_nothing_keeps_everything(node: NodeUnderTest) -> None:
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD)
    assert await look(node, relay_retention_days=0) == 0
    assert await statuses(node, old) == [200]


async def test_a_removed_thread_leaves_replies_lists_and_search(node: NodeUnderTest) -> None:
    old = await relayed(node, "Who can summarise a long report about turbines?")
    reply = {"body": "I can do that for you"}
    assert (await node.client.post(f"{BOARD}/{old}/replies", json=reply)).status_code == 201

    async def hits() -> list[Any]:
        found = await node.client.post(f"{BOARD}/search", json={"query": "turbines"})
        return found.json()["hits"]

    async with node.worker():
        await until(hits)
        await age(node, old, created_at=OLD, last_reply_at=OLD)  # the worker finds it by itself
        await until(lambda: _all_gone(node, old))

        async def none() -> bool:
            return not await hits()

        await until(none)


async def _all_gone(node: NodeUnderTest, thread_id: str) -> bool:
    left = [await node.store.command("EXISTS", key) for key in (keys.thread(thread_id), keys.replies(thread_id))]
    left += [await node.store.command("EXISTS", BOARD_KEYS.doc(thread_id))]
    return not any(left) and await node.store.command("ZSCORE", keys.OPEN_THREADS, thread_id) is None


async def test_a_thread_that_is_answered_meanwhile_stays(node: NodeUnderTest) -> None:
    """The list was read before the reply, so only the step itself can see it."""
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD)
    reply = {"body": "I can do that for you"}
    assert (await node.client.post(f"{BOARD}/{old}/replies", json=reply)).status_code == 201
    await node.store.command("ZADD", keys.OPEN_THREADS, OLD, old)
    assert await look(node) == 0
    assert await statuses(node, old) == [200]


async def test_room_is_made_when_memory_is_full(tmp_path: Path, overrides: dict[str, Any]) -> None:
    with RedisServer(tmp_path, "--maxmemory-policy", "noeviction") as server:
        async with running(settings_for(server.url, **overrides)) as node:
            await relayed(node, "Who can summarise a long report?", created_at=OLD)
            done, offer = await finished(node, 1), await offered(node)
            for task in (done, offer):
                await end_long_ago(node, task)
            server.do("CONFIG", "SET", "maxmemory", 1)
            assert await look(node) == 2, "the thread goes, and the result is compacted"
            assert await look(node, task_retention_days=30) == 2
            assert await node.names("t*:{*") == []


async def test_streams_for_the_operator_have_an_end(node: NodeUnderTest) -> None:
    streams = [keys.AUDIT, keys.feedback(3), keys.callbacks_dead(5)]
    for stream in streams:
        await node.store.command("XADD", stream, f"{OLD}-1", "at", OLD)
        await node.store.command("XADD", stream, "*", "at", NOW)
    for_ever = dict.fromkeys(("audit_retention_days", "feedback_retention_days", "dead_callback_retention_days"), 0)
    for days, left in ((for_ever, 2), ({}, 1)):
        await look(node, **days)
        assert [await node.store.command("XLEN", stream) for stream in streams] == [left] * 3


async def test_what_was_passed_too_early_is_met_again(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.retention.sweep.RESTART_SECONDS", 0.0)
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD, last_reply_at=NOW)
    await node.store.command("ZADD", keys.OPEN_THREADS, OLD, old)
    retention = retention_of(node.settings, node.store)
    assert await retention.look(20) == 0
    await age(node, old, last_reply_at=OLD)
    assert await retention.look(20) == 1


async def test_a_posted_thread_that_is_kept_longer_than_relayed_ones_still_goes_on_time(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is met when a relayed one of its age would be removed, and must be met again before a day has
    passed.
    """
    kept = msgspec.structs.replace(node.settings, thread_retention_days=0.25, relay_retention_days=0.04)
    now = await now_ms(node.store, keys.OPEN_THREADS)
    posted = await thread(node, "Solar panels", created_at=now)
    retention = retention_of(kept, node.store)
    for days, removed in ((0.02, 0), (0.1, 0), (0.2, 0), (0.26, 1)):

        async def later(*_: object, at: int = now + round(days * DAY_MS)) -> int:
            return at

        monkeypatch.setattr("node.retention.sweep.now_ms", later)
        assert (days, await retention.look(20)) == (days, removed)
    assert await statuses(node, posted) == [404]


async def test_a_message_task_is_kept_as_long_as_the_setting_says(node: NodeUnderTest) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}
    sent = await node.client.post("/api/v1/message:send", json={"message": message})
    left: Any = await node.store.command("PTTL", keys.task(sent.json()["task"]["id"]))
    assert 29.9 * DAY_MS < left <= 30 * DAY_MS


async def test_any_number_of_old_threads_is_removed_where_few_calls_may_be_under_way(node: NodeUnderTest) -> None:
    old = [ids.new_id() for _ in range(node.store.max_in_flight + 1)]
    for each in old:
        await node.store.command("HSET", keys.thread(each), "source", "board", "created_at", OLD, "status", "open")
    board = BoardStore(node.store, 60)
    await board.project(old)
    assert await remove_idle(board, "board", old, OLD) == len(old)
