"""Claims, work and completion of contracts over HTTP (SPEC 3.1, 4.3; DESIGN 8)."""

import asyncio
from typing import Any

import msgspec
import pytest

from node.common.refusal import Refused
from node.config import Limit, Limits
from node.sign.signed import UNSIGNED
from node.store import connect, keys
from node.tasks.model import Completion, NewClaim, NewTask
from node.tasks.steps import Claim
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.answers import json_of, refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN, RedisServer
from tests.tasks.calls import TASKS, UNKNOWN_ID, act, claimed, offered, read, tasks_on, told, uncharged

CALLBACK = "https://agents.example/hook"


async def test_a_claim_answers_with_the_record_and_a_token(node: NodeUnderTest) -> None:
    task = await offered(node)
    claim = json_of(await act(node, task, "claim", assignee_id="summary-agent"))
    assert (claim["status"], claim["assignee_id"], claim["attempt"]) == ("claimed", "summary-agent", 1)
    assert claim["claimed_at"] is not None
    assert claim["lease_expires_at"] is None
    assert claim.pop("claim_token")
    assert claim == await read(node, task)


async def test_a_later_claimer_is_refused(node: NodeUnderTest) -> None:
    task = await claimed(node)
    assert refused(await act(node, task, "claim", assignee_id="late-agent")) == (409, "task.claimed")
    assert refused(await act(node, task, "claim", assignee_id="summary-agent")) == (409, "task.claimed")
    assert (await read(node, task))["assignee_id"] == "summary-agent"


async def test_of_a_thousand_claimers_one_wins(empty_redis: RedisServer) -> None:
    async with await connect(empty_redis.url, timeout=10, max_in_flight=10_000) as store:
        tasks = tasks_on(store)
        task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")

        async def claim(number: int) -> str | None:
            try:
                return (await tasks.claim(task.id, NewClaim(f"agent-{number}"), UNSIGNED, None))[0].assignee_id
            except Refused as refusal:
                assert refusal.code == "task.claimed"
                return None

        winners = [name for name in await asyncio.gather(*map(claim, range(1000))) if name is not None]
        assert winners == [(await tasks.get(task.id)).assignee_id]
        assert [event["type"] for event in await told(store, task.id)] == ["task.offered", "task.claimed"]


async def test_a_repeated_claim_gets_the_same_answer(node: NodeUnderTest) -> None:
    task = await offered(node)
    body = {"assignee_id": "summary-agent", "idempotency_key": "k1"}
    first = await act(node, task, "claim", **body)
    again = await act(node, task, "claim", **body)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    await act(node, task, "transition", actor_id="summary-agent")
    later = await act(node, task, "claim", **body)
    assert (later.json()["status"], later.json()["claim_token"]) == ("in_progress", first.json()["claim_token"])


