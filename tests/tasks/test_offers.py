"""Offering, reading and listing contracts over HTTP (SPEC 4.3, DESIGN 8)."""

from typing import Any

import pytest

from node.common.refusal import Invalid, Refused
from node.sign.signed import UNSIGNED
from node.store import ids, keys
from node.tasks.model import NewTask
from node.tasks.store import TaskStore
from tests.artifacts.calls import registered
from tests.support.answers import json_of, refused
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import OFFER, TASKS, UNKNOWN_ID, act, claimed, offered, tasks_on, told


async def test_an_offer_answers_with_its_record(node: NodeUnderTest) -> None:
    response = await node.client.post(TASKS, json=OFFER | {"description": "One page of plain English."})
    assert response.status_code == 201
    task = response.json()
    assert response.headers["location"] == task["url"] == f"http://node.example{TASKS}/{task['id']}"
    assert task.pop("publisher_token")
    assert task["created_at"].endswith("Z")
    assert task.pop("created_at") == task.pop("updated_at")
    assert task == OFFER | {
        "id": task["id"],
        "url": task["url"],
        "status": "offered",
        "description": "One page of plain English.",
        "input_artifact_ids": [],
        "is_signed": False,
        "signature": None,
        "require_proof": False,
        "assignee_id": None,
        "claimed_at": None,
        "completed_at": None,
        "elapsed_ms": None,
        "lease_seconds": None,
        "lease_expires_at": None,
        "attempt": 0,
    }


async def test_a_record_shows_neither_tokens_nor_keys_nor_the_callback(node: NodeUnderTest) -> None:
    private = {"callback_url": "https://agents.example/hook", "idempotency_key": "a secret of the publisher"}
    task = await claimed(node, **private)
    for shown in (
        await node.client.get(f"{TASKS}/{task['id']}"),
        await node.client.get(TASKS, params={"status": "claimed"}),
    ):
        assert shown.status_code == 200
        for secret in (task["claim_token"], task["publisher_token"], *private.values()):
            assert secret not in shown.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publisher_id", None),
        ("publisher_id", ""),
        ("publisher_id", "x" * 201),
        ("publisher_id", "two\nlines"),
        ("title", None),
        ("title", ""),
        ("title", "   "),
        ("title", "x" * 201),
        ("title", "Summarise\na report"),
        ("title", "Summarise \u202ea report"),
        ("title", "\u2060"),
        ("publisher_id", "agent\u200b-7"),
        ("publisher_id", "\u0430gent-7"),
        ("title", "Summarise a rep\u043ert"),
        ("title", 7),
        ("description", "x" * 20_001),
        ("idempotency_key", ""),
        ("idempotency_key", "x" * 256),
        ("lease_seconds", 29),
        ("lease_seconds", 86_401),
        ("lease_seconds", "soon"),
        ("require_proof", "yes"),
        ("input_artifact_ids", "one"),
        ("input_artifact_ids", ["x"] * 51),
        ("callback_url", "http://127.0.0.1/hook"),
        ("retry_seconds", 5),  # a pause needs a second attempt
        ("deadline", "2020-01-01T00:00:00Z"),
        ("deadline", "2030-01-01T00:00:00"),
        ("deadline", "9999-12-31T23:59:59-23:59"),
        ("deadline", "soon"),
        ("deadline", 5),
    ],
)
async def test_a_field_that_cannot_be_is_named(node: NodeUnderTest, field: str, value: object) -> None:
    (issue,) = json_of(await node.client.post(TASKS, json=OFFER | {field: value}), 422)["detail"]
    assert issue["loc"] == ["body", field]


async def test_a_skill_ends_with_its_last_letter(node: NodeUnderTest) -> None:
    response = await node.client.post(TASKS, json=OFFER | {"skills": ["law\n"]})
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", "skills", 0])


async def test_an_offer_needs_publisher_and_title(node: NodeUnderTest) -> None:
    for missing in ("publisher_id", "title"):
        response = await node.client.post(TASKS, json={k: v for k, v in OFFER.items() if k != missing})
        assert response.json()["detail"] == [{"loc": ["body", missing], "msg": "Field required", "type": "missing"}]


@pytest.mark.parametrize("field", ["title", "description"])
async def test_an_offer_that_is_not_english_is_refused(node: NodeUnderTest, field: str) -> None:
    foreign = "Bitte fasse diesen Bericht über Solaranlagen auf einer Seite zusammen."
    response = await node.client.post(TASKS, json=OFFER | {field: foreign})
    assert refused(response) == (400, "language.not_english")


