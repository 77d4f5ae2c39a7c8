"""Every step of lua/ works on a Redis Cluster: it has one slot, and all keys that it touches are among its KEYS (DESIGN
4).

A cluster refuses a script that names keys of two slots, or that touches a slot other than its own. So the operations of
all features are run on a real cluster, and the steps that ran are compared with the folder.
"""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.artifacts.store import ArtifactStore
from node.board.moderation_store import ModerationStore
from node.board.store import BoardStore
from node.callbacks.breaker import Admitted, Breaker, Circuit, Requester
from node.callbacks.queue import CallbackQueue
from node.config import Limit
from node.retention.rules import retention_of
from node.store import RedisReply, StoreUnavailable, ids, keys
from node.store.steps import Step
from node.store.store import Store, Wanted
from node.tasks.compaction import unpack
from tests.agents.calls import card_of
from tests.support.node_under_test import PATIENCE, NodeUnderTest, running, settings_for, until
from tests.support.scripts import all_scripts
from tests.support.servers import Cluster
from tests.tasks.calls import let_end, tasks_on

BYTES = b"one slot"
ELSEWHERE = {
    "task_import": "imported from another node: tests/admin/test_exchange.py; its keys are of one id",
    "thread_import": "likewise",
    "node_identify": "has one key, and is run by processes as they start: tests/store/test_identity.py",
    "audit_add": "has one key, and is run by commands of the operator: tests/admin",
    "client_block": "likewise",
    "callback_forget": "has one key, and follows an answer of 410: tests/inbox/test_inbox_callbacks.py",
    "search_switch": "changes the index of a query engine, which a cluster does not have",
    "search_fill": "likewise",
    "vector_move": "for what is claimed once it is embedded: tests/tasks/test_offer_search.py; its keys are of one id",
}
"""Steps that the operations below do not reach, and why."""

LAST = {"thread_purge", "task_compact", "task_unpack", "task_forget"}
"""Steps that leave nothing for other steps to work on, and the one that works on compacted contracts."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the names of the steps that run, and check that the keys of each call have one hash tag."""
    seen: set[str] = set()
    run, run_all, run_reachable = Store.run, Store.run_all, Store.run_reachable

    def check(step: Wanted) -> None:
        if not isinstance(step, Step):
            return
        seen.add(step.script.name)
        tags = {name[name.index("{") : name.index("}") + 1] for name in step.keys}
        assert len(tags) == 1, f"{step.script.name}: {step.keys}"

    async def checked(self: Store, step: Step) -> RedisReply:
        check(step)
        return await run(self, step)

    async def all_checked(self: Store, many: Iterable[Wanted]) -> list[RedisReply]:
        given = list(many)
        for each in given:
            check(each)
        return await run_all(self, given)

    async def reachable_checked(self: Store, many: Iterable[Wanted]) -> list[RedisReply | StoreUnavailable]:
        given = list(many)
        for each in given:
            check(each)
        return await run_reachable(self, given)

    monkeypatch.setattr(Store, "run", checked)
    monkeypatch.setattr(Store, "run_all", all_checked)
    monkeypatch.setattr(Store, "run_reachable", reachable_checked)
    return seen


async def test_every_step_of_every_feature_runs_on_a_cluster(tmp_path: Path, steps: set[str]) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        settings = settings_for(cluster.url, data_dir=tmp_path / "data", callback_allow_private=True, store_timeout=5.0)
        async with running(settings) as node, node.worker():
            await relay_and_board(node)
            await sessions_and_feedback(node)
            await inboxes(node)
            await agents(node)
            await contracts(node)
            await messages(node)
            await artifacts(node)
            await what_receivers_and_operators_do(node)
            await worked(node, steps)
            await old_things(node)
            assert steps >= LAST


async def worked(node: NodeUnderTest, steps: set[str]) -> None:
    """Wait until all expected steps have run, which needs the worker: it must load its model, answer a search and try
    the callback.
    """
    expected = {script.name for script in all_scripts()} - ELSEWHERE.keys() - LAST

    async def done() -> bool:
        if expected <= steps:
            return True
        await call(node, "POST", "/api/v1/board/search", {"query": "solar panels"})
        await asyncio.sleep(1)  # the limit is one search a second
        return False

    try:
        await until(done)
    except TimeoutError:
        pytest.fail(f"never ran: {sorted(expected - steps)}")


