"""One path for two kinds of readers: work contracts for A2A clients and for everybody else (facts of DESIGN 8)."""

from typing import Any

import msgspec
import pytest

from node.a2a.view import contract_as_task
from node.tasks.model import Task
from tests.a2a.calls import A2A, sent
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

OFFER = {"publisher_id": "agent-1", "title": "Translate a memo"}


async def offered(node: NodeUnderTest) -> dict[str, Any]:
    return json_of(await node.client.post("/api/v1/tasks", json=OFFER), 201)


async def as_task(node: NodeUnderTest, task_id: str) -> dict[str, Any]:
    return json_of(await node.client.get(f"/api/v1/tasks/{task_id}", headers=A2A))


async def test_an_a2a_client_never_sees_a_string_status(node: NodeUnderTest) -> None:
    contract = await offered(node)
    assert (await node.client.get(f"/api/v1/tasks/{contract['id']}")).json()["status"] == "offered"
    assert await as_task(node, contract["id"]) == {
        "id": contract["id"],
        "contextId": contract["id"],
        "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": contract["created_at"]},
        "history": [
            {
                "messageId": contract["id"],
                "role": "ROLE_USER",
                "parts": [{"text": "Translate a memo"}],
                "contextId": contract["id"],
                "taskId": contract["id"],
            }
        ],
        "metadata": {
            "kind": "workContract",
            "contractStatus": "offered",
            "title": "Translate a memo",
            "publisherId": "agent-1",
            "isSigned": False,
        },
    }


@pytest.mark.parametrize("named", ["\u0430gent-1", "agent\u2800-1", "x" * 200])
async def test_a_message_id_that_is_no_fair_name_is_not_shown_as_one(node: NodeUnderTest, named: str) -> None:
    message = {"messageId": named, "role": "ROLE_USER", "parts": [{"text": "Translate this memo into plain words."}]}
    response = await node.client.post("/api/v1/a2a/tasks", json={"message": message}, headers=A2A)
    assert response.status_code == 200, response.text
    publisher = response.json()["task"]["metadata"]["publisherId"]
    assert publisher.startswith("a2a:")
    assert publisher.isascii()
    assert named not in publisher


async def test_a_reader_who_asks_for_the_media_type_or_version_by_query_is_an_a2a_client(node: NodeUnderTest) -> None:
    contract = await offered(node)
    path = f"/api/v1/tasks/{contract['id']}"
    by_type = await node.client.get(path, headers={"accept": "application/a2a+json"})
    by_query = await node.client.get(f"{path}?A2A-Version=1.0")
    assert by_type.json()["status"] == by_query.json()["status"]
    assert by_type.headers["content-type"] == "application/a2a+json"
    by_no_type = await node.client.get(path, headers={"accept": "application/a2a+json;q=0, application/json"})
    assert by_no_type.json()["status"] == "offered"


async def test_lists_of_contracts_are_for_readers_who_ask_for_contracts(node: NodeUnderTest) -> None:
    contract = await offered(node)
    for query in ("status=offered", "limit=5", "offset=0"):
        page = (await node.client.get(f"/api/v1/tasks?{query}")).json()
        assert [task["id"] for task in page["tasks"]] == [contract["id"]]
        assert page["tasks"][0]["is_signed"] is False
    for headers, query in (
        (A2A, "limit=5"),
        (A2A, ""),
        ({}, ""),
        ({}, "status="),
        ({}, "unknown=1"),
        ({"accept": "application/a2a+json"}, ""),
        ({}, "A2A-Version=1.0"),
        ({}, "pageSize=20"),
        ({}, "status=TASK_STATE_SUBMITTED"),
        ({}, "contextId=x&limit=5"),
    ):
        page = (await node.client.get(f"/api/v1/tasks?{query}", headers=headers)).json()
        assert page == {"tasks": [], "nextPageToken": "", "pageSize": 20, "totalSize": 0}


async def test_contracts_are_listed_as_such_even_to_an_a2a_client_that_asks_for_them(node: NodeUnderTest) -> None:
    contract = await offered(node)
    page = (await node.client.get("/api/v1/tasks?status=offered", headers=A2A)).json()
    assert [task["status"] for task in page["tasks"]] == [contract["status"]] == ["offered"]


