"""What the JSON-RPC binding of an inbox's agent refuses, and how (JSON-RPC 2.0, A2A v1.0 §9)."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from node.a2a.inboxes import service
from node.inbox.model import BODY_BYTES
from tests.inbox.calls import INBOXES, UNKNOWN_ADDRESS, Json, closed, opened, path_of, read, settled, signed
from tests.support.node_under_test import PATIENCE, NodeUnderTest

MESSAGE: Json = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
SENT: Json = {"message": MESSAGE, "configuration": {"returnImmediately": True}}
JSON = {"content-type": "application/json"}


def call(params: object = SENT, **members: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params} | members


async def called(node: NodeUnderTest, inbox: Json, body: object, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await node.client.post(path_of(inbox, "/a2a"), json=body, headers=named)


async def result(node: NodeUnderTest, inbox: Json, method: str, params: Json, **headers: str) -> Json:
    answer = (await called(node, inbox, call(params, method=method), **headers)).json()
    assert "result" in answer, answer
    return answer["result"]


@pytest.mark.parametrize("params", [[], [SENT], None, "x", 5])
async def test_params_that_are_no_object_are_invalid_params(node: NodeUnderTest, params: object) -> None:
    inbox = await opened(node)
    for method in ("SendMessage", "GetTask"):
        answer = (await called(node, inbox, call(params, method=method))).json()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602)


@pytest.mark.parametrize(
    "body",
    [
        [],
        [call()],
        "x",
        call(id=1.5),
        call(id={}),
        call(id=True),
        call(id=2**64),
        call(id="x" * 257),
        call(method=5),
        call(method=""),
        call(jsonrpc=2.0),
        call(jsonrpc="1.0"),
        {name: value for name, value in call().items() if name != "id"},
    ],
)
async def test_what_is_no_call_is_an_invalid_request_and_not_carried_out(node: NodeUnderTest, body: object) -> None:
    """A call without an id expects no answer, so it must not be carried out and answered."""
    inbox = await opened(node)
    answer = (await called(node, inbox, body)).json()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert (await read(node, inbox))["messages"] == []


async def test_a_client_of_another_version_learns_what_methods_there_are(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = (await called(node, inbox, call(method="message/send"))).json()["error"]["message"]
    named = message.rpartition(" are ")[2].split(", ")
    assert {"SendMessage", "SendStreamingMessage", "GetExtendedAgentCard"} < set(named)
    for method in named:
        answer = (await called(node, inbox, call({}, method=method))).json()
        assert answer["error"]["code"] != -32601 if "error" in answer else method == "ListTasks"


@pytest.mark.parametrize("call_id", ["", "x", 0, -1, 2**63 - 1, None])
async def test_the_id_of_a_call_comes_back_as_it_was(node: NodeUnderTest, call_id: object) -> None:
    answer = (await called(node, await opened(node), call(id=call_id))).json()
    assert (answer["id"], "result" in answer) == (call_id, True)


async def test_the_id_of_a_call_does_not_end_an_event(node: NodeUnderTest) -> None:
    inbox, call_id = await opened(node), "a\u2028b\x85c"
    streaming = asyncio.create_task(called(node, inbox, call(method="SendStreamingMessage", id=call_id)))
    async with asyncio.timeout(PATIENCE):
        [held] = (await read(node, inbox, wait=20))["messages"]
        await settled(node, inbox, held)
        lines = [line for line in (await streaming).text.splitlines() if line]
    assert {json.loads(line.removeprefix("data: "))["id"] for line in lines} == {call_id}


@pytest.mark.parametrize("length", [-1, "soon", 1.5])
async def test_a_history_of_a_length_that_there_is_not_is_refused(node: NodeUnderTest, length: object) -> None:
    inbox = await opened(node)
    task = (await result(node, inbox, "SendMessage", SENT))["task"]
    answer = await called(node, inbox, call({"id": task["id"], "historyLength": length}, method="GetTask"))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (200, -32602)
    assert error["data"][1]["fieldViolations"][0]["field"] == "historyLength"


@pytest.mark.parametrize(("method", "name"), [("GetTask", "id"), ("ListTaskPushNotificationConfigs", "taskId")])
async def test_an_error_repeats_the_id_of_a_task_that_is_not_there_but_none_without_end(
    node: NodeUnderTest, method: str, name: str
) -> None:
    inbox = await opened(node)
    longest = (await called(node, inbox, call({name: "x" * 256}, method=method))).json()["error"]
    assert (longest["code"], longest["data"][0]["metadata"]["taskId"]) == (-32001, "x" * 256)
    longer = await called(node, inbox, call({name: "x" * 257}, method=method))
    assert (longer.json()["error"]["code"], len(longer.content) < 600) == (-32602, True)


async def test_what_is_no_json_is_a_parse_error(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    for content in (b"{", b"\xff", b"", b"NaN"):
        answer = (await node.client.post(path_of(inbox, "/a2a"), content=content, headers=JSON)).json()
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    huge = b'{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER",'
    huge += b'"parts":[{"text":"Hello"}],"metadata":{"x":1e400}}}}'
    answer = (await node.client.post(path_of(inbox, "/a2a"), content=huge, headers=JSON)).json()
    assert (answer["id"], answer["error"]["code"]) == (7, -32602)


async def test_a_text_of_the_longest_length_is_taken_whatever_it_says(node: NodeUnderTest) -> None:
    """JSON escapes each of these characters."""
    inbox, text = await opened(node), '\\"' * (BODY_BYTES // 2)
    for parts in ([{"text": text}], [{"text": text[:8000]}, {"text": text[8001:]}]):
        said = MESSAGE | {"parts": parts, "metadata": {"note": "x" * 8000}}
        task = (await result(node, inbox, "SendMessage", SENT | {"message": said}))["task"]
        assert task["history"][0]["parts"] == parts
    assert [len(each["body"]) for each in (await read(node, inbox))["messages"]] == [BODY_BYTES, BODY_BYTES]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"parts": [{"text": "é" * 8193}]}, "message.parts"),
        ({"parts": [{"text": "x" * 30_000}]}, "message.parts"),
        ({"contextId": "two\nlines"}, "message.contextId"),
        ({"contextId": "x" * 101}, "message.contextId"),
        ({"metadata": {"note": "x" * 24 * 1024}}, "message.metadata"),
    ],
)
async def test_what_an_inbox_does_not_take_is_named_by_its_place_in_the_message(
    node: NodeUnderTest, fields: Json, place: str
) -> None:
    inbox = await opened(node)
    answer = (await called(node, inbox, call({"message": MESSAGE | fields}))).json()
    [violation] = answer["error"]["data"][1]["fieldViolations"]
    assert (answer["error"]["code"], violation["field"]) == (-32602, place)
    assert (await read(node, inbox))["messages"] == []


async def test_a_task_takes_only_so_many_messages(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_TURNS", 2)
    inbox = await opened(node)
    task = (await result(node, inbox, "SendMessage", SENT))["task"]
    goes_on = SENT | {"message": MESSAGE | {"taskId": task["id"]}}
    for has_room in (True, False):
        [held] = (await read(node, inbox))["messages"]
        await settled(node, inbox, held, status="input_required", reply="Which?")
        answer = (await called(node, inbox, call(goes_on))).json()
        assert answer.get("error", {}).get("code") == (None if has_room else -32004)


async def test_a_task_that_takes_no_message_recognises_the_one_it_took(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_TURNS", 2)
    inbox = await opened(node)
    task = (await result(node, inbox, "SendMessage", SENT))["task"]
    goes_on = call(SENT | {"message": MESSAGE | {"taskId": task["id"]}})

    async def asked() -> None:
        [held] = (await read(node, inbox))["messages"]
        await settled(node, inbox, held, status="input_required", reply="Which?")

    async def repeated(number: int) -> tuple[int | None, str | None]:
        answer = await called(node, inbox, goes_on, idempotency_key=f"a-key-that-nobody-guesses-{number}")
        return answer.json().get("error", {}).get("code"), answer.headers.get("idempotency-replayed")

    await asked()
    assert await repeated(1) == (None, None)
    assert await repeated(1) == (None, "true")  # although the owner has not answered yet
    assert await repeated(2) == (-32004, None)
    await asked()
    assert await repeated(1) == (None, "true")  # although the task has as many messages as it may have
    assert await repeated(2) == (-32004, None)
    assert (await read(node, inbox))["messages"] == []


async def test_neither_binding_has_an_extended_card(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    error = (await called(node, inbox, call({}, method="GetExtendedAgentCard"))).json()["error"]
    assert (error["code"], error["data"][0]["reason"]) == (-32004, "UNSUPPORTED_OPERATION")
    plain = await node.client.get(path_of(inbox, "/a2a/extendedAgentCard"))
    assert (plain.status_code, plain.json()["error"]["details"][0]["reason"]) == (400, "UNSUPPORTED_OPERATION")


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("POST", "message:send"),
        ("POST", "message:stream"),
        ("GET", "tasks"),
        ("GET", "tasks/{id}"),
        ("POST", "tasks/{id}:cancel"),
        ("POST", "tasks/{id}:subscribe"),
        ("POST", "tasks/{id}/pushNotificationConfigs"),
        ("GET", "tasks/{id}/pushNotificationConfigs"),
        ("GET", "tasks/{id}/pushNotificationConfigs/{id}"),
        ("DELETE", "tasks/{id}/pushNotificationConfigs/{id}"),
        ("GET", "extendedAgentCard"),
    ],
)
async def test_every_operation_refuses_a_version_and_a_body_that_it_does_not_know(
    node: NodeUnderTest, method: str, step: str
) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/a2a")
    task = (await node.client.post(f"{path}/message:send", json=SENT)).json()["task"]["id"]
    url, old = f"{path}/{step.replace('{id}', task)}", {"a2a-version": "0.3"}
    refused = await node.client.request(method, url, json=SENT if method == "POST" else None, headers=old)
    assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
    if method == "POST" and ":cancel" not in step and ":subscribe" not in step:
        plain = await node.client.post(url, content=b"{}", headers={"content-type": "text/plain"})
        assert (plain.status_code, plain.json()["error"]["code"]) == (415, 415)


async def test_no_cache_keeps_what_was_said_to_an_inbox(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/a2a")
    sent = await node.client.post(f"{path}/message:send", json=SENT)
    task = sent.json()["task"]
    configs = f"{path}/tasks/{task['id']}/pushNotificationConfigs"
    config = {"id": "c1", "url": "https://hooks.example.com/a2a"}
    answers = [
        sent,
        await node.client.post(configs, json=config),
        await called(node, inbox, call({}, method="ListTasks")),
    ]
    for step in (f"tasks/{task['id']}", f"tasks?contextId={task['contextId']}"):
        answers.append(await node.client.get(f"{path}/{step}"))
    answers += [await node.client.get(url) for url in (configs, f"{configs}/c1")]
    answers.append(await node.client.post(f"{path}/tasks/{task['id']}:cancel"))
    assert [(each.status_code, each.headers.get("cache-control")) for each in answers] == [(200, "no-store")] * 8


async def test_a_retry_with_another_id_is_the_same_call(node: NodeUnderTest) -> None:
    inbox, key = await opened(node), {"idempotency_key": "a-key-of-some-length"}
    first = await called(node, inbox, call(), **key)
    again = await called(node, inbox, call(id="another"), **key)
    assert again.json()["result"] == first.json()["result"]
    assert (again.json()["id"], again.headers["idempotency-replayed"]) == ("another", "true")
    assert len((await read(node, inbox))["messages"]) == 1
    other = await called(node, inbox, call(SENT | {"metadata": {"n": 1}}), **key)
    assert other.json()["error"]["code"] == -32602


async def test_what_http_refuses_has_the_status_of_http(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/a2a")
    plain = await node.client.post(path, content=b"{}", headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.json()["error"]["code"]) == (415, -32005)
    large = await called(node, inbox, call({"message": MESSAGE | {"metadata": {"x": "x" * 2**20}}}))
    assert (large.status_code, large.json()["error"]["code"]) == (413, -32600)
    request = signed("POST", path, call())
    forged = await node.client.post(path, content=request.body + b" ", headers=request.headers)
    assert (forged.status_code, "signature-error" in forged.headers) == (400, True)
    assert (await read(node, inbox))["messages"] == []


@pytest.mark.parametrize("is_closed", [True, False])
async def test_an_inbox_that_is_not_there_is_not_found_by_either_binding(node: NodeUnderTest, is_closed: bool) -> None:
    inbox: Json = {"address": UNKNOWN_ADDRESS}
    if is_closed:
        inbox = await opened(node)
        await closed(node, inbox)
    by_rpc = [await called(node, inbox, call(method="SendMessage"))]
    by_rpc.append(await called(node, inbox, call({"contextId": "c"}, method="ListTasks")))
    for response in by_rpc:
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["data"][0]["reason"]) == (404, -32000, "INBOX_NOT_FOUND")
    plain = [await node.client.post(path_of(inbox, "/a2a/message:send"), json=SENT)]
    plain += [await node.client.get(path_of(inbox, f"/a2a/tasks{query}")) for query in ("?contextId=c", "")]
    plain.append(await node.client.get(f"{INBOXES}/none/a2a/tasks"))
    for response in plain:
        error = response.json()["error"]
        assert (response.status_code, error["details"][0]["reason"]) == (404, "INBOX_NOT_FOUND")
