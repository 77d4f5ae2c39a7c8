"""Claims that end by themselves, are extended, or are given up (DESIGN 8). Only Redis' clock counts."""

from typing import Any

import pytest

from node.sign.signed import UNSIGNED
from node.store import connect, ids, keys
from node.tasks.model import NewClaim, NewTask, TaskPageQuery
from tests.support.answers import json_of, refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, act, claimed, let_end, offered, read, tasks_on, told


async def lapsed(node: NodeUnderTest) -> dict[str, Any]:
    """Return a contract whose lease has ended, which nobody has noticed yet."""
    task = await claimed(node, lease_seconds=60)
    await let_end(node.store, task["id"])
    return task


async def listed(node: NodeUnderTest, status: str) -> list[str]:
    page = (await node.client.get(TASKS, params={"status": status})).json()
    return [task["id"] for task in page["tasks"]]


async def leased(node: NodeUnderTest, task: dict[str, Any]) -> Any:
    return await node.store.command("ZSCORE", keys.leases_of(task["id"]), task["id"])


async def test_a_claim_says_when_its_lease_ends(node: NodeUnderTest) -> None:
    task = await claimed(node, lease_seconds=60)
    assert task["lease_seconds"] == 60
    assert task["lease_expires_at"] > task["claimed_at"]
    row = await node.store.command("HMGET", keys.task(task["id"]), "claimed_at", "lease_expires_at")
    start, end = map(int, row)  # type: ignore[arg-type]
    assert end - start == 60_000
    assert float(await leased(node, task)) == end


async def test_a_reader_sees_a_void_claim_as_an_offer(node: NodeUnderTest) -> None:
    task = await lapsed(node)
    found = await read(node, task)
    assert (found["status"], found["assignee_id"], found["attempt"]) == ("offered", None, 1)
    assert (found["claimed_at"], found["lease_expires_at"], found["lease_seconds"]) == (None, None, 60)


async def test_a_void_claim_can_be_claimed_over(node: NodeUnderTest) -> None:
    task = await lapsed(node)
    second = await act(node, task, "claim", assignee_id="second-agent")
    assert (second.status_code, second.json()["attempt"]) == (200, 2)
    events = await told(node.store, task["id"])
    assert [(event["type"], event["attempt"], event["assignee_id"]) for event in events] == [
        ("task.offered", "0", ""),
        ("task.claimed", "1", "summary-agent"),
        ("task.expired", "1", "summary-agent"),
        ("task.claimed", "2", "second-agent"),
    ]


@pytest.mark.parametrize("what", ["complete", "extend", "release"])
async def test_the_token_of_a_void_claim_is_worth_nothing(node: NodeUnderTest, what: str) -> None:
    task = await lapsed(node)
    for _ in range(2):
        assert refused(await act(node, task, what, claim_token=task["claim_token"])) == (403, "task.token")
        await act(node, task, "claim", assignee_id="second-agent")
    assert (await read(node, task))["assignee_id"] == "second-agent"


async def test_the_assignee_of_a_void_claim_is_nobody(node: NodeUnderTest) -> None:
    task = await lapsed(node)
    assert refused(await act(node, task, "transition", actor_id="summary-agent")) == (403, "task.actor")
    assert refused(await act(node, task, "transition", actor_id="report-desk")) == (409, "task.state")


async def test_an_old_token_moves_nothing_even_for_the_publisher(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "release", claim_token=task["claim_token"])
    await act(node, task, "claim", assignee_id="second-agent")
    for actor in ("report-desk", "second-agent"):
        response = await act(node, task, "transition", actor_id=actor, claim_token=task["claim_token"])
        assert refused(response) == (403, "task.token")


async def test_a_claim_repeated_after_its_lease_is_a_new_one(node: NodeUnderTest) -> None:
    task = await offered(node, lease_seconds=60)
    body = {"assignee_id": "summary-agent", "idempotency_key": "k1"}
    first = (await act(node, task, "claim", **body)).json()
    await let_end(node.store, task["id"])
    second = await act(node, task, "claim", **body)
    assert "idempotency-replayed" not in second.headers
    assert second.json()["attempt"] == 2
    assert second.json()["claim_token"] != first["claim_token"]
    assert refused(await act(node, task, "complete", claim_token=first["claim_token"])) == (403, "task.token")