async def test_an_a2a_client_follows_a_contract_to_its_result(node: NodeUnderTest) -> None:
    body = {
        "message": {
            "messageId": "m-1",
            "role": "ROLE_USER",
            "parts": [{"text": "Translate this memo into plain words. It has two pages."}],
            "metadata": {"publisherId": "agent-1"},
        }
    }
    task = json_of(await node.client.post("/api/v1/a2a/tasks", json=body, headers=A2A))["task"]
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert task["metadata"]["title"] == "Translate this memo into plain words."
    path = f"/api/v1/tasks/{task['id']}"
    claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "worker"})).json()
    moved = await node.client.post(f"{path}/transition", json={"actor_id": "worker"})
    assert moved.json()["status"] == "in_progress"
    working = await as_task(node, task["id"])
    assert (working["status"]["state"], working["metadata"]["assigneeId"]) == ("TASK_STATE_WORKING", "worker")
    result = {"pages": 2, "text": ["first", None]}
    await node.client.post(f"{path}/complete", json={"claim_token": claim["claim_token"], "result_payload": result})
    done = await as_task(node, task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"] == [{"artifactId": "result", "parts": [{"data": result}]}]
    assert claim["claim_token"] not in str(done)
    mine = {"metadata": {"publisherToken": task["metadata"]["publisherToken"]}}
    late = (await node.client.post(f"{path}:cancel", json=mine, headers=A2A)).json()["error"]
    assert late["message"].endswith("cannot be canceled: it is completed")


async def test_a_result_that_waits_for_review_is_no_end_and_an_expired_contract_has_failed(
    node: NodeUnderTest,
) -> None:
    offer = OFFER | {"review_seconds": 600}
    contract = (await node.client.post("/api/v1/tasks", json=offer)).json()
    path = f"/api/v1/tasks/{contract['id']}"
    claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "worker"})).json()
    await node.client.post(f"{path}/complete", json={"claim_token": claim["claim_token"], "result_payload": 1})
    assert (await as_task(node, contract["id"]))["status"]["state"] == "TASK_STATE_WORKING"
    shown = msgspec.json.decode((await node.client.get(path)).content, type=Task)
    expired = contract_as_task(msgspec.structs.replace(shown, status="expired"))
    assert expired.status.state == "TASK_STATE_FAILED"


async def test_a_parameter_that_an_a2a_client_made_up_is_named(node: NodeUnderTest) -> None:
    contract = await offered(node)
    response = await node.client.get(f"/api/v1/tasks/{contract['id']}?wait=0&colour=red", headers=A2A)
    assert response.headers["x-ignored-fields"] == "query.wait, query.colour"


async def test_only_what_was_handed_in_is_an_artifact(node: NodeUnderTest) -> None:
    """Null is a result if a worker submitted it. A contract that was completed by a transition has no result."""
    ended: list[dict[str, Any]] = []
    for is_handed_in in (True, False):
        contract = await offered(node)
        path = f"/api/v1/tasks/{contract['id']}"
        claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "worker"})).json()
        if is_handed_in:
            body = {"claim_token": claim["claim_token"], "result_payload": None}
            assert (await node.client.post(f"{path}/complete", json=body)).status_code == 200
        else:
            for status in ("in_progress", "completed"):
                moved = await node.client.post(f"{path}/transition", json={"actor_id": "worker", "status": status})
                assert moved.status_code == 200, moved.text
        assert (await node.client.get(path)).json()["result_payload"] is None
        ended.append(await as_task(node, contract["id"]))
    assert [task["status"]["state"] for task in ended] == ["TASK_STATE_COMPLETED"] * 2
    assert ended[0]["artifacts"] == [{"artifactId": "result", "parts": [{"data": None}]}]
    assert "artifacts" not in ended[1]