async def test_an_offer_that_is_not_json_is_refused(node: NodeUnderTest) -> None:
    response = await node.client.post(TASKS, content="title=x", headers={"content-type": "text/plain"})
    assert refused(response) == (415, "body.media_type")


async def test_hidden_characters_are_left_out_of_a_description(node: NodeUnderTest) -> None:
    task = await offered(node, description="One page\x1b[31m of plain\u202e English.\nWith figures.")
    assert task["description"] == "One page of plain English.\nWith figures."


async def test_inputs_must_be_known_artifacts(node: NodeUnderTest) -> None:
    known = ids.new_id()
    tasks = tasks_on(node.store, known)
    task, _ = await tasks.create(NewTask("desk", "Read the report", input_artifact_ids=[known]), UNSIGNED, None, "")
    assert task.input_artifact_ids == [known]
    with pytest.raises(Invalid) as caught:
        await tasks.create(
            NewTask("desk", "Read the report", input_artifact_ids=[known, UNKNOWN_ID]), UNSIGNED, None, ""
        )
    (issue,) = caught.value.issues
    assert (issue.loc, issue.input) == (("body", "input_artifact_ids", 1), UNKNOWN_ID)


async def test_the_same_key_answers_with_the_same_contract(node: NodeUnderTest) -> None:
    first = await node.client.post(TASKS, json=OFFER | {"idempotency_key": "k1"})
    again = await node.client.post(TASKS, json=OFFER | {"idempotency_key": "k1"})
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert len(await told(node.store, first.json()["id"])) == 1


async def test_an_offer_repeated_after_it_was_claimed_gets_the_answer_that_it_had(node: NodeUnderTest) -> None:
    offer = OFFER | {"idempotency_key": "k1", "lease_seconds": 60, "max_attempts": 2, "skills": ["summarise"]}
    first = await node.client.post(TASKS, json=offer)
    claim = (await act(node, first.json(), "claim", assignee_id="summary-agent")).json()
    await act(node, first.json(), "complete", claim_token=claim["claim_token"], result_payload={"pages": 1})
    assert (await node.client.post(TASKS, json=offer)).json() == first.json()


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_offer_repeated_after_its_input_was_rejected_gets_the_answer_that_it_had(
    node: NodeUnderTest, is_known: bool
) -> None:
    artifact = (await registered(node))["id"]
    offer = OFFER | {"input_artifact_ids": [artifact], "max_attempts": 2}
    header = {"idempotency-key": "k1"}
    first = await node.client.post(TASKS, json=offer, headers=header)
    assert first.status_code == 201, first.text
    if is_known:
        await node.store.command("HSET", keys.artifact(artifact), "status", "rejected")
    else:
        await node.store.command("DEL", keys.artifact(artifact))
    again = await node.client.post(TASKS, json=offer, headers=header)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    for body, headers in ((offer, {}), (offer, {"idempotency-key": "k2"}), (offer | {"title": "Other"}, header)):
        assert (await node.client.post(TASKS, json=body, headers=headers)).status_code == 422


async def test_a_key_is_good_for_one_body_and_named_where_it_was_given(node: NodeUnderTest) -> None:
    other = OFFER | {"title": "Count the panels"}
    for field, header, loc in (
        ({"idempotency_key": "k1"}, {}, ["body", "idempotency_key"]),
        ({}, {"idempotency-key": "k2"}, ["header", "Idempotency-Key"]),
        ({"idempotency_key": "k3"}, {"idempotency-key": "k2"}, ["body", "idempotency_key"]),
    ):
        await node.client.post(TASKS, json=OFFER | field, headers=header)
        conflict = await node.client.post(TASKS, json=other | field, headers=header)
        assert refused(conflict) == (422, "idempotency.conflict")
        assert conflict.json()["detail"][0]["loc"] == loc


async def test_a_key_belongs_to_its_publisher(node: NodeUnderTest) -> None:
    first = await offered(node, idempotency_key="k1")
    other = await offered(node, idempotency_key="k1", publisher_id="another-desk")
    assert other["id"] != first["id"]


async def test_offers_are_limited_for_each_address(node: NodeUnderTest) -> None:
    answers = [await node.client.post(TASKS, json=OFFER) for _ in range(31)]
    assert [response.status_code for response in answers] == [201] * 30 + [429]
    assert "retry-after" in answers[-1].headers
    async with node.client_at("203.0.113.8") as other:
        assert (await other.post(TASKS, json=OFFER)).status_code == 201


