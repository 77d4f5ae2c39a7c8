"""A2A messages over HTTP+JSON, on a real Redis (SPEC 4.2, A2A v1.0.1)."""

import asyncio
from typing import Any

import pytest

from node.a2a.model import MAX_NAMED
from node.a2a.request import NAMED_BYTES
from node.config import Limit, Limits
from node.store import ids, keys
from tests.a2a.calls import A2A, SEND, fields, message, reason, sent
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest


async def test_a_message_is_acknowledged_as_a_completed_task(node: NodeUnderTest) -> None:
    response = await node.client.post(SEND, json=message(), headers=A2A)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["task"]
    task = response.json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["metadata"] == {"referenceId": task["id"], "nodeId": "relay-node"}
    assert task["artifacts"][0]["parts"][0]["text"] == f"acknowledged {task['id']}"
    assert task["history"] == [
        message()["message"] | {"taskId": task["id"], "contextId": task["contextId"]},
    ]


async def test_the_task_can_be_read_afterwards_by_anybody(node: NodeUnderTest) -> None:
    task = await sent(node)
    for headers in (A2A, {}):
        found = await node.client.get(f"/api/v1/tasks/{task['id']}", headers=headers)
        assert found.json() == task
        assert found.headers["vary"] == "Accept, A2A-Version"


async def test_a_context_is_kept_and_lists_its_tasks_newest_first(node: NodeUnderTest) -> None:
    tasks = [await sent(node, f"Message number {n}", contextId="my context / 1") for n in range(5)]
    assert {task["contextId"] for task in tasks} == {"my context / 1"}
    await sent(node, "In another context")
    query = {"contextId": "my context / 1", "pageSize": "2"}
    seen: list[str] = []
    token = ""
    while True:
        page = (await node.client.get("/api/v1/tasks", params=query | {"pageToken": token}, headers=A2A)).json()
        assert (page["pageSize"], page["totalSize"]) == (2, 5)
        assert all("artifacts" not in task for task in page["tasks"])
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert sorted(seen) == sorted(task["id"] for task in tasks)
    assert len(set(seen)) == 5


async def test_without_a_context_nothing_is_listed(node: NodeUnderTest) -> None:
    await sent(node)
    page = (await node.client.get("/api/v1/tasks", headers=A2A)).json()
    assert page == {"tasks": [], "nextPageToken": "", "pageSize": 20, "totalSize": 0}


async def test_a_list_can_be_narrowed(node: NodeUnderTest) -> None:
    task = await sent(node, contextId="c")
    at = task["status"]["timestamp"]

    async def listed(**query: str) -> list[dict[str, Any]]:
        return json_of(await node.client.get("/api/v1/tasks", params={"contextId": "c"} | query, headers=A2A))["tasks"]

    assert [found["id"] for found in await listed(statusTimestampAfter=at)] == [task["id"]]
    assert [found["id"] for found in await listed(statusTimestampAfter=at[:-1] + "0000Z")] == [task["id"]]
    assert await listed(statusTimestampAfter=at[:-1] + "001Z") == [], "a moment later"
    for name in ("statusTimestampAfter", "lastUpdatedAfter"):
        assert await listed(**{"statusTimestampAfter": at, name: "2999-01-01T00:00:00Z"}) == []
    assert len(await listed(pageSize="100")) == 1
    assert await listed(status="TASK_STATE_WORKING") == []
    assert (await listed(status="TASK_STATE_COMPLETED", includeArtifacts="true"))[0]["artifacts"] == task["artifacts"]
    assert "history" not in (await listed(historyLength="0"))[0]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageToken=%21%21", "pageToken"),
        ("historyLength=-1", "historyLength"),
        ("status=finished", "status"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("lastUpdatedAfter=yesterday", "lastUpdatedAfter"),
        ("statusTimestampAfter=2026-01-01T00:00:00Z&lastUpdatedAfter=yesterday", "lastUpdatedAfter"),
    ],
)
async def test_a_bad_query_is_named_for_both_readers(node: NodeUnderTest, query: str, field: str) -> None:
    error = json_of(await node.client.get(f"/api/v1/tasks?contextId=c&{query}", headers=A2A), 422)
    assert error["detail"][0]["loc"] == ["query", field]
    assert reason(error) == "INVALID_PARAMS"
    assert fields(error) == [field]


