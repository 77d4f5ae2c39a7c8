"""What is old is compacted or removed, and nothing else is (docs/operations.md, "What is kept")."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from node.board.model import ThreadStatus
from node.board.retention import ThreadRetention
from node.board.store import LISTS, BoardStore
from node.retention.rules import retention_of
from node.store import ids, keys
from node.store.clock import now_ms
from node.store.limits import DAY_MS
from node.store.search_keys import BOARD_KEYS
from node.tasks.steps import task_compact
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, UNKNOWN_ID, act, claimed, offered

BOARD = "/api/v1/board"
NOW = 1_800_000_000_000
OLD = 1_000_000  # ms: in 1970
REASON = "Two pages, please."
TIMES = (
    *(b"created_at", b"claimed_at", b"updated_at", b"submitted_at"),
    *(b"completed_at", b"canceled_at", b"expired_at", b"failed_at"),
)
"""Fields of a contract."""


pytestmark = pytest.mark.settings(limits=NO_LIMITS)


async def look(node: NodeUnderTest, **changed: Any) -> int:
    """What the worker does for retention, with these settings and all the time it needs."""
    return await retention_of(msgspec.structs.replace(node.settings, **changed), node.store).look(20)


async def thread(node: NodeUnderTest, title: str, **fields: int) -> str:
    """A board thread; its fields are then changed."""
    posted = (await node.client.post(BOARD, json={"title": title, "body": "Who knows about solar panels?"})).json()
    await age(node, posted["id"], **fields)
    return posted["id"]


async def relayed(node: NodeUnderTest, text: str, **fields: int) -> str:
    """A thread that a relay message became."""
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
    await node.store.commands([("ZREM", keys.OPEN_THREADS, old), ("ZADD", LISTS[status], OLD, old, OLD, UNKNOWN_ID)])
    assert await look(node) == 1
    assert await node.store.commands([("EXISTS", keys.thread(old)), ("ZCARD", LISTS[status])]) == [0, 0]


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
        await age(node, old, created_at=OLD, last_reply_at=OLD)  # the worker itself finds it
        await until(lambda: _all_gone(node, old))

        async def none() -> bool:
            return not await hits()

        await until(none)


async def _all_gone(node: NodeUnderTest, thread_id: str) -> bool:
    left = [await node.store.command("EXISTS", key) for key in (keys.thread(thread_id), keys.replies(thread_id))]
    left += [await node.store.command("EXISTS", BOARD_KEYS.doc(thread_id))]
    return not any(left) and await node.store.command("ZSCORE", keys.OPEN_THREADS, thread_id) is None


async def test_a_thread_that_is_answered_meanwhile_stays(node: NodeUnderTest) -> None:
    """The list was read before the reply, so only the step itself can know."""
    old = await relayed(node, "Who can summarise a long report?", created_at=OLD)
    reply = {"body": "I can do that for you"}
    assert (await node.client.post(f"{BOARD}/{old}/replies", json=reply)).status_code == 201
    await node.store.command("ZADD", keys.OPEN_THREADS, OLD, old)
    assert await look(node) == 0
    assert await statuses(node, old) == [200]


async def finished(node: NodeUnderTest, result: Any, **offer: Any) -> dict[str, Any]:
    """A completed contract, with its tokens."""
    task = await claimed(node, **offer)
    response = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=result)
    assert response.status_code == 200
    return task


async def readings(node: NodeUnderTest, task: dict[str, Any]) -> dict[str, Any]:
    """What every reader and every step says of a contract that is over: status, code and body."""
    path, token = f"{TASKS}/{task['id']}", task["claim_token"]
    publisher = {"actor_id": "report-desk", "publisher_token": task["publisher_token"]}
    calls: dict[str, tuple[str, str, Any, dict[str, str]]] = {
        "contract": ("GET", path, None, {}),
        "waited for": ("GET", f"{path}?wait=1&status=claimed", None, {}),
        "A2A": ("GET", path, None, {"a2a-version": "1.0"}),
        "A2A cancel": ("POST", f"{path}:cancel", {}, {"a2a-version": "1.0"}),
        "page": ("GET", "/", None, {"accept": "text/html"}),
        "completed": ("GET", f"{TASKS}?status=completed", None, {}),
        "canceled": ("GET", f"{TASKS}?status=canceled", None, {}),
        "claim": ("POST", f"{path}/claim", {"assignee_id": "another"}, {}),
        "same result": ("POST", f"{path}/complete", {"claim_token": token, "result_payload": {"a": [1]}}, {}),
        "other result": ("POST", f"{path}/complete", {"claim_token": token, "result_payload": 0}, {}),
        "no result": ("POST", f"{path}/complete", {"claim_token": token}, {}),
        "wrong token": ("POST", f"{path}/complete", {"claim_token": "1.x.y", "result_payload": 1}, {}),
        "extend": ("POST", f"{path}/extend", {"claim_token": token}, {}),
        "release": ("POST", f"{path}/release", {"claim_token": token}, {}),
        "move": ("POST", f"{path}/transition", publisher, {}),
        "move by id": ("POST", f"{path}/transition", {"actor_id": "report-desk"}, {}),
        "move by nobody": ("POST", f"{path}/transition", {"actor_id": "nobody"}, {}),
        "cancel": ("POST", f"{path}/cancel", {"publisher_token": task["publisher_token"]}, {}),
        "cancel by nobody": ("POST", f"{path}/cancel", {}, {}),
        "fail": ("POST", f"{path}/fail", {"claim_token": token, "code": "it.broke"}, {}),
        "retry": ("POST", f"{path}/retry", {"publisher_token": task["publisher_token"]}, {}),
        "accept": ("POST", f"{path}/accept", {"publisher_token": task["publisher_token"]}, {}),
        "reject": ("POST", f"{path}/reject", {"publisher_token": task["publisher_token"], "reason": REASON}, {}),
    }
    answers: dict[str, Any] = {}
    for name, (method, where, body, headers) in calls.items():
        response = await node.client.request(method, where, json=body, headers=headers)
        text = re.sub(r'"timestamp":"20[^"]+"', "", response.text)  # of an A2A error: when it was answered
        answers[name] = response.status_code, response.headers.get("x-error-code"), text
    return answers


@pytest.mark.parametrize(
    "over", ["completed", "completed, bound", "completed by a step", "accepted", "rejected too late", "canceled"]
)
async def test_a_compacted_contract_reads_and_refuses_as_before(node: NodeUnderTest, over: str) -> None:
    offer = {
        "description": "Two pages about panels.\nPlease be brief.",
        "lease_seconds": 600,
        "require_proof": "bound" in over,
    }
    if over == "canceled":
        task = await claimed(node, **offer)
        await act(node, task, "cancel", publisher_token=task["publisher_token"])
    elif over == "accepted":
        task = await finished(node, {"a": [1]}, **offer, review_seconds=600)
        assert (await act(node, task, "accept", publisher_token=task["publisher_token"])).status_code == 200
    elif over == "rejected too late":
        task = await finished(node, {"a": [1]}, **offer, review_seconds=600, deadline="2099-12-31T00:00:00Z")
        await node.store.command("HSET", keys.task(task["id"]), "deadline", OLD)
        rejection = {"publisher_token": task["publisher_token"], "reason": REASON}
        assert (await act(node, task, "reject", **rejection)).json()["status"] == "expired"
    elif over == "completed by a step":
        task = await claimed(node, **offer)
        for _ in range(2):
            assert (await act(node, task, "transition", actor_id="report-desk")).status_code == 200
    else:
        task = await finished(node, {"a": [1]}, **offer)
    await end_long_ago(node, task)
    before = await readings(node, task)
    assert before["contract"][0] == 200
    assert await look(node) == 1
    assert await node.store.command("EXISTS", keys.task(task["id"])) == 0
    assert await readings(node, task) == before
    assert await look(node) == 0


async def end_long_ago(node: NodeUnderTest, task: dict[str, Any]) -> None:
    """Let a contract have been made and have ended in 1970."""
    fields: Any = await node.store.command("HGETALL", keys.task(task["id"]))
    for name in TIMES:
        if name in fields[::2]:
            await node.store.command("HSET", keys.task(task["id"]), name, OLD)
    for status in ("completed", "canceled", "expired", "failed", "offered"):
        await node.store.command("ZADD", keys.tasks_with(status), "XX", OLD, task["id"])


async def test_only_what_has_been_over_for_long_is_compacted(node: NodeUnderTest) -> None:
    open_, recent = await offered(node), await finished(node, 1)
    await node.store.command("ZADD", keys.tasks_with("offered"), OLD, open_["id"])
    await node.store.command("ZADD", keys.tasks_with("completed"), OLD, recent["id"])
    assert await look(node) == 0
    assert await look(node, task_hot_days=0) == 0


async def test_what_a_key_may_repeat_is_not_compacted(node: NodeUnderTest) -> None:
    """A step repeated under its Idempotency-Key is answered from the hash, so the hash outlives the key."""
    await finished(node, 1)
    assert await look(node, task_hot_days=1e-9) == 0


@pytest.mark.parametrize("since", [-1, 1], ids=["a field came", "a field went"])
async def test_a_contract_that_has_changed_since_it_was_read_is_not_compacted(node: NodeUnderTest, since: int) -> None:
    key, packed = keys.task((task := await finished(node, 1))["id"]), keys.packed(task["id"])
    fields = cast("int", await node.store.command("HLEN", key))
    reply = await node.store.run(task_compact(task=key, packed=packed, fields=fields + since, content=b"as read"))
    assert reply == [b"changed"]
    assert await node.store.commands([("HLEN", key), ("EXISTS", packed)]) == [fields, 0]


async def test_a_contract_that_is_not_over_is_not_compacted_whatever_was_read(node: NodeUnderTest) -> None:
    failed = await claimed(node)
    assert (await act(node, failed, "fail", claim_token=failed["claim_token"], code="it.broke")).status_code == 200
    for task in (await offered(node), await claimed(node), failed):
        key, packed = keys.task(task["id"]), keys.packed(task["id"])
        fields = cast("int", await node.store.command("HLEN", key))
        reply = await node.store.run(task_compact(task=key, packed=packed, fields=fields, content=b"as read"))
        assert reply == [b"open"]
        assert await node.store.commands([("HLEN", key), ("EXISTS", packed)]) == [fields, 0]


async def test_contracts_are_kept_unless_the_operator_says_otherwise(node: NodeUnderTest) -> None:
    done, open_, held, new = await finished(node, 1), await offered(node), await claimed(node), await offered(node)
    failed, again = await claimed(node), await claimed(node)
    assert (await act(node, failed, "fail", claim_token=failed["claim_token"], code="it.broke")).status_code == 200
    for task in (done, open_, held, failed, again):
        await end_long_ago(node, task)
    # It was removed before anybody could take it again.
    assert (await act(node, again, "release", claim_token=again["claim_token"])).status_code == 200
    await node.store.command("ZADD", keys.tasks_with("completed"), OLD, UNKNOWN_ID)  # is not there any more
    assert await look(node, task_hot_days=0) == 0
    assert await look(node, task_hot_days=0, task_retention_days=30) == 3
    assert await node.store.command("ZSCORE", keys.tasks_with("completed"), UNKNOWN_ID) is None
    found = [
        (await node.client.get(f"{TASKS}/{task['id']}")).status_code for task in (done, open_, failed, held, new, again)
    ]
    assert found == [404, 404, 404, 200, 200, 200]
    assert (await node.client.get(f"{TASKS}?status=offered")).json()["total"] == 2
    assert (await node.client.get(f"{TASKS}?status=completed")).json()["total"] == 0


@pytest.mark.parametrize("status", ["claimed", "in_progress", "submitted"])
async def test_what_somebody_works_on_stays_though_a_list_that_is_behind_has_it_on_offer(
    node: NodeUnderTest, status: str
) -> None:
    task = await claimed(node, review_seconds=600)
    if status == "in_progress":
        await act(node, task, "transition", actor_id="report-desk")
    elif status == "submitted":
        await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    await end_long_ago(node, task)
    await node.store.command("ZADD", keys.tasks_with("offered"), OLD, task["id"])
    assert await look(node, task_retention_days=30) == 0
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["status"] == status


@pytest.mark.parametrize(("what", "more"), [("complete", {}), ("release", {}), ("fail", {"code": "it.broke"})])
async def test_a_contract_that_is_claimed_meanwhile_stays(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, what: str, more: dict[str, str]
) -> None:
    """Judged by its offer, it was old. A release that was acknowledged was lost with the contract."""
    task = await offered(node, max_attempts=2)
    await end_long_ago(node, task)
    placed = TaskStore.placed

    async def changed_after(self: TaskStore, task_ids: Sequence[str]) -> dict[str, StoredTask]:
        monkeypatch.undo()
        read = await placed(self, task_ids)
        claim = (await act(node, task, "claim", assignee_id="late-agent")).json()
        assert (await act(node, task, what, claim_token=claim["claim_token"], **more)).status_code == 200
        return read

    monkeypatch.setattr(TaskStore, "placed", changed_after)
    assert await look(node, task_retention_days=30) == 0
    expected = "completed" if what == "complete" else "offered"
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["status"] == expected


async def test_of_a_contract_that_is_removed_before_its_deadline_nothing_is_left(node: NodeUnderTest) -> None:
    """When it would have expired was remembered until then, which may be in a thousand years."""
    task = await offered(node, deadline="9999-01-01T00:00:00Z")
    await end_long_ago(node, task)
    assert await node.names("leases:*") != []
    assert await look(node, task_retention_days=30) == 1
    assert await node.names("leases:*") == []


async def test_a_compacted_contract_is_removed_too(node: NodeUnderTest) -> None:
    task = await finished(node, 1)
    await end_long_ago(node, task)
    assert await look(node) == 1
    assert await look(node, task_retention_days=30) == 1
    assert (await node.client.get(f"{TASKS}/{task['id']}")).status_code == 404
    assert await node.store.command("EXISTS", keys.packed(task["id"])) == 0


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
    """It was met when a relayed one of its age would have gone, and not again for a day."""
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
    assert await ThreadRetention(board, NOW - OLD, 0).handle(old, NOW) == len(old)
