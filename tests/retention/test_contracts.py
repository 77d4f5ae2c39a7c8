"""Old contracts are compacted or removed, and nothing else is (docs/operations.md, "What is kept")."""

import re
from collections.abc import Sequence
from typing import Any, cast

import pytest

from node.store import keys
from node.tasks.steps import task_compact
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.retention.calls import OLD, end_long_ago, finished, look
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import TASKS, UNKNOWN_ID, act, claimed, offered

NOW = 1_800_000_000_000
REASON = "Two pages, please."

pytestmark = pytest.mark.settings(limits=NO_LIMITS)


async def readings(node: NodeUnderTest, task: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of every read and every step for an ended contract: status, code and body."""
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
        text = re.sub(r'"timestamp":"20[^"]+"', "", response.text)  # in A2A errors, the time of the answer
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


async def test_only_what_has_been_over_for_long_is_compacted(node: NodeUnderTest) -> None:
    open_, recent = await offered(node), await finished(node, 1)
    await node.store.command("ZADD", keys.tasks_with("offered"), OLD, open_["id"])
    await node.store.command("ZADD", keys.tasks_with("completed"), OLD, recent["id"])
    assert await look(node) == 0
    assert await look(node, task_hot_days=0) == 0


async def test_what_a_key_may_repeat_is_not_compacted(node: NodeUnderTest) -> None:
    """A step repeated under its Idempotency-Key is answered from the hash, so the hash must outlive the key."""
    await finished(node, 1)
    assert await look(node, task_hot_days=1e-9) == 0


@pytest.mark.parametrize("since", [-1, 1], ids=["a field came", "a field went"])
async def test_a_contract_that_has_changed_since_it_was_read_is_not_compacted(node: NodeUnderTest, since: int) -> None:
    key, packed = keys.task((task := await finished(node, 1))["id"]), keys.packed(task["id"])
    fields = cast("int", await node.store.command("HLEN", key))
    reply = await node.store.run(task_compact(task=key, packed=packed, fields=fields + since, content=b"as read"))
    assert reply == [b"changed"]
    assert await node.store.run_all([("HLEN", key), ("EXISTS", packed)]) == [fields, 0]


async def test_a_contract_that_is_not_over_is_not_compacted_whatever_was_read(node: NodeUnderTest) -> None:
    failed = await claimed(node)
    assert (await act(node, failed, "fail", claim_token=failed["claim_token"], code="it.broke")).status_code == 200
    for task in (await offered(node), await claimed(node), failed):
        key, packed = keys.task(task["id"]), keys.packed(task["id"])
        fields = cast("int", await node.store.command("HLEN", key))
        reply = await node.store.run(task_compact(task=key, packed=packed, fields=fields, content=b"as read"))
        assert reply == [b"open"]
        assert await node.store.run_all([("HLEN", key), ("EXISTS", packed)]) == [fields, 0]


async def test_contracts_are_kept_unless_the_operator_says_otherwise(node: NodeUnderTest) -> None:
    done, open_, held, new = await finished(node, 1), await offered(node), await claimed(node), await offered(node)
    failed, again = await claimed(node), await claimed(node)
    assert (await act(node, failed, "fail", claim_token=failed["claim_token"], code="it.broke")).status_code == 200
    for task in (done, open_, held, failed, again):
        await end_long_ago(node, task)
    # Retention must not remove the contract before anybody could take it again.
    assert (await act(node, again, "release", claim_token=again["claim_token"])).status_code == 200
    await node.store.command("ZADD", keys.tasks_with("completed"), OLD, UNKNOWN_ID)  # listed, but no longer there
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
    """Judged by its offer alone, the contract is old. Removing it would lose a step that was acknowledged."""
    task = await offered(node, max_attempts=2)
    await end_long_ago(node, task)
    read_for_lists = TaskStore.read_for_lists

    async def changed_after(self: TaskStore, task_ids: Sequence[str]) -> dict[str, StoredTask]:
        monkeypatch.undo()
        read = await read_for_lists(self, task_ids)
        claim = (await act(node, task, "claim", assignee_id="late-agent")).json()
        assert (await act(node, task, what, claim_token=claim["claim_token"], **more)).status_code == 200
        return read

    monkeypatch.setattr(TaskStore, "read_for_lists", changed_after)
    assert await look(node, task_retention_days=30) == 0
    expected = "completed" if what == "complete" else "offered"
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["status"] == expected


async def test_of_a_contract_that_is_removed_before_its_deadline_nothing_is_left(node: NodeUnderTest) -> None:
    """Otherwise its expiry would stay planned until the deadline, which may be in a thousand years."""
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
