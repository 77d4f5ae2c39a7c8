"""Contracts that fail, are retried, and end in time (DESIGN 8)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from node.config import Limit, Limits
from node.store import keys
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN
from tests.tasks.calls import OFFER, TASKS, act, claimed, let_end, offered, read, tasks_on, told

BROKEN = {"code": "input.unreadable", "message": "The second page is blank."}


async def fail(node: NodeUnderTest, task: dict[str, Any], **more: Any) -> Any:
    return await act(node, task, "fail", claim_token=task["claim_token"], **(BROKEN | more))


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


async def test_a_contract_that_fails_once_has_failed(node: NodeUnderTest) -> None:
    task = await claimed(node)
    failed = (await fail(node, task)).json()
    assert (failed["status"], failed["failed_at"]) == ("failed", failed["updated_at"])
    assert failed["attempts"] == [
        {
            "attempt": 1,
            "assignee_id": "summary-agent",
            "claimed_at": task["claimed_at"],
            "ended_at": failed["failed_at"],
            "outcome": "failed",
            "reason": BROKEN | {"retryable": True},
        }
    ]
    dead = (await node.client.get(TASKS, params={"status": "failed"})).json()
    assert dead["tasks"] == [{name: value for name, value in failed.items() if name != "attempts"}]
    assert refused(await act(node, task, "claim", assignee_id="other-agent")) == (409, "task.state")
    await act(node, task, "retry", publisher_token=task["publisher_token"])
    assert (await node.client.get(TASKS, params={"status": "failed"})).json()["total"] == 0


@pytest.mark.parametrize("unreadable", [" ", "two\nlines", "hid\u200bden"])
async def test_the_code_of_a_failure_is_one_line(node: NodeUnderTest, unreadable: str) -> None:
    task = await claimed(node)
    assert (await fail(node, task, code=unreadable)).status_code == 422
    assert (await read(node, task))["status"] == "claimed"


async def test_a_repeated_failure_is_told_the_same_and_counts_once(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=3)
    first, second = [(await fail(node, task)).json() for _ in range(2)]
    assert first == second
    assert [event["type"] for event in await told(node.store, task["id"])] == [
        "task.offered",
        "task.claimed",
        "task.failed",
    ]


async def test_pauses_double_and_nobody_claims_meanwhile(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=10, retry_seconds=100)
    for expected in (100, 200, 400):
        failed = (await fail(node, task)).json()
        assert failed["status"] == "offered"
        assert 0.8 * expected <= seconds_between(failed["updated_at"], failed["retry_at"]) <= 1.2 * expected
        paused = await act(node, task, "claim", assignee_id="summary-agent")
        assert refused(paused) == (409, "task.paused")
        assert 0.7 * expected <= int(paused.headers["retry-after"]) <= 1.2 * expected
        await let_end(node.store, task["id"], "retry_at")
        assert "retry_at" not in await read(node, task)
        task |= (await act(node, task, "claim", assignee_id="summary-agent")).json()


async def test_no_pause_is_longer_than_a_day(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=10, retry_seconds=86_400)
    await node.store.command("HSET", keys.task(task["id"]), "failures", 8)
    failed = (await fail(node, task)).json()
    assert seconds_between(failed["updated_at"], failed["retry_at"]) <= 1.2 * 86_400


async def test_a_failure_is_not_told_again_once_something_else_has_happened(node: NodeUnderTest) -> None:
    ended, given_up = await claimed(node, max_attempts=3), await claimed(node, max_attempts=3)
    await fail(node, ended)
    await act(node, ended, "cancel", publisher_token=ended["publisher_token"])
    assert refused(await fail(node, ended)) == (409, "task.state")
    await act(node, given_up, "release", claim_token=given_up["claim_token"])
    assert refused(await fail(node, given_up)) == (403, "task.token")


async def test_a_lease_that_ran_out_is_an_attempt_of_a_contract_that_counts_them(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=2, lease_seconds=60)
    await let_end(node.store, task["id"])
    seen = await read(node, task)
    assert (seen["status"], [each["outcome"] for each in seen["attempts"]]) == ("offered", ["lapsed"])
    task |= (await act(node, task, "claim", assignee_id="second-agent")).json()
    await let_end(node.store, task["id"])
    before = await read(node, task)
    assert await tasks_on(node.store).sweep() == 1
    after = await read(node, task)
    assert before == after, "a reader sees what the step will write down"
    assert (after["status"], len(after["attempts"])) == ("failed", 2)
    assert [event["type"] for event in await told(node.store, task["id"])][-2:] == ["task.claimed", "task.failed"]


async def test_only_the_last_ten_attempts_and_sixteen_changes_are_kept(node: NodeUnderTest) -> None:
    """This includes a last attempt that has lapsed without anybody having recorded it."""
    task = await claimed(node, max_attempts=1, lease_seconds=60)
    for _ in range(12):
        await fail(node, task, message="x" * 2000)
        await act(node, task, "retry", publisher_token=task["publisher_token"])
        task |= (await act(node, task, "claim", assignee_id="summary-agent")).json()
    assert [each["attempt"] for each in (await read(node, task))["attempts"]] == list(range(3, 13))
    await let_end(node.store, task["id"])
    seen = await read(node, task)
    assert [each["attempt"] for each in seen["attempts"]] == list(range(4, 14))
    assert await tasks_on(node.store).sweep() == 1
    assert await read(node, task) == seen
    changes = await tasks_on(node.store).changes(task["id"])
    happened = [event["type"].removeprefix("task.") for event in await told(node.store, task["id"])]
    assert (changes.count, [what for what, _ in changes.last]) == (len(happened), happened[-16:])


@pytest.mark.parametrize("attempts", [None, 2])
async def test_only_the_publisher_gives_another_attempt(node: NodeUnderTest, attempts: int | None) -> None:
    task = await claimed(node, max_attempts=attempts)
    if attempts:
        await fail(node, task)
        task |= (await act(node, task, "claim", assignee_id="summary-agent")).json()
    assert refused(await act(node, task, "retry", publisher_token=task["publisher_token"])) == (409, "task.state")
    await fail(node, task)
    assert refused(await act(node, task, "retry")) == (403, "task.publisher")
    again = (await act(node, task, "retry", publisher_token=task["publisher_token"])).json()
    assert (again["status"], "failed_at" in again, len(again["attempts"])) == ("offered", False, attempts or 1)
    assert (await told(node.store, task["id"]))[-1]["type"] == "task.retried"
    assert refused(await fail(node, task)) == (403, "task.token")
    second = await act(node, task, "claim", assignee_id="second-agent")
    assert (second.status_code, second.json()["attempt"]) == (200, task["attempt"] + 1)
    assert refused(await fail(node, task)) == (403, "task.token")
    assert (await fail(node, task | second.json())).json()["status"] == "failed"


async def test_after_its_deadline_a_contract_is_expired(node: NodeUnderTest) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    free, taken = await offered(node, deadline=later), await claimed(node, deadline=later)
    for task in (free, taken):
        await let_end(node.store, task["id"], "deadline")
        assert (await read(node, task))["status"] == "expired"
    assert refused(await act(node, free, "claim", assignee_id="late-agent")) == (409, "task.state")
    done = await act(node, taken, "complete", claim_token=taken["claim_token"])
    assert refused(done) == (409, "task.state")
    assert [event["status"] for event in await told(node.store, taken["id"])] == ["offered", "claimed", "expired"]


async def test_skills_are_tags_and_are_shown(node: NodeUnderTest) -> None:
    assert (await offered(node, skills=["c++", "arabic", "c++"]))["skills"] == ["arabic", "c++"]
    for skills in ([""], ["two words"], ["Upper"], ["x"] * 11, ["x" * 51]):
        response = await node.client.post(TASKS, json=OFFER | {"skills": skills})
        assert response.status_code == 422


async def test_what_could_not_succeed_gets_one_more_attempt_when_it_is_tried_again(node: NodeUnderTest) -> None:
    task = await claimed(node, max_attempts=5)
    assert (await fail(node, task, retryable=False)).json()["status"] == "failed"
    await act(node, task, "retry", publisher_token=task["publisher_token"])
    claim = (await act(node, task, "claim", assignee_id="other-agent")).json()
    assert (await fail(node, claim)).json()["status"] == "failed"


async def test_a_result_is_reviewed_before_it_counts(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600, lease_seconds=60)
    token, publisher = {"claim_token": task["claim_token"]}, {"publisher_token": task["publisher_token"]}
    first = (await act(node, task, "complete", **token, result_payload={"pages": 1})).json()
    assert (first["valid"], first["status"], first["completed_at"]) == (True, "submitted", None)
    seen = await read(node, task)
    assert (seen["status"], seen["result_payload"], seen["lease_expires_at"]) == ("submitted", {"pages": 1}, None)
    again = await act(node, task, "complete", **token, result_payload={"pages": 1})
    assert again.json() == first
    assert refused(await act(node, task, "complete", **token, result_payload=2)) == (409, "task.state")
    assert refused(await act(node, task, "cancel", **publisher)) == (409, "task.state")
    assert refused(await act(node, task, "reject", reason="no")) == (403, "task.publisher")
    back = (await act(node, task, "reject", **publisher, reason="Two pages, please.")).json()
    assert (back["status"], back["rejection"]) == ("in_progress", "Two pages, please.")
    assert await node.store.command("HEXISTS", keys.task(task["id"]), "result_payload") == 0
    assert back["lease_expires_at"] > seen["updated_at"]
    other = await act(node, task, "reject", **publisher, reason="Three pages, please.")
    assert refused(other) == (409, "task.state")
    await act(node, task, "complete", **token, result_payload={"pages": 2})
    accepted = (await act(node, task, "accept", **publisher)).json()
    assert (accepted["status"], accepted["result_payload"]) == ("completed", {"pages": 2})
    # With the same reason as its first rejection.
    late = await act(node, task, "reject", **publisher, reason="Two pages, please.")
    assert refused(late) == (409, "task.state")
    assert [event["type"] for event in await told(node.store, task["id"])][2:] == [
        "task.submitted",
        "task.rejected",
        "task.submitted",
        "task.completed",
    ]


async def test_a_void_token_hands_in_nothing_while_another_result_is_reviewed(node: NodeUnderTest) -> None:
    """Such a token must not be told that its result was submitted, even if the result is the same JSON as the other
    worker's.
    """
    task = await claimed(node, review_seconds=600, lease_seconds=60)
    await let_end(node.store, task["id"])
    other = (await act(node, task, "claim", assignee_id="other-agent")).json()
    assert (await act(node, task, "complete", claim_token=other["claim_token"], result_payload=1)).status_code == 200
    late = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    assert refused(late) == (403, "task.token")


async def test_silence_accepts(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    await let_end(node.store, task["id"], "review_ends_at")
    assert (await read(node, task))["status"] == "completed"
    assert refused(await act(node, task, "reject", publisher_token=task["publisher_token"], reason="late")) == (
        409,
        "task.state",
    )


async def test_nobody_waits_for_another_status_of_a_contract_that_is_over(node: NodeUnderTest) -> None:
    """A reader that names the final status as the one it knows must be answered at once."""
    completed, canceled = await claimed(node), await offered(node)
    await act(node, completed, "complete", claim_token=completed["claim_token"])
    await act(node, canceled, "cancel", publisher_token=canceled["publisher_token"])
    async with asyncio.timeout(WOKEN):
        for task, status in ((completed, "completed"), (canceled, "canceled")):
            assert (await read(node, task, wait=30, status=status))["status"] == status


async def test_who_knows_that_a_contract_has_failed_may_wait_for_its_retry(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await fail(node, task)
    async with asyncio.timeout(WOKEN):
        waiting = asyncio.create_task(read(node, task, wait=30, status="failed"))
        await node.listened_to(keys.task(task["id"]))
        await act(node, task, "retry", publisher_token=task["publisher_token"])
        assert (await waiting)["status"] == "offered"


async def test_a_rejection_after_the_deadline_ends_the_contract(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600, lease_seconds=60, deadline="2099-12-31T00:00:00Z")
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    await let_end(node.store, task["id"], "deadline")
    rejection = {"publisher_token": task["publisher_token"], "reason": "Two pages, please."}
    ended = (await act(node, task, "reject", **rejection)).json()
    assert (ended["status"], ended["rejection"]) == ("expired", "Two pages, please.")
    assert ended["updated_at"] == ended["expired_at"] > task["updated_at"]
    assert await read(node, task) == ended == (await act(node, task, "reject", **rejection)).json()
    assert [event["type"] for event in await told(node.store, task["id"])][2:] == ["task.submitted", "task.expired"]


async def test_a_transition_does_not_go_round_the_review(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600)
    move = {"actor_id": "summary-agent"}
    assert (await act(node, task, "transition", **move)).json()["status"] == "in_progress"
    assert refused(await act(node, task, "transition", **move)) == (409, "task.result")


async def test_the_time_of_the_last_change_never_goes_back(node: NodeUnderTest) -> None:
    task = await claimed(node)
    seen = [task["updated_at"]]
    for what, more in (
        ("transition", {"actor_id": "summary-agent"}),
        ("release", {"claim_token": task["claim_token"]}),
    ):
        seen.append((await act(node, task, what, **more)).json()["updated_at"])
    seen.append((await act(node, task, "cancel", publisher_token=task["publisher_token"])).json()["updated_at"])
    assert seen == sorted(seen)
    as_task = await node.client.get(f"{TASKS}/{task['id']}", headers={"a2a-version": "1.0"})
    assert as_task.json()["status"]["timestamp"] == seen[-1]


@pytest.mark.settings(limits=Limits(claim=Limit(3, 60)))
async def test_a_result_is_not_handed_in_and_rejected_without_end(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600)
    statuses: list[int] = []
    for number in range(3):
        completed = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=number)
        statuses.append(completed.status_code)
        rejected = await act(node, task, "reject", publisher_token=task["publisher_token"], reason="No, please.")
        statuses.append(rejected.status_code)
    assert statuses == [200, 200, 200, 200, 200, 429]