@pytest.mark.parametrize("task_id", ["nonsense", UNKNOWN_ID])
async def test_an_unknown_contract_is_not_found(node: NodeUnderTest, task_id: str) -> None:
    unknown = {"id": task_id}
    token = (await claimed(node))["claim_token"]
    for response in (
        await node.client.get(f"{TASKS}/{task_id}"),
        await act(node, unknown, "claim", assignee_id="a"),
        await act(node, unknown, "transition", actor_id="a"),
        await act(node, unknown, "complete", claim_token=token),
        await act(node, unknown, "extend", claim_token=token),
        await act(node, unknown, "release", claim_token=token),
        await act(node, unknown, "fail", claim_token=token, code="it.broke"),
        await act(node, unknown, "retry", publisher_token="x"),
        await act(node, unknown, "accept", publisher_token="x"),
        await act(node, unknown, "reject", publisher_token="x", reason="Too short"),
        await act(node, unknown, "cancel", publisher_token="x"),
        await act(node, unknown, "cancel"),
    ):
        assert refused(response) == (404, "task.unknown")


async def test_a_message_task_is_no_contract(node: NodeUnderTest) -> None:
    text = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello from agent A."}]}
    sent = (await node.client.post("/api/v1/message:send", json={"message": text})).json()["task"]
    await node.store.command("ZADD", keys.tasks_with("offered"), 1, sent["id"])
    with pytest.raises(Refused, match=r"task\.unknown"):
        await tasks_on(node.store).get(sent["id"])
    assert refused(await act(node, sent, "claim", assignee_id="a")) == (404, "task.unknown")
    assert (await node.client.get(TASKS, params={"status": "offered"})).json()["tasks"] == []
    assert await node.store.command("ZCARD", keys.tasks_with("offered")) == 0
    assert await TaskStore(node.store, 60).forget({sent["id"]: ""}) == []
    assert (await node.client.get(f"{TASKS}/{sent['id']}", headers={"a2a-version": "1.0"})).status_code == 200


async def test_offers_are_listed_newest_first(node: NodeUnderTest) -> None:
    ids = [(await offered(node))["id"] for _ in range(5)]
    page = (await node.client.get(TASKS, params={"status": "offered", "limit": 2, "offset": 1})).json()
    assert [task["id"] for task in page["tasks"]] == [ids[3], ids[2]]
    assert (page["total"], page["limit"], page["offset"]) == (5, 2, 1)
    assert page["tasks"][0]["is_signed"] is False


async def test_a_list_shows_twenty_unless_asked(node: NodeUnderTest) -> None:
    page = (await node.client.get(TASKS, params={"status": "offered"})).json()
    assert page == {"tasks": [], "total": 0, "limit": 20, "offset": 0, "next_since": "0-0"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("limit", "0"), ("limit", "51"), ("limit", "x"), ("offset", "-1"), ("offset", "9" * 40), ("status", "open")),
        *(("since", "1-1\n"), ("since", "1" * 20 + "-0"), ("since", "0-" + "9" * 20), ("since", "\u0661-0")),
    ],
)
async def test_a_list_query_out_of_range_is_named(node: NodeUnderTest, name: str, value: str) -> None:
    (issue,) = json_of(await node.client.get(TASKS, params={"status": "offered", name: value}), 422)["detail"]
    assert issue["loc"] == ["query", name]


async def test_there_is_a_list_for_each_status(node: NodeUnderTest) -> None:
    tasks: dict[str, dict[str, Any]] = {"offered": await offered(node)}
    for status in ("claimed", "in_progress", "completed", "canceled"):
        tasks[status] = await claimed(node)
    await act(node, tasks["in_progress"], "transition", actor_id="summary-agent")
    await act(node, tasks["completed"], "complete", claim_token=tasks["completed"]["claim_token"], result_payload=[1])
    await act(node, tasks["canceled"], "cancel", publisher_token=tasks["canceled"]["publisher_token"])
    for status, task in tasks.items():
        page = (await node.client.get(TASKS, params={"status": status})).json()
        assert [(found["id"], found["status"]) for found in page["tasks"]] == [(task["id"], status)]
        assert page["total"] == 1
        assert "result_payload" not in page["tasks"][0]


async def test_a_short_key_tells_the_token_of_a_compacted_contract_no_more(node: NodeUnderTest) -> None:
    task = await offered(node, idempotency_key="k1")
    await act(node, task, "cancel", publisher_token=task["publisher_token"])
    await node.store.command("HSET", keys.task(task["id"]), "created_at", 1)
    assert await TaskStore(node.store, 60).compact([task["id"]]) == 1
    again = await node.client.post(TASKS, json=OFFER | {"idempotency_key": "k1"})
    assert refused(again) == (422, "idempotency.short")