async def test_history_is_as_long_as_asked_for(node: NodeUnderTest) -> None:
    body = message() | {"configuration": {"historyLength": 0}}
    task = (await node.client.post(SEND, json=body, headers=A2A)).json()["task"]
    assert "history" not in task
    assert "history" not in (await node.client.get(f"/api/v1/tasks/{task['id']}?historyLength=0", headers=A2A)).json()
    assert len((await node.client.get(f"/api/v1/tasks/{task['id']}", headers=A2A)).json()["history"]) == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, ["message"]),
        ({"message": {}}, ["message.messageId", "message.role", "message.parts"]),
        (message(parts=[]), ["message.parts"]),
        (message(role="ROLE_AGENT"), ["message.role"]),
        (message(role="user"), ["message.role"]),
        (message(messageId=7), ["message.messageId"]),
        (message(messageId="m" * 257), ["message.messageId"]),
        (message(contextId="c" * 257), ["message.contextId"]),
        (message(parts=[{"raw": "a"}]), ["message.parts.0.raw"]),
        (message(parts=[{}]), ["message.parts.0"]),
        (message(parts=[{"text": "hi", "data": {}}]), ["message.parts.0"]),
        (message(parts=[{"text": "hi", "raw": "aGk="}]), ["message.parts.0"]),
        (message(parts=[{"text": "hi", "url": "https://x.example/f"}]), ["message.parts.0"]),
        (message(parts=[{"text": 5}]), ["message.parts.0.text"]),
        (message(parts=[{"text": "  "}]), ["message.parts.0.text"]),
        (message(parts=[{"text": "\u200b\u3164"}]), ["message.parts.0.text"]),
        (message(parts=["hello"]), ["message.parts.0"]),
        (message(parts=[None]), ["message.parts.0"]),
        (message(metadata=[]), ["message.metadata"]),
        (message(parts=[{"text": "hi"}, {"text": "hi", "metadata": "x"}]), ["message.parts.1.metadata"]),
        (message() | {"metadata": 1}, ["metadata"]),
        (message() | {"configuration": {"historyLength": -1}}, ["configuration.historyLength"]),
        (message("Hola mundo amigo, necesito tu ayuda"), ["message.parts.0.text"]),
    ],
)
async def test_a_bad_message_is_named_by_its_fields(node: NodeUnderTest, body: object, named: list[str]) -> None:
    error = json_of(await node.client.post(SEND, json=body, headers=A2A), 400)
    assert error["error"]["code"] == 400
    assert error["error"]["status"] == "INVALID_ARGUMENT"
    assert reason(error) == "INVALID_PARAMS"
    assert fields(error) == named