async def test_the_header_counts_as_the_key_of_a_claim(node: NodeUnderTest) -> None:
    url = f"{TASKS}/{(await offered(node))['id']}/claim"
    answers = [
        await node.client.post(url, json={"assignee_id": "a"}, headers={"idempotency-key": "k1"}) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()


async def test_a_worker_cannot_claim_under_a_name_that_looks_like_another(node: NodeUnderTest) -> None:
    response = await act(node, await offered(node), "claim", assignee_id="summ\u0430ry-agent")
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", "assignee_id"]


async def test_the_key_of_a_claim_is_good_for_its_assignee_only(node: NodeUnderTest) -> None:
    task = await offered(node)
    await act(node, task, "claim", assignee_id="summary-agent", idempotency_key="k1")
    other = await act(node, task, "claim", assignee_id="late-agent", idempotency_key="k1")
    assert refused(other) == (409, "task.claimed")


async def test_the_same_key_claims_several_contracts(node: NodeUnderTest) -> None:
    tokens: set[str] = set()
    for task in (await offered(node), await offered(node)):
        claim = await act(node, task, "claim", assignee_id="summary-agent", idempotency_key="k1")
        tokens.add(claim.json()["claim_token"])
    assert len(tokens) == 2


async def test_claims_are_limited_for_each_address(node: NodeUnderTest) -> None:
    body = {"assignee_id": ""}
    answers = [await act(node, {"id": UNKNOWN_ID}, "claim", **body) for _ in range(61)]
    assert [response.status_code for response in answers] == [422] * 60 + [429]


@pytest.mark.settings(limits=Limits(claim=Limit(2, 60), lost_claim=Limit(4, 60)))
async def test_lost_claims_have_a_larger_limit_of_their_own(node: NodeUnderTest) -> None:
    task = await claimed(node)
    lost = [await act(node, each, "claim", assignee_id="late-agent") for each in (task, {"id": UNKNOWN_ID}) * 2]
    assert [refused(each) for each in lost] == [(409, "task.claimed"), (404, "task.unknown")] * 2
    assert lost[-1].headers["ratelimit"].startswith('"claim";r=1;')
    assert '"lost_claim";r=0;' in lost[-1].headers["ratelimit"]
    over = await act(node, task, "claim", assignee_id="late-agent")
    assert refused(over) == (429, "limit.exceeded")
    assert int(over.headers["retry-after"]) > 0


@pytest.mark.settings(limits=Limits(result=Limit(2, 60)))
async def test_refused_results_are_limited_and_accepted_ones_are_not(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema={"type": "integer"})
    others = [await claimed(node) for _ in range(3)]
    answers = [
        await act(node, each, "complete", claim_token=each["claim_token"], result_payload="many")
        for each in (*others, task, task, task)
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 422, 422, 429]


@pytest.mark.settings(limits=Limits(lease=Limit(2, 60)))
@pytest.mark.parametrize("what", ["extend", "release"])
async def test_steps_that_a_holder_may_repeat_are_limited(node: NodeUnderTest, what: str) -> None:
    task = await claimed(node, lease_seconds=60)
    answers = [await act(node, task, "extend", claim_token=task["claim_token"]) for _ in range(2)]
    answers.append(await act(node, task, what, claim_token=task["claim_token"]))
    assert [answer.status_code for answer in answers] == [200, 200, 429]


@pytest.mark.parametrize("body", [{}, {"assignee_id": ""}, {"assignee_id": "a\nb"}, {"assignee_id": "x" * 201}])
async def test_a_claim_needs_a_name(node: NodeUnderTest, body: dict[str, str]) -> None:
    response = await act(node, await offered(node), "claim", **body)
    assert response.json()["detail"][0]["loc"] == ["body", "assignee_id"]
    assert response.status_code == 422


async def test_a_contract_moves_to_in_progress_and_completed(node: NodeUnderTest) -> None:
    task = await claimed(node)
    first = await act(node, task, "transition", actor_id="summary-agent")
    assert (first.status_code, first.json()["status"]) == (200, "in_progress")
    second = await act(node, task, "transition", actor_id="report-desk")
    assert (second.status_code, second.json()["status"]) == (200, "completed")
    assert second.json()["result_payload"] is None
    assert second.json() == await read(node, task)
    third = await act(node, task, "transition", actor_id="report-desk")
    assert refused(third) == (409, "task.state")


async def test_an_offered_contract_moves_nowhere(node: NodeUnderTest) -> None:
    response = await act(node, await offered(node), "transition", actor_id="report-desk")
    assert refused(response) == (409, "task.state")
    assert "is offered, which does not allow this step. Claim an offered one;" in response.json()["error"]


async def test_a_stranger_moves_nothing(node: NodeUnderTest) -> None:
    task = await claimed(node)
    assert refused(await act(node, task, "transition", actor_id="stranger")) == (403, "task.actor")
    assert (await read(node, task))["status"] == "claimed"


@pytest.mark.parametrize("wanted", ["offered", "claimed", "completed", "canceled"])
async def test_a_status_that_is_not_the_next_one_is_refused(node: NodeUnderTest, wanted: str) -> None:
    task = await claimed(node)
    response = await act(node, task, "transition", actor_id="summary-agent", status=wanted)
    assert refused(response) == (409, "task.state")
    assert (await act(node, task, "transition", actor_id="summary-agent", status="in_progress")).status_code == 200


async def test_one_role_may_stand_for_the_actor(node: NodeUnderTest) -> None:
    task = await claimed(node)
    assert (await act(node, task, "transition", assignee_id="summary-agent")).json()["status"] == "in_progress"
    assert (await act(node, task, "transition", publisher_id="report-desk")).json()["status"] == "completed"


@pytest.mark.parametrize("body", [{}, {"publisher_id": "report-desk", "assignee_id": "summary-agent"}])
async def test_a_transition_names_one_actor(node: NodeUnderTest, body: dict[str, str]) -> None:
    said = json_of(await act(node, await claimed(node), "transition", **body), 422)["detail"][0]
    assert said["loc"] == ["body", "actor_id"]
    assert "publisher_id or assignee_id" in said["msg"]


async def test_a_repeated_transition_moves_once(node: NodeUnderTest) -> None:
    task = await claimed(node)
    url, header = f"{TASKS}/{task['id']}/transition", {"idempotency-key": "k1"}
    answers = [await node.client.post(url, json={"actor_id": "summary-agent"}, headers=header) for _ in range(2)]
    assert [answer.json()["status"] for answer in answers] == ["in_progress", "in_progress"]
    assert answers[1].headers["idempotency-replayed"] == "true"
    other = await node.client.post(url, json={"actor_id": "report-desk"}, headers=header)
    assert refused(other) == (422, "idempotency.conflict")


async def test_a_transition_repeated_after_its_contract_was_compacted_moves_once(node: NodeUnderTest) -> None:
    """The repetition must not be refused as a step on a contract that has ended."""
    task = await claimed(node)
    url, header = f"{TASKS}/{task['id']}/transition", {"idempotency-key": "k1"}
    await act(node, task, "transition", actor_id="summary-agent")
    first = await node.client.post(url, json={"actor_id": "summary-agent"}, headers=header)
    assert await TaskStore(node.store, 60).compact([task["id"]]) == 1
    again = await node.client.post(url, json={"actor_id": "summary-agent"}, headers=header)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("started", [False, True])
async def test_a_contract_is_completed_with_its_result(node: NodeUnderTest, started: bool) -> None:
    task = await claimed(node)
    if started:
        await act(node, task, "transition", actor_id="summary-agent")
    result = {"pages": [1, {"deep": None}], "text": "Ergebnis auf Deutsch"}
    response = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=result)
    assert response.status_code == 200
    answer, found = response.json(), await read(node, task)
    assert answer == {
        "valid": True,
        "id": task["id"],
        "status": "completed",
        "elapsed_ms": found["elapsed_ms"],
        "completed_at": found["completed_at"],
    }
    assert (found["status"], found["result_payload"]) == ("completed", result)