async def test_only_the_publisher_cancels_a_contract(node: NodeUnderTest) -> None:
    contract = await offered(node)
    path = f"/api/v1/tasks/{contract['id']}:cancel"
    for body in (None, {}, {"metadata": {"publisherToken": "wrong"}}):
        refused = await node.client.post(path, json=body, headers=A2A)
        assert refused.status_code == 400
        assert refused.json()["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"
    body = {"id": contract["id"], "metadata": {"publisherToken": contract["publisher_token"]}}
    canceled = await node.client.post(path, json=body, headers=A2A)
    assert canceled.json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await as_task(node, contract["id"]))["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_message_to_a_contract_is_refused(node: NodeUnderTest) -> None:
    contract = await offered(node)
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}], "taskId": contract["id"]}}
    for context in ({}, {"contextId": contract["id"]}):
        said = {"message": body["message"] | context}
        error = (await node.client.post("/api/v1/message:send", json=said, headers=A2A)).json()
        assert error["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


async def test_the_card_is_the_same_at_both_addresses_and_can_be_cached(node: NodeUnderTest) -> None:
    first = await node.client.get("/.well-known/agent-card.json")
    second = await node.client.get("/api/v1/a2a/card")
    assert first.content == second.content
    card = first.json()
    assert card["supportedInterfaces"] == [
        {"url": "http://node.example/api/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    ]
    (extension,) = card["capabilities"]["extensions"]
    key = (await node.client.get(extension["uri"])).json()
    assert extension["params"] == {"webhookPublicKey": key["webhook_public_key"], "did": key["did"]}
    assert first.headers["cache-control"].startswith("public, max-age=")
    assert first.headers["last-modified"].endswith("GMT")
    assert (card["documentationUrl"], card["iconUrl"]) == (
        "http://node.example/llms.txt",
        "http://node.example/favicon.svg",
    )
    again = await node.client.get("/api/v1/a2a/card", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for name in ("etag", "cache-control"):
        assert again.headers[name] == first.headers[name]


async def test_an_offer_may_ask_for_proof_and_a_lease(node: NodeUnderTest) -> None:
    message = {
        "messageId": "m-2",
        "role": "ROLE_USER",
        "parts": [{"text": "Translate this memo into plain words."}],
        "metadata": {"publisherId": "agent-1", "leaseSeconds": 60, "requireProof": True},
    }
    offer = (await node.client.post("/api/v1/a2a/tasks", json={"message": message}, headers=A2A)).json()["task"]
    contract = (await node.client.get(f"/api/v1/tasks/{offer['id']}")).json()
    assert (contract["lease_seconds"], contract["require_proof"]) == (60, True)
    wrong = {"message": message | {"metadata": {"leaseSeconds": "soon"}}}
    assert (await node.client.post("/api/v1/a2a/tasks", json=wrong, headers=A2A)).status_code == 400


async def test_an_offer_is_answered_with_the_history_that_was_asked_for(node: NodeUnderTest) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Translate this memo into plain words."}]}
    body = {"message": message, "configuration": {"historyLength": 0}}
    task = (await node.client.post("/api/v1/a2a/tasks", json=body, headers=A2A)).json()["task"]
    assert "history" not in task


@pytest.mark.parametrize("operation", ["subscribe", "cancel"])
async def test_another_version_is_refused_for_its_version(node: NodeUnderTest, operation: str) -> None:
    response = await node.client.post(f"/api/v1/tasks/x:{operation}", headers={"a2a-version": "0.3"})
    assert response.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_the_context_of_a_contract_lists_it(node: NodeUnderTest) -> None:
    contract = await offered(node)
    path = f"/api/v1/tasks?contextId={contract['id']}"
    found = (await node.client.get(path, headers=A2A)).json()
    assert ([task["id"] for task in found["tasks"]], found["totalSize"]) == ([contract["id"]], 1)
    short = (await node.client.get(f"{path}&historyLength=0", headers=A2A)).json()
    assert ["history" in task for task in (*found["tasks"], *short["tasks"])] == [True, False]
    working = await node.client.get(f"{path}&status=TASK_STATE_WORKING", headers=A2A)
    assert working.json()["tasks"] == []
    at = contract["updated_at"]
    assert (await node.client.get(f"{path}&statusTimestampAfter={at}", headers=A2A)).json()["totalSize"] == 1
    later = (await node.client.get(f"{path}&statusTimestampAfter=9000-01-01T00:00:00Z", headers=A2A)).json()
    assert (later["tasks"], later["totalSize"]) == ([], 0)


@pytest.mark.parametrize("size", [1, 2, 3, 50])
async def test_the_context_of_a_contract_lists_it_after_the_messages_in_it(node: NodeUnderTest, size: int) -> None:
    contract = await offered(node)
    said: list[str] = []
    for words in ("When can you begin?", "Please tell me the price."):
        await node.a_millisecond_later()
        said.insert(0, (await sent(node, words, contextId=contract["id"]))["id"])
    seen: list[str] = []
    token = ""
    while token or not seen:
        query = {"contextId": contract["id"], "pageSize": size, "pageToken": token}
        page = (await node.client.get("/api/v1/tasks", params=query, headers=A2A)).json()
        assert (page["totalSize"], len(page["tasks"]) <= size) == (3, True)
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
    assert seen == [*said, contract["id"]]


async def test_a_contract_that_has_changed_since_comes_before_the_messages_in_its_context(node: NodeUnderTest) -> None:
    contract = await offered(node)
    message = await sent(node, "Please begin.", contextId=contract["id"])
    await node.a_millisecond_later()
    claim = await node.client.post(f"/api/v1/tasks/{contract['id']}/claim", json={"assignee_id": "w"})
    assert claim.status_code == 200
    page = (await node.client.get("/api/v1/tasks", params={"contextId": contract["id"]}, headers=A2A)).json()
    assert [task["id"] for task in page["tasks"]] == [contract["id"], message["id"]]


async def test_a_list_shows_the_result_of_a_contract_to_who_asks_for_artifacts(node: NodeUnderTest) -> None:
    contract = await offered(node)
    path = f"/api/v1/tasks/{contract['id']}"

    async def listed(asked: str) -> Any:
        query = f"contextId={contract['id']}&includeArtifacts={asked}"
        [task] = (await node.client.get(f"/api/v1/tasks?{query}", headers=A2A)).json()["tasks"]
        return task.get("artifacts")

    assert [await listed("true"), await listed("false")] == [[], None]
    claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "w"})).json()
    done = {"claim_token": claim["claim_token"], "result_payload": {"pages": 2}}
    assert (await node.client.post(f"{path}/complete", json=done)).status_code == 200
    result = [{"artifactId": "result", "parts": [{"data": {"pages": 2}}]}]
    assert [await listed("true"), await listed("false")] == [result, None]


async def test_a_contract_shows_a2a_clients_what_it_asks_for_and_why_it_failed(node: NodeUnderTest) -> None:
    offer = OFFER | {"description": "Two pages, in plain words.", "skills": ["arabic"]}
    contract = (await node.client.post("/api/v1/tasks", json=offer)).json()
    path = f"/api/v1/tasks/{contract['id']}"
    claim = (await node.client.post(f"{path}/claim", json={"assignee_id": "w"})).json()
    failed = {"claim_token": claim["claim_token"], "code": "input.unreadable"}
    assert (await node.client.post(f"{path}/fail", json=failed)).status_code == 200
    task = await as_task(node, contract["id"])
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["history"][0]["parts"] == [{"text": "Two pages, in plain words."}]
    assert task["metadata"]["skills"] == ["arabic"]
    [attempt] = task["metadata"]["attempts"]
    assert attempt["reason"]["code"] == "input.unreadable"
    assert (attempt["assigneeId"], attempt["outcome"]) == (claim["assignee_id"], "failed")


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("limit=0", "limit"),
        ("offset=-1&skill=arabic", "offset"),
        ("publisher_id=", "publisher_id"),
        ("skill=Arabic!", "skill"),
        ("status=offered&limit=51&pageSize=0", "limit"),
        ("pageSize=0", "pageSize"),
        ("contextId=c&historyLength=-1&limit=0", "historyLength"),
    ],
)
async def test_each_reader_of_the_list_is_refused_what_is_wrong_for_it(
    node: NodeUnderTest, query: str, wrong: str
) -> None:
    response = await node.client.get(f"/api/v1/tasks?{query}")
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["query", wrong])


async def test_beside_parameters_of_a2a_those_of_contracts_are_ignored(node: NodeUnderTest) -> None:
    response = await node.client.get("/api/v1/tasks?contextId=c&limit=0&skill=Arabic!")
    assert (response.status_code, response.json()["tasks"]) == (200, [])
    assert response.headers["x-ignored-fields"] == "query.limit, query.skill"