@pytest.mark.parametrize(
    "part",
    [{"data": {"k": 1}}, {"raw": "aGk="}, {"url": "https://x.example/f"}, {"text": "<p>", "mediaType": "text/html"}],
)
async def test_parts_that_are_not_plain_text_are_refused(node: NodeUnderTest, part: dict[str, Any]) -> None:
    error = (await node.client.post(SEND, json=message(parts=[{"text": "Look at this"}, part]), headers=A2A)).json()
    assert error["error"]["code"] == 400
    assert reason(error) == "CONTENT_TYPE_NOT_SUPPORTED"
    assert "part 1 is not; give the URL" in error["error"]["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
async def test_what_is_no_object_is_an_invalid_request(node: NodeUnderTest, body: bytes) -> None:
    response = await node.client.post(SEND, content=body, headers=A2A | {"content-type": "application/json"})
    assert response.status_code == 400
    assert reason(response.json()) == "INVALID_REQUEST"
    assert fields(response.json()) == ["body"]


async def test_what_is_wrong_with_json_is_said(node: NodeUnderTest) -> None:
    response = await node.client.post(SEND, content=b'{"message":', headers=A2A | {"content-type": "application/json"})
    assert "truncated" in response.json()["error"]["message"]


async def test_another_content_type_is_refused(node: NodeUnderTest) -> None:
    response = await node.client.post(SEND, content=b"hello", headers=A2A | {"content-type": "text/plain"})
    assert response.status_code == 415
    assert response.headers["content-type"] == "application/json"
    assert reason(response.json()) == "CONTENT_TYPE_NOT_SUPPORTED"


@pytest.mark.parametrize(
    ("version", "status"), [("1.0", 200), ("1.0.1", 200), ("1.3", 200), ("0.3", 400), ("2.0", 400), ("x", 400)]
)
async def test_versions_other_than_one_are_refused(node: NodeUnderTest, version: str, status: int) -> None:
    response = await node.client.post(SEND, json=message(), headers={"a2a-version": version})
    assert response.status_code == status
    if status == 400:
        assert reason(response.json()) == "VERSION_NOT_SUPPORTED"


async def test_a_client_that_names_the_media_type_gets_it(node: NodeUnderTest) -> None:
    response = await node.client.post(SEND, json=message(), headers={"accept": "application/a2a+json"})
    assert response.headers["content-type"] == "application/a2a+json"
    sent = await node.client.post(SEND, json=message(), headers={"content-type": "application/a2a+json"})
    assert (sent.status_code, sent.headers["content-type"]) == (200, "application/a2a+json")
    for accept in ("*/*, application/a2a+json;q=0", "application/json, application/a2a+json;q=0.5", "application/json"):
        headers = {"accept": accept, "content-type": "application/a2a+json"}
        unwanted = await node.client.post(SEND, json=message(), headers=headers)
        assert (unwanted.status_code, unwanted.headers["content-type"]) == (200, "application/json"), accept
    unwanted = await node.client.post(SEND, json=message(), headers={"accept": "application/a2a+json;q=0"})
    assert unwanted.headers["content-type"] == "application/json"
    refused = await node.client.post(SEND, json={}, headers={"accept": "application/a2a+json"})
    assert refused.headers["content-type"] == "application/json"


async def test_proto_names_and_unknown_fields_are_read(node: NodeUnderTest) -> None:
    body = {
        "message": {
            "message_id": "m-2",
            "role": 1,
            "context_id": "c-2",
            "reference_task_ids": ["t-1"],
            "parts": [{"text": "Hello there", "media_type": "text/plain", "colour": "red"}],
            "unknown": {"x": None},
        },
        "tenant": "t",
    }
    task = (await node.client.post(SEND, json=body, headers=A2A)).json()["task"]
    assert task["contextId"] == "c-2"
    (said,) = task["history"]
    assert (said["parts"], said["referenceTaskIds"]) == ([{"text": "Hello there", "mediaType": "text/plain"}], ["t-1"])
    follow = await node.client.post(SEND, json=message(task_id=task["id"]), headers=A2A)
    assert reason(follow.json()) == "UNSUPPORTED_OPERATION"


async def test_what_nobody_sees_is_not_kept(node: NodeUnderTest) -> None:
    sent = message(parts=[{"text": "Hello\u200b there\U000e0041 \x1b[1m👩\u200d🚀"}])
    task = (await node.client.post(SEND, json=sent, headers=A2A)).json()["task"]
    assert task["history"][0]["parts"] == [{"text": "Hello there 👩\u200d🚀"}]


async def test_a_follow_up_to_a_finished_task_is_refused(node: NodeUnderTest) -> None:
    task = await sent(node, contextId="c")
    follow = await node.client.post(SEND, json=message(taskId=task["id"], contextId="c"), headers=A2A)
    assert reason(follow.json()) == "UNSUPPORTED_OPERATION"
    other = await node.client.post(SEND, json=message(taskId=task["id"], contextId="d"), headers=A2A)
    assert (other.status_code, reason(other.json())) == (400, "INVALID_PARAMS")
    unknown = await node.client.post(SEND, json=message(taskId="no-such-task"), headers=A2A)
    assert (unknown.status_code, reason(unknown.json())) == (404, "TASK_NOT_FOUND")
    assert unknown.json()["error"]["details"][0]["metadata"]["taskId"] == "no-such-task"


async def test_the_same_message_twice_is_two_tasks_and_with_a_key_one(node: NodeUnderTest) -> None:
    first, second = await sent(node), await sent(node)
    assert first["id"] != second["id"]
    key = A2A | {"idempotency-key": "once"}
    answers = [await node.client.post(SEND, json=message(), headers=key) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotency-replayed"] == "true"
    other = await node.client.post(SEND, json=message("Something else"), headers=key)
    assert (other.status_code, reason(other.json())) == (422, "INVALID_PARAMS")


async def test_a_key_that_outlives_its_task_says_so(node: NodeUnderTest) -> None:
    """An empty object would be neither a task nor a message."""
    key = A2A | {"idempotency-key": "once"}
    task = (await node.client.post(SEND, json=message(), headers=key)).json()["task"]
    await node.store.command("DEL", keys.task(task["id"]))
    again = await node.client.post(SEND, json=message(), headers=key)
    assert (again.status_code, reason(again.json())) == (404, "TASK_NOT_FOUND")


async def test_a_key_is_good_for_one_body_whatever_its_context(node: NodeUnderTest) -> None:
    """If the record of a key were looked for in the message's context only, another context would get another task."""
    # The record is kept in the client's partition for a name that the client chose, and in the partition of the context
    # for an id of the node's form.
    contexts = [None, "c-1", *(ids.unlisted_id(partition) for partition in range(8))]
    for number, mine in enumerate(contexts):
        key = A2A | {"idempotency-key": f"k-{number}"}
        first = await node.client.post(SEND, json=message(contextId=mine), headers=key)
        again = await node.client.post(SEND, json=message(contextId=mine), headers=key)
        assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
        other = contexts[(number + 1) % len(contexts)]
        refused = await node.client.post(SEND, json=message(contextId=other), headers=key)
        assert (refused.status_code, reason(refused.json())) == (422, "INVALID_PARAMS")


async def test_a_message_that_was_refused_leaves_its_key_free(node: NodeUnderTest) -> None:
    key = A2A | {"idempotency-key": "k"}
    foreign = message("Hola mundo amigo, necesito tu ayuda", contextId="c")
    assert (await node.client.post(SEND, json=foreign, headers=key)).status_code == 400
    assert (await node.client.post(SEND, json=message(contextId="c"), headers=key)).status_code == 200


async def test_the_sixty_first_message_in_a_minute_is_refused(node: NodeUnderTest) -> None:
    answers = await asyncio.gather(
        *(
            node.client.post(SEND, json=message(contextId=f"c-{n % 3}" if n % 2 else None), headers=A2A)
            for n in range(70)
        )
    )
    codes = [answer.status_code for answer in answers]
    assert (codes.count(200), codes.count(429)) == (60, 10)
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert reason(refused.json()) == "RATE_LIMITED"
    assert int(refused.headers["retry-after"]) >= 1


@pytest.mark.settings(limits=Limits(message=Limit(3, 60)))
async def test_a_message_counts_wherever_its_context_is(node: NodeUnderTest) -> None:
    contexts = [None, *(ids.unlisted_id(partition) for partition in range(3))]
    answers = [await node.client.post(SEND, json=message(contextId=each), headers=A2A) for each in contexts]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    left = [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers]
    assert left == ['"message";r=2', '"message";r=1', '"message";r=0', '"message";r=0']


@pytest.mark.parametrize(
    ("method", "path", "why"),
    [
        ("POST", "/api/v1/message:stream", "UNSUPPORTED_OPERATION"),
        ("POST", "/api/v1/tasks/any:subscribe", "UNSUPPORTED_OPERATION"),
        ("GET", "/api/v1/tasks/any:subscribe", "UNSUPPORTED_OPERATION"),
        ("GET", "/api/v1/extendedAgentCard", "UNSUPPORTED_OPERATION"),
        ("GET", "/api/v1/tasks/any/pushNotificationConfigs", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("POST", "/api/v1/tasks/any/pushNotificationConfigs", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "/api/v1/tasks/any/pushNotificationConfigs/c1", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("DELETE", "/api/v1/tasks/any/pushNotificationConfigs/c1", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    ],
)
async def test_what_is_not_supported_says_so(node: NodeUnderTest, method: str, path: str, why: str) -> None:
    response = await node.client.request(method, path, headers=A2A | {"accept": "text/event-stream"})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert reason(response.json()) == why
    other = await node.client.request(method, path, headers={"a2a-version": "0.3"})
    assert reason(other.json()) == "VERSION_NOT_SUPPORTED"


async def test_a_push_config_inside_a_message_is_refused(node: NodeUnderTest) -> None:
    for name in ("taskPushNotificationConfig", "task_push_notification_config"):
        for config in ({"url": "https://x.example"}, {}):
            body = message() | {"configuration": {name: config}}
            error = (await node.client.post(SEND, json=body, headers=A2A)).json()
            assert reason(error) == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_canceling_a_message_task_is_refused(node: NodeUnderTest) -> None:
    task = await sent(node)
    error = (await node.client.post(f"/api/v1/tasks/{task['id']}:cancel", headers=A2A)).json()
    assert reason(error) == "TASK_NOT_CANCELABLE"
    unknown = await node.client.post("/api/v1/tasks/no-such-task:cancel", headers=A2A)
    assert (unknown.status_code, reason(unknown.json())) == (404, "TASK_NOT_FOUND")


async def test_a_message_that_is_refused_for_what_it_says_counts(node: NodeUnderTest) -> None:
    foreign = message("Hola mundo amigo, necesito tu ayuda")
    bodies = [{}, message(parts=[{"url": "https://x.example/f"}]), message(taskId="no-such-task"), foreign] * 15
    codes = [(await node.client.post(SEND, json=body, headers=A2A)).status_code for body in bodies]
    assert set(codes) == {400, 404}
    assert (await node.client.post(SEND, json=message(), headers=A2A)).status_code == 429


@pytest.mark.parametrize("name", ["extensions", "referenceTaskIds", "reference_task_ids"])
async def test_a_message_names_at_most_so_many_extensions_and_tasks(node: NodeUnderTest, name: str) -> None:
    """260,000 names of one letter would take 14 ms, and would be kept and shown."""

    def named(value: object) -> dict[str, Any]:
        return {"message": message()["message"] | {name: value}}

    shown = "extensions" if name == "extensions" else "referenceTaskIds"
    most = [f"{n}" for n in range(MAX_NAMED)]
    sent = await node.client.post(SEND, json=named(most), headers=A2A)
    assert sent.json()["task"]["history"][0][shown] == most
    wrong_ones: list[Any] = [[*most, "one more"], ["x" * NAMED_BYTES], ["a", 5], "a", {}]
    for wrong in wrong_ones:
        response = await node.client.post(SEND, json=named(wrong), headers=A2A)
        assert (response.status_code, reason(response.json())) == (400, "INVALID_PARAMS"), wrong
        assert fields(response.json())[0].startswith(f"message.{shown}")