@pytest.mark.parametrize("how", ["release", "fail"])
async def test_a_claim_that_arrives_again_after_it_was_given_up_claims_nothing(node: NodeUnderTest, how: str) -> None:
    """The request was delayed on its way. Meanwhile the worker repeated it and got an answer."""
    task = await offered(node, max_attempts=3)
    body = {"assignee_id": "summary-agent", "idempotency_key": "k1"}
    claim = (await act(node, task, "claim", **body)).json()
    await act(node, task, how, claim_token=claim["claim_token"], **({"code": "it.broke"} if how == "fail" else {}))
    assert refused(await act(node, task, "claim", **body)) == (409, "task.state")
    assert (await read(node, task))["status"] == "offered"
    assert (await act(node, task, "claim", **body | {"idempotency_key": "k2"})).status_code == 200


async def test_extending_starts_the_lease_again(node: NodeUnderTest) -> None:
    task = await claimed(node, lease_seconds=60)
    almost = int(await leased(node, task)) - 59_000
    await node.store.command("HSET", keys.task(task["id"]), "lease_expires_at", almost)
    response = await act(node, task, "extend", claim_token=task["claim_token"])
    assert response.status_code == 200
    assert response.json()["lease_expires_at"] >= task["lease_expires_at"]
    assert response.json() == await read(node, task)


async def test_a_claim_without_a_lease_needs_no_extension(node: NodeUnderTest) -> None:
    task = await claimed(node)
    response = await act(node, task, "extend", claim_token=task["claim_token"])
    assert (response.status_code, response.json()["lease_expires_at"]) == (200, None)
    assert await leased(node, task) is None


@pytest.mark.parametrize("by_transition", [False, True])
async def test_completing_ends_the_lease(node: NodeUnderTest, by_transition: bool) -> None:
    task = await claimed(node, lease_seconds=60)
    if by_transition:
        for _ in range(2):
            await act(node, task, "transition", actor_id="summary-agent")
    else:
        await act(node, task, "complete", claim_token=task["claim_token"])
    assert (await read(node, task))["lease_expires_at"] is None
    assert await leased(node, task) is None
    assert refused(await act(node, task, "extend", claim_token=task["claim_token"])) == (409, "task.state")
    assert refused(await act(node, task, "release", claim_token=task["claim_token"])) == (409, "task.state")


async def test_a_released_contract_is_on_offer_again(node: NodeUnderTest) -> None:
    task = await claimed(node, lease_seconds=60)
    await act(node, task, "transition", actor_id="summary-agent")
    found = json_of(await act(node, task, "release", claim_token=task["claim_token"]))
    assert (found["status"], found["assignee_id"], found["attempt"]) == ("offered", None, 1)
    assert (found["claimed_at"], found["lease_expires_at"]) == (None, None)
    assert found == await read(node, task)
    assert await leased(node, task) is None
    assert await listed(node, "offered") == [task["id"]]
    assert await listed(node, "in_progress") == []
    last = (await told(node.store, task["id"]))[-1]
    assert (last["type"], last["attempt"], last["assignee_id"]) == ("task.released", "1", "summary-agent")


