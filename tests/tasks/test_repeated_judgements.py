"""A publisher whose answer was lost repeats its rejection or retry under its Idempotency-Key; the step is done once."""

from typing import Any

import pytest

from tests.board.signed_posts import send
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import OFFER, TASKS, act, claimed, read, signed, signed_request

KEY = {"idempotency-key": "a secret of the publisher"}
OTHER_KEY = {"idempotency-key": "other secret of the publisher"}
REASON = {"reason": "Two pages, please."}


async def judge(node: NodeUnderTest, task: dict[str, Any], what: str, headers: dict[str, str], **body: Any) -> Any:
    """Return the response to a step of the publisher."""
    body = {"publisher_token": task["publisher_token"], **body}
    return await node.client.post(f"{TASKS}/{task['id']}/{what}", json=body, headers=headers)


async def hand_in(node: NodeUnderTest, task: dict[str, Any], result: int) -> None:
    done = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=result)
    assert done.json()["status"] == "submitted"


async def fail(node: NodeUnderTest, task: dict[str, Any]) -> None:
    failed = await act(node, task, "fail", claim_token=task["claim_token"], code="it.broke")
    assert failed.json()["status"] == "failed"


async def claim_again(node: NodeUnderTest, task: dict[str, Any]) -> dict[str, Any]:
    return task | (await act(node, task, "claim", assignee_id="summary-agent")).json()


async def test_a_rejection_that_is_repeated_rejects_no_later_result(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600)
    await hand_in(node, task, 1)
    first = await judge(node, task, "reject", KEY, **REASON)
    assert (first.status_code, first.json()["status"], "idempotency-replayed" in first.headers) == (
        200,
        "in_progress",
        False,
    )
    again = await judge(node, task, "reject", KEY, **REASON)
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    await hand_in(node, task, 2)
    late = await judge(node, task, "reject", KEY, **REASON)
    assert (late.json()["status"], late.headers["idempotency-replayed"]) == ("submitted", "true")
    assert (await read(node, task))["result_payload"] == 2
    assert refused(await judge(node, task, "reject", KEY, reason="No.")) == (422, "idempotency.conflict")
    assert (await judge(node, task, "reject", OTHER_KEY, **REASON)).json()["status"] == "in_progress"


async def test_a_retry_that_is_repeated_gives_no_second_attempt(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await fail(node, task)
    first = await judge(node, task, "retry", KEY)
    assert (first.status_code, first.json()["status"]) == (200, "offered")
    again = await judge(node, task, "retry", KEY)
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    assert refused(await judge(node, task, "retry", KEY, note="again")) == (422, "idempotency.conflict")
    await fail(node, await claim_again(node, task))
    late = await judge(node, task, "retry", KEY)
    assert (late.json()["status"], late.headers["idempotency-replayed"]) == ("failed", "true")
    assert (await judge(node, task, "retry", OTHER_KEY)).json()["status"] == "offered"


async def test_a_retry_of_what_is_on_offer_already_is_remembered_too(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await fail(node, task)
    await judge(node, task, "retry", {})
    assert (await judge(node, task, "retry", KEY)).json()["status"] == "offered"
    await fail(node, await claim_again(node, task))
    assert (await judge(node, task, "retry", KEY)).json()["status"] == "failed"


@pytest.mark.parametrize("is_same", [True, False], ids=["the same signature", "a new signature"])
async def test_a_signed_retry_may_be_repeated_with_its_key(node: NodeUnderTest, is_same: bool) -> None:
    offer = (await signed(node, TASKS, OFFER)).json()
    task = await claim_again(node, offer)
    await fail(node, task)
    path = f"{TASKS}/{task['id']}/retry"
    request = signed_request(path, {})
    assert (await send(node, request, **KEY)).json()["status"] == "offered"
    await fail(node, await claim_again(node, task))
    again = await send(node, request if is_same else signed_request(path, {}), **KEY)
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    assert refused(await send(node, request)) == (409, "signature.replayed")


@pytest.mark.parametrize("what", ["reject", "retry"])
async def test_whoever_has_the_key_alone_is_told_nothing(node: NodeUnderTest, what: str) -> None:
    task = await claimed(node, review_seconds=600)
    if what == "reject":
        await hand_in(node, task, 1)
    else:
        await fail(node, task)
    body = REASON if what == "reject" else {}
    assert (await judge(node, task, what, KEY, **body)).status_code == 200
    for shown in ({}, {"publisher_token": "wrong"}):
        other = await node.client.post(f"{TASKS}/{task['id']}/{what}", json=shown | body, headers=KEY)
        assert refused(other) == (403, "task.publisher")


async def test_a_key_counts_for_one_contract_and_one_step(node: NodeUnderTest) -> None:
    first, second = await claimed(node), await claimed(node, review_seconds=600)
    for task in (first, second):
        await fail(node, task)
        assert "idempotency-replayed" not in (await judge(node, task, "retry", KEY)).headers
    second = await claim_again(node, second)
    await hand_in(node, second, 1)
    rejected = await judge(node, second, "reject", KEY, **REASON)
    assert (rejected.status_code, rejected.json()["status"]) == (200, "in_progress")