async def call(node: NodeUnderTest, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the answer of an operation, which must succeed."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = await node.client.request(method, path, json=body, headers=named)
    assert response.status_code < 300, (path, response.status_code, response.text)
    return response.json()


async def relay_and_board(node: NodeUnderTest) -> None:
    sent = {"message": "Who can summarise a report about solar panels?"}
    ack = await call(node, "POST", "/api/v1/relay", sent, idempotency_key="once")
    await call(node, "GET", f"/api/v1/board/{ack['reference_id']}")
    await call(node, "POST", f"/api/v1/board/{ack['reference_id']}/replies", {"body": "I can summarise it"})
    await call(node, "POST", "/api/v1/relay", {"message": "We need a longer summary of the report. " * 150})
    question = {
        "title": "Looking for a CSV parser",
        "body": "Who can parse 40 MB of CSV in a sandbox?",
        "callback_url": "http://127.0.0.1:9/",
    }
    thread = await call(node, "POST", "/api/v1/board", question, idempotency_key="once")
    path = f"/api/v1/board/{thread['id']}"
    await call(node, "POST", f"{path}/replies", {"body": "I can do that"}, idempotency_key="once")
    await call(node, "GET", path)
    await call(node, "GET", "/api/v1/board")
    await call(node, "POST", f"{path}/report", {"reason": "It is spam."})
    posts = ModerationStore(node.store)
    assert await posts.settle(thread["id"], 0, "dismiss")
    assert await posts.change(thread["id"], 1, "hide")
    refused = await node.client.post(f"{path}/close")
    assert refused.status_code == 403
    await BoardStore(node.store, 60).close(thread["id"])


async def sessions_and_feedback(node: NodeUnderTest) -> None:
    session = await call(node, "POST", "/api/v1/sessions", {}, idempotency_key="once")
    path = f"/api/v1/sessions/{session['session_id']}"
    await call(node, "POST", f"{path}/messages", {"body": "line"}, idempotency_key="once")
    assert len((await call(node, "GET", f"{path}/messages"))["lines"]) == 1
    assert (await node.client.post(f"{path}/messages", json={})).status_code == 422
    await call(node, "POST", f"{path}/destroy", {"destroy_token": session["destroy_token"]})
    report = {"feedback_text": "The search finds my threads quickly. Thank you."}
    await call(node, "POST", "/api/v1/feedback", report, idempotency_key="once")


async def agents(node: NodeUnderTest) -> None:
    inbox = await call(node, "POST", "/api/v1/inboxes")
    owner = f"Bearer {inbox['inbox_token']}"
    listed = [
        await call(node, "POST", "/api/v1/agents", {"card": card_of(name)}, authorization=owner)
        for name in ("Report desk", "Night desk")
    ]
    await call(node, "POST", "/api/v1/agents", {"url": "http://127.0.0.1:1/"})
    await node.store.command("HSET", keys.agent(listed[0]["id"]), "ends_at", 1)
    await node.store.command("ZADD", keys.AGENT_ENDS, 1, listed[0]["id"])
    removed = listed[1]["id"]
    await call(node, "DELETE", f"/api/v1/agents/{removed}", authorization=owner)
    await node.store.command("ZADD", keys.agents_due(ids.partition_of_id(removed)), 1, removed)


async def inboxes(node: NodeUnderTest) -> None:
    inbox = await call(node, "POST", "/api/v1/inboxes", {"label": "desk"}, idempotency_key="once")
    path = f"/api/v1/inboxes/{inbox['address']}"
    owner = f"Bearer {inbox['inbox_token']}"
    await call(node, "GET", path)
    first, *others = [
        await call(node, "POST", f"{path}/messages", {"body": "x"}, idempotency_key=f"once {n}") for n in range(3)
    ]
    await node.store.command("HSET", keys.inbox(inbox["address"]), "seen", 1)
    assert len((await call(node, "GET", f"{path}/messages", authorization=owner))["messages"]) == 3
    sender = f"Bearer {first['receipt_token']}"
    await call(node, "DELETE", f"{path}/messages/{first['id']}", authorization=sender)
    assert (await call(node, "GET", f"{path}/messages/{first['id']}", authorization=sender))["status"] == "withdrawn"
    await call(node, "POST", f"{path}/messages/{others[0]['id']}/settle", {"status": "done"}, authorization=owner)
    assert (await call(node, "POST", f"{path}/settle", {"through_seq": 3}, authorization=owner))["settled"] == 1
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    asked = {"message": said, "configuration": {"returnImmediately": True}}
    task = (await call(node, "POST", f"{path}/a2a/message:send", asked, idempotency_key="task"))["task"]
    question = {"status": "input_required", "reply": "Which?"}
    await call(node, "POST", f"{path}/messages/{task['id']}/settle", question, authorization=owner)
    await call(node, "POST", f"{path}/a2a/message:send", {**asked, "message": {**said, "taskId": task["id"]}})
    await call(node, "GET", f"{path}/a2a/tasks?contextId={task['contextId']}")
    push = {"url": "http://127.0.0.1:9/push"}
    await call(node, "POST", f"{path}/a2a/tasks/{task['id']}/pushNotificationConfigs", push)
    await call(node, "POST", f"{path}/a2a/tasks/{task['id']}:cancel")
    await call(node, "DELETE", path, authorization=owner)


async def contracts(node: NodeUnderTest) -> None:
    async def claimed(**asked: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        offer = {"publisher_id": "p", "title": "Translate a memo", "lease_seconds": 30}
        task = await call(node, "POST", "/api/v1/tasks", offer | asked)
        path = f"/api/v1/tasks/{task['id']}"
        claim = await call(node, "POST", f"{path}/claim", {"assignee_id": "w"}, idempotency_key="once")
        return path, task, claim

    path, _, claim = await claimed()
    token = {"claim_token": claim["claim_token"]}
    await call(node, "POST", f"{path}/transition", {"actor_id": "w"})
    await call(node, "POST", f"{path}/extend", token)
    await call(node, "POST", f"{path}/complete", token | {"result_payload": 1})
    path, _, claim = await claimed()
    await call(node, "POST", f"{path}/release", {"claim_token": claim["claim_token"]})
    path, task, claim = await claimed()
    await call(node, "POST", f"{path}/fail", {"claim_token": claim["claim_token"], "code": "it.broke"})
    await call(node, "POST", f"{path}/retry", {"publisher_token": task["publisher_token"]})
    path, task, claim = await claimed(review_seconds=60)
    await call(node, "POST", f"{path}/complete", {"claim_token": claim["claim_token"]})
    rejection = {"publisher_token": task["publisher_token"], "reason": "Once more, please."}
    await call(node, "POST", f"{path}/reject", rejection)
    path, task, _ = await claimed()
    await call(node, "POST", f"{path}/cancel", {"publisher_token": task["publisher_token"]})
    path, task, _ = await claimed()
    await let_end(node.store, task["id"])
    await tasks_on(node.store).sweep()
    assert (await call(node, "GET", path))["status"] == "offered"
    await call(node, "POST", "/api/v1/tasks/claim-next", {"assignee_id": "w"}, idempotency_key="any")
    path, _, _ = await claimed()
    assert (await node.client.post(f"{path}/claim", json={"assignee_id": "other"})).status_code == 409
    assert (await call(node, "GET", "/api/v1/tasks?status=completed"))["total"] == 1


async def what_receivers_and_operators_do(node: NodeUnderTest) -> None:
    breaker, circuit = Breaker(node.store, Limit(9, 60)), Circuit("url", "host")
    admitted = await breaker.admit(circuit, Requester("somebody"))
    assert isinstance(admitted, Admitted)
    await breaker.refund(admitted)  # the worker would refund one of its own calls only a minute later
    await breaker.pause(circuit, 0.001)
    await CallbackQueue(node.store, unpack).discard(0, "one under way")


async def messages(node: NodeUnderTest) -> None:
    for context in ({}, {"contextId": "a context of the client"}):
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]} | context
        task = (await call(node, "POST", "/api/v1/message:send", {"message": message}, a2a_version="1.0"))["task"]
        listed = await call(node, "GET", f"/api/v1/tasks?contextId={task['contextId']}", a2a_version="1.0")
        assert [found["id"] for found in listed["tasks"]] == [task["id"]]