async def test_a_repeated_release_gets_the_same_answer(node: NodeUnderTest) -> None:
    task = await claimed(node)
    answers = [await act(node, task, "release", claim_token=task["claim_token"]) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert [event["type"] for event in await told(node.store, task["id"])].count("task.released") == 1
    await act(node, task, "claim", assignee_id="second-agent")
    assert refused(await act(node, task, "release", claim_token=task["claim_token"])) == (403, "task.token")


async def test_a_released_claim_completes_nothing(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "release", claim_token=task["claim_token"])
    for what in ("complete", "extend"):
        assert refused(await act(node, task, what, claim_token=task["claim_token"])) == (403, "task.token")


async def test_the_lists_follow_a_void_claim_as_soon_as_they_are_read(node: NodeUnderTest) -> None:
    task = await lapsed(node)
    assert await listed(node, "claimed") == []
    assert await listed(node, "offered") == [task["id"]]


async def test_the_sweep_ends_what_is_due_and_tells_of_it_once(node: NodeUnderTest) -> None:
    due = [await lapsed(node) for _ in range(3)]
    standing = await claimed(node, lease_seconds=60)
    tasks = tasks_on(node.store)
    assert await tasks.sweep() == 3
    assert await tasks.sweep() == 0
    for task in due:
        assert [event["type"] for event in await told(node.store, task["id"])][-1:] == ["task.expired"]
        assert await leased(node, task) is None
    assert sorted(await listed(node, "offered")) == sorted(task["id"] for task in due)
    assert (await read(node, standing))["status"] == "claimed"


async def test_the_sweep_ends_more_leases_than_there_may_be_calls_to_redis(empty_redis: RedisServer) -> None:
    """Ending all of them at once would be refused, again and again."""
    async with await connect(empty_redis.url, timeout=10, max_in_flight=64) as store:
        tasks = tasks_on(store)
        for _ in range(70):
            task, _ = await tasks.create(NewTask("desk", "Count the panels", lease_seconds=30), UNSIGNED, None, "")
            await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
            await let_end(store, task.id)
        assert await tasks.sweep() == 70
        assert (await tasks.page(TaskPageQuery("offered"))).total == 70


async def test_the_sweep_forgets_a_lease_that_nobody_has(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await node.store.command("ZADD", keys.leases_of(task["id"]), 1, task["id"])
    missing = ids.new_id()
    await node.store.command("ZADD", keys.leases_of(missing), 1, missing)
    tasks = tasks_on(node.store)
    assert await tasks.sweep() == 2
    assert await tasks.sweep() == 0
    assert await leased(node, {"id": missing}) is None
    assert (await read(node, task))["status"] == "claimed"


@pytest.mark.parametrize("is_noticed", [False, True])
@pytest.mark.parametrize("state", ["claimed", "in_progress", "rejected"])
async def test_a_worker_that_falls_silent_costs_its_lease_and_nothing_else(
    node: NodeUnderTest, state: str, is_noticed: bool
) -> None:
    """`is_noticed`: the sweep notices it before another worker comes."""
    task = await claimed(node, lease_seconds=60, review_seconds=600)
    token = {"claim_token": task["claim_token"]}
    if state == "in_progress":
        await act(node, task, "transition", actor_id="summary-agent")
    if state == "rejected":
        await act(node, task, "complete", **token)
        await act(node, task, "reject", publisher_token=task["publisher_token"], reason="Once more, please.")
    nobody = await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "second-agent"})
    assert nobody.status_code == 204
    await let_end(node.store, task["id"])
    if is_noticed:
        assert await tasks_on(node.store).sweep() == 1
        second = (await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "second-agent"})).json()
    else:
        second = (await act(node, task, "claim", assignee_id="second-agent")).json()
    assert (second["id"], second["attempt"], second["assignee_id"]) == (task["id"], 2, "second-agent")
    assert refused(await act(node, task, "complete", **token)) == (403, "task.token")
    done = await act(node, task, "complete", claim_token=second["claim_token"], result_payload=2)
    assert done.status_code == 200
    accepted = (await act(node, task, "accept", publisher_token=task["publisher_token"])).json()
    assert (accepted["status"], accepted["result_payload"]) == ("completed", 2)
    assert accepted["assignee_id"] == "second-agent"


async def test_a_worker_that_falls_silent_after_it_has_submitted_costs_nothing(node: NodeUnderTest) -> None:
    task = await claimed(node, lease_seconds=60, review_seconds=600)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    submitted = await read(node, task)
    assert (submitted["status"], submitted["lease_expires_at"]) == ("submitted", None)
    accepted = (await act(node, task, "accept", publisher_token=task["publisher_token"])).json()
    assert (accepted["status"], accepted["result_payload"]) == ("completed", 1)


CHANGES_SOON = {
    "lease": ("claimed", "lease_expires_at", "offered"),
    "deadline": ("offered", "deadline", "expired"),
    "review": ("submitted", "review_ends_at", "completed"),
}


@pytest.mark.parametrize("change", CHANGES_SOON)
async def test_who_waits_is_told_of_what_the_clock_alone_changes(node: NodeUnderTest, change: str) -> None:
    status, field, after = CHANGES_SOON[change]
    task = await (offered if status == "offered" else claimed)(node, lease_seconds=60, review_seconds=60)
    if status == "submitted":
        await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    now: Any = await node.store.command("TIME", key="")
    soon = int(now[0]) * 1000 + int(now[1]) // 1000 + 200
    await node.store.command("HSET", keys.task(task["id"]), field, soon)
    # No worker runs, so nobody records the change, and no wake-up is sent.
    found = await node.client.get(f"{TASKS}/{task['id']}", params={"wait": 5, "status": status})
    assert found.json()["status"] == after