@pytest.mark.parametrize("result", [b"null", b'{"b" : 1, "a":12345678901234567890123}', b'"text"', b"[ ]", b"1.50"])
async def test_a_result_is_kept_to_the_byte(node: NodeUnderTest, result: bytes) -> None:
    task = await claimed(node)
    assert (await complete_with(node, task, result)).status_code == 200
    assert b'"result_payload":' + result in (await node.client.get(f"{TASKS}/{task['id']}")).content


async def test_a_result_may_be_left_out(node: NodeUnderTest) -> None:
    task = await claimed(node)
    assert (await act(node, task, "complete", claim_token=task["claim_token"])).status_code == 200
    assert (await read(node, task))["result_payload"] is None


async def test_a_repeated_completion_gets_the_same_answer(node: NodeUnderTest) -> None:
    task = await claimed(node)
    body = {"claim_token": task["claim_token"], "result_payload": {"pages": 1}}
    answers = [await act(node, task, "complete", **body) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert [event["type"] for event in await told(node.store, task["id"])].count("task.completed") == 1


async def complete_with(node: NodeUnderTest, task: dict[str, Any], result: bytes) -> Any:
    """Return the response to a completion with these bytes as its result."""
    body = b'{"claim_token":"' + task["claim_token"].encode() + b'","result_payload":' + result + b"}"
    headers = {"content-type": "application/json"}
    return await node.client.post(f"{TASKS}/{task['id']}/complete", content=body, headers=headers)


@pytest.mark.parametrize("compacted", [False, True])
async def test_the_same_result_written_otherwise_is_the_same_and_stays_as_it_was(
    node: NodeUnderTest, compacted: bool
) -> None:
    task = await claimed(node)
    first = await complete_with(node, task, b'{"b":[1,2.50],"a":"caf\xc3\xa9"}')
    if compacted:
        assert await TaskStore(node.store, 60).compact([task["id"]]) == 1
    again = await complete_with(node, task, b'{\n  "a": "caf\\u00e9",\n  "b": [1, 2.5]\n}')
    assert (again.status_code, again.json()) == (200, first.json())
    assert b'"result_payload":{"b":[1,2.50],' in (await node.client.get(f"{TASKS}/{task['id']}")).content
    for other in (b'{"b":[2,2.50],"a":"caf\xc3\xa9"}', b'{"b":[true,2.5],"a":"caf\xc3\xa9"}', b"null"):
        assert refused(await complete_with(node, task, other)) == (409, "task.completed")


@pytest.mark.parametrize("result", [b"1e400", b"[-1e999]", b'{"a":' + b"9" * 400 + b"}"])
async def test_a_number_that_no_reader_can_hold_is_no_result(node: NodeUnderTest, result: bytes) -> None:
    task = await claimed(node)
    response = await complete_with(node, task, result)
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", "result_payload"])
    assert (await read(node, task))["status"] == "claimed"


async def test_a_result_is_not_replaced(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload={"pages": 1})
    other = await act(node, task, "complete", claim_token=task["claim_token"], result_payload={"pages": 2})
    assert refused(other) == (409, "task.completed")
    assert (await read(node, task))["result_payload"] == {"pages": 1}


class Removing(TaskStore):
    """A store in which the contract is removed while its result is being refused."""

    async def complete(self, task_id: str, claim: Claim, result: bytes, *, is_checked: bool = False) -> StoredTask:
        try:
            return await super().complete(task_id, claim, result, is_checked=is_checked)
        finally:
            await self.forget({task_id: ""})


async def test_a_contract_that_is_removed_before_its_result_is_compared_is_unknown(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload={"pages": 1})
    tasks = tasks_on(node.store, through=Removing(node.store, 3600))
    with pytest.raises(Refused, match=r"task\.unknown"):
        await tasks.complete(task["id"], Completion(task["claim_token"], msgspec.Raw(b"2")), uncharged)


async def test_a_transition_to_completed_leaves_the_result_null(node: NodeUnderTest) -> None:
    task = await claimed(node)
    for _ in range(2):
        await act(node, task, "transition", actor_id="summary-agent")
    assert (await act(node, task, "complete", claim_token=task["claim_token"])).json()["valid"] is True
    late = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    assert refused(late) == (409, "task.completed")


async def test_a_completed_contract_is_not_claimed(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "complete", claim_token=task["claim_token"])
    response = await act(node, task, "claim", assignee_id="late-agent")
    assert refused(response) == (409, "task.state")
    assert response.json()["error"].startswith("The task is completed, which does not allow this step.")


async def test_every_change_is_told_once(node: NodeUnderTest) -> None:
    task = await claimed(node, callback_url=CALLBACK)
    await act(node, task, "transition", actor_id="summary-agent")
    await act(node, task, "complete", claim_token=task["claim_token"])
    events = await told(node.store, task["id"])
    assert [event["type"] for event in events] == [
        "task.offered",
        "task.claimed",
        "task.in_progress",
        "task.completed",
    ]
    about = {"id": task["id"], "attempt": "1", "assignee_id": "summary-agent", "callback": CALLBACK}
    assert events[-1] == {"type": "task.completed", "status": "completed"} | about


async def test_a_reader_is_answered_when_the_status_changes(node: NodeUnderTest) -> None:
    task = await offered(node)
    async with asyncio.timeout(WOKEN):
        reading = asyncio.create_task(read(node, task, wait=30, status="offered"))
        await node.listened_to(keys.task(task["id"]))
        assert not reading.done()
        await act(node, task, "claim", assignee_id="summary-agent")
        assert (await reading)["status"] == "claimed"


async def test_a_reader_who_waits_is_told_that_a_contract_was_removed(node: NodeUnderTest) -> None:
    task = await offered(node)
    async with asyncio.timeout(WOKEN):
        url = f"{TASKS}/{task['id']}"
        reading = asyncio.create_task(node.client.get(url, params={"wait": 30, "status": "offered"}))
        await node.listened_to(keys.task(task["id"]))
        assert await TaskStore(node.store, 60).forget({task["id"]: ""}) == [task["id"]]
        assert refused(await reading) == (404, "task.unknown")


async def test_a_reader_who_names_no_status_is_answered_when_the_present_one_changes(node: NodeUnderTest) -> None:
    """Otherwise `wait` has no effect, and a reader that repeats its request polls without a pause (DESIGN 6)."""
    task = await offered(node)
    async with asyncio.timeout(WOKEN):
        reading = asyncio.create_task(read(node, task, wait=30))
        await node.listened_to(keys.task(task["id"]))
        assert not reading.done()
        await act(node, task, "claim", assignee_id="summary-agent")
        assert (await reading)["status"] == "claimed"


async def test_who_names_no_status_of_a_contract_that_is_over_is_answered_at_once(node: NodeUnderTest) -> None:
    completed, failed, canceled = await claimed(node), await claimed(node), await offered(node)
    await act(node, completed, "complete", claim_token=completed["claim_token"])
    await act(node, failed, "fail", claim_token=failed["claim_token"], code="broken")
    await act(node, canceled, "cancel", publisher_token=canceled["publisher_token"])
    async with asyncio.timeout(WOKEN):
        statuses = [(await read(node, task, wait=30))["status"] for task in (completed, canceled, failed)]
    assert statuses == ["completed", "canceled", "failed"]


@pytest.mark.parametrize("query", [{"wait": 30, "status": "claimed"}, {"wait": 0, "status": "offered"}])
async def test_a_reader_who_knows_less_is_answered_at_once(node: NodeUnderTest, query: dict[str, Any]) -> None:
    task = await offered(node)
    async with asyncio.timeout(WOKEN):
        assert (await read(node, task, **query))["status"] == "offered"


@pytest.mark.parametrize("query", [{"wait": 31}, {"wait": -1}, {"wait": "nan"}, {"status": "open"}])
async def test_a_wait_out_of_range_is_refused(node: NodeUnderTest, query: dict[str, Any]) -> None:
    task = await offered(node)
    assert (await node.client.get(f"{TASKS}/{task['id']}", params=query)).status_code == 422