async def old_things(node: NodeUnderTest) -> None:
    at_once = 1e-7
    (completed,) = (await call(node, "GET", "/api/v1/tasks?status=completed"))["tasks"]
    compacting = msgspec.structs.replace(node.settings, idempotency_ttl=0, task_hot_days=at_once)
    await until(lambda: retention_of(compacting, node.store).look(5))
    late = await node.client.post(f"/api/v1/tasks/{completed['id']}/claim", json={"assignee_id": "late"})
    assert late.status_code == 409
    removing = msgspec.structs.replace(compacting, task_retention_days=at_once, thread_retention_days=at_once)
    await until(lambda: retention_of(removing, node.store).look(5))


async def artifacts(node: NodeUnderTest) -> None:
    digest = hashlib.sha256(BYTES).digest()
    body = {
        "publisher_id": "p",
        "media_type": "text/plain",
        "byte_size": len(BYTES),
        "digest_sha256": digest.hex(),
    }
    field = f"sha-256=:{b64encode(digest).decode()}:"
    async with node.client_at("2001:db8:1:2::3") as of_a_network:
        made = await of_a_network.post("/api/v1/artifacts", json=body, headers={"content-digest": field})
        assert made.status_code == 201
    manifest = await call(node, "POST", "/api/v1/artifacts", body, content_digest=field)
    path = f"/api/v1/artifacts/{manifest['id']}"
    upload = await node.client.put(manifest["upload_url"], content=BYTES, headers=manifest["upload_headers"])
    assert upload.status_code == 200, upload.text
    await call(node, "POST", f"{path}/complete")
    async with asyncio.timeout(PATIENCE):
        while (await call(node, "GET", f"{path}?wait=5&status=verifying"))["status"] != "available":
            pass
    store = ArtifactStore(node.store, 60, 60)
    assert await store.withdraw(manifest["id"], "purged by a test")
    await store.end(manifest["id"])
