"""Requests at the edge of what A2A allows, on all paths that A2A clients share with readers of contracts."""

import json
from typing import Any

import pytest

from node.a2a.model import MAX_PARTS
from node.a2a.offer import TITLE_LENGTH
from tests.a2a.calls import A2A, OFFER, SEND, fields, message, reason
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

JSON = {"content-type": "application/json"}
EMPTY: dict[str, Any] = {}
HUGE = "9" * 5000


async def made(node: NodeUnderTest, path: str, **fields: Any) -> dict[str, Any]:
    return json_of(await node.client.post(path, json=message(**fields), headers=A2A))["task"]


async def test_caches_are_told_what_the_answer_depends_on_whatever_it_is(node: NodeUnderTest) -> None:
    task = await made(node, SEND)
    queries = ("contextId=c", "status=offered", "limit=5", "status=finished", "pageSize=0")
    for path in ("", *(f"?{query}" for query in queries), "/no-such-task", f"/{task['id']}"):
        for headers in (A2A, {}):
            response = await node.client.get(f"/api/v1/tasks{path}", headers=headers)
            assert response.headers["vary"] == "Accept, A2A-Version", path


@pytest.mark.parametrize("query", ["status=finished", "status=OFFERED", "status=task_state_completed", "status=3"])
async def test_a_status_of_neither_vocabulary_is_refused_with_both(node: NodeUnderTest, query: str) -> None:
    for headers in (A2A, {}):
        response = await node.client.get(f"/api/v1/tasks?{query}", headers=headers)
        assert response.status_code == 422
        (issue,) = response.json()["detail"]
        assert issue["loc"] == ["query", "status"]
        assert "offered" in issue["msg"]
        assert "TASK_STATE_COMPLETED" in issue["msg"]
        assert ("error" in response.json()) == (headers == A2A)


async def test_an_unset_status_is_no_filter(node: NodeUnderTest) -> None:
    task = await made(node, SEND, contextId="c")
    query = "contextId=c&status=TASK_STATE_UNSPECIFIED"
    assert (await node.client.get(f"/api/v1/tasks?{query}")).json()["tasks"][0]["id"] == task["id"]


@pytest.mark.parametrize("path", ["no-such-task", "01a1fbff-0e2a-731a-b384-c61ba6127768", "x" * 1900, "a:b:c"])
async def test_an_unknown_task_is_not_found_by_either_reader(node: NodeUnderTest, path: str) -> None:
    for headers in ({"accept": "application/a2a+json"}, A2A):
        response = await node.client.get(f"/api/v1/tasks/{path}", headers=headers)
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/json"
        assert reason(response.json()) == "TASK_NOT_FOUND"
        assert response.json()["error"]["code"] == 404
        assert path in response.json()["error"]["message"]
    plain = await node.client.get(f"/api/v1/tasks/{path}")
    assert (plain.status_code, plain.headers["x-error-code"]) == (404, "task.unknown")
    assert list(plain.json()) == ["error"]


@pytest.mark.parametrize("path", ["some-task:explode", "some-task:", ":cancel:"])
async def test_a_step_that_the_protocol_does_not_have_is_named_so(node: NodeUnderTest, path: str) -> None:
    response = await node.client.post(f"/api/v1/tasks/{path}", headers=A2A)
    assert (response.status_code, reason(response.json())) == (404, "METHOD_NOT_FOUND")


async def test_a_task_takes_no_post_without_a_verb(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/tasks/some-task", headers=A2A)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    response = await node.client.delete("/api/v1/tasks/some-task:cancel", headers=A2A)
    assert (response.status_code, response.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize("headers", [A2A, {}])
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/v1/message:send", "OPTIONS, POST"),
        ("DELETE", "/api/v1/message:stream", "OPTIONS, POST"),
        ("GET", "/api/v1/a2a/tasks", "OPTIONS, POST"),
        ("GET", "/api/v1/tasks/some-task:cancel", "OPTIONS, POST"),
        ("DELETE", "/api/v1/tasks/some-task:subscribe", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/api/v1/extendedAgentCard", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_refused_in_the_protocols_form(
    node: NodeUnderTest, method: str, path: str, allowed: str, headers: dict[str, str]
) -> None:
    response = await node.client.request(method, path, headers=headers)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    assert (response.json()["error"]["code"], reason(response.json())) == (405, "METHOD_NOT_ALLOWED")


async def test_a_host_that_is_none_is_refused_in_the_protocols_form(node: NodeUnderTest) -> None:
    response = await node.client.post(SEND, json=message(), headers=A2A | {"host": "two words"})
    assert (response.status_code, reason(response.json())) == (400, "INVALID_REQUEST")


async def test_a_shared_path_refuses_a_method_in_its_readers_form(node: NodeUnderTest) -> None:
    for path in ("/api/v1/tasks", "/api/v1/tasks/some-task"):
        spoken = (await node.client.delete(path, headers=A2A)).json()["error"]
        assert (await node.client.delete(path)).json() == {"error": spoken["message"]}


@pytest.mark.parametrize("headers", [JSON, {}, {"content-type": "application/a2a+json"}])
async def test_cancel_takes_any_body_that_clients_send(node: NodeUnderTest, headers: dict[str, str]) -> None:
    tasks = [await made(node, path) for path in (SEND, OFFER)]
    for body in (
        b"",
        b"{}",
        b'{"id": "another"}',
        b'{"metadata": null}',
        b'{"metadata": {"why": 5, "publisherToken": 7}, "unknown": [1]}',
    ):
        for task in tasks:
            path = f"/api/v1/tasks/{task['id']}:cancel"
            response = await node.client.post(path, content=body, headers=A2A | headers)
            assert (response.status_code, reason(response.json())) == (400, "TASK_NOT_CANCELABLE"), body


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"metadata": "x"}'])
async def test_a_cancel_that_cannot_be_read_is_refused(node: NodeUnderTest, body: bytes) -> None:
    task = await made(node, OFFER)
    response = await node.client.post(f"/api/v1/tasks/{task['id']}:cancel", content=body, headers=A2A | JSON)
    assert response.status_code == 400
    assert reason(response.json()) in {"INVALID_REQUEST", "INVALID_PARAMS"}


@pytest.mark.parametrize("given", ["1.0", "1", ""])
async def test_the_version_may_be_a_parameter_of_the_query(node: NodeUnderTest, given: str) -> None:
    task = (await node.client.post(f"{SEND}?A2A-Version={given}", json=message())).json()["task"]
    contract = await made(node, OFFER)
    seen = (await node.client.get(f"/api/v1/tasks/{contract['id']}?A2A-Version={given}")).json()
    assert seen["status"]["state"] == "TASK_STATE_SUBMITTED"
    for path in (f"/api/v1/tasks?contextId={task['contextId']}&", f"/api/v1/tasks/{task['id']}?", f"{SEND}?"):
        method = "POST" if path.startswith(SEND) else "GET"
        response = await node.client.request(method, f"{path}A2A-Version=0.3", json=message())
        assert (response.status_code, reason(response.json())) == (400, "VERSION_NOT_SUPPORTED")


@pytest.mark.parametrize("path", [SEND, OFFER])
async def test_a_message_over_one_mebibyte_is_refused_in_the_protocols_form(node: NodeUnderTest, path: str) -> None:
    response = await node.client.post(path, json=message("word " * 210_000), headers=A2A)
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/json"
    assert (reason(response.json()), response.json()["error"]["code"]) == ("INVALID_REQUEST", 413)


async def test_a_message_just_below_one_mebibyte_is_taken(node: NodeUnderTest) -> None:
    text = "The report is ready. " * 45_000
    task = await made(node, SEND, parts=[{"text": text}])
    assert task["history"][0]["parts"][0]["text"] == text


@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "utf-8"])
async def test_a_body_is_utf_8_whatever_its_charset_says(node: NodeUnderTest, charset: str) -> None:
    headers = A2A | {"content-type": f"application/json; charset={charset}"}
    body = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"The caf\xc3\xa9 is open today"}]}}'
    taken = await node.client.post(SEND, content=body, headers=headers)
    assert taken.json()["task"]["history"][0]["parts"][0]["text"] == "The café is open today"
    refused = await node.client.post(SEND, content=body.decode().encode("latin-1"), headers=headers)
    assert (refused.status_code, reason(refused.json())) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (f"pageToken={HUGE}", "pageToken"),
        ("pageToken=OTk5OTk5OTk5OTk5OTk5OTk5OTkuMQ", "pageToken"),
        ("pageToken=01a1fbff-0e2a-731a-b384-c61ba6127768", "pageToken"),
        (f"pageSize={HUGE}", "pageSize"),
        (f"historyLength={HUGE}", "historyLength"),
        ("historyLength=1.5", "historyLength"),
        ("includeArtifacts=perhaps", "includeArtifacts"),
        (f"statusTimestampAfter={HUGE}", "statusTimestampAfter"),
    ],
)
async def test_a_query_beyond_all_bounds_names_its_field(node: NodeUnderTest, query: str, field: str) -> None:
    await made(node, SEND, contextId="c")
    response = await node.client.get(f"/api/v1/tasks?contextId=c&{query}", headers=A2A)
    assert response.status_code == 422, response.text
    assert fields(response.json()) == [field]
    assert field in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "query", ["statusTimestampAfter=2020-01-01T00:00:00", "statusTimestampAfter=0001-01-01T00:00:00Z", "unknown=1"]
)
async def test_an_unusual_query_is_answered(node: NodeUnderTest, query: str) -> None:
    await made(node, SEND, contextId="c")
    page = (await node.client.get(f"/api/v1/tasks?contextId=c&{query}", headers=A2A)).json()
    assert page["totalSize"] == len(page["tasks"]) == 1


@pytest.mark.parametrize(
    ("role", "status"), [(1, 200), ("ROLE_USER", 200), (2, 400), (0, 400), (99, 400), (1.5, 400), ({}, 400)]
)
async def test_a_role_may_be_its_number(node: NodeUnderTest, role: object, status: int) -> None:
    response = await node.client.post(SEND, json=message(role=role), headers=A2A)
    assert response.status_code == status, response.text
    if status == 200:
        assert response.json()["task"]["history"][0]["role"] == "ROLE_USER"


@pytest.mark.parametrize(
    "body",
    [
        message() | {"unknown": {"deep": [None]}, "tenant": "t"},
        message(colour="red", kind="message"),
        message(parts=[{"text": "Hello there", "kind": "text", "filename": "x.txt"}]),
        message() | {"configuration": {"blocking": True, "acceptedOutputModes": ["text/plain"], "historyLength": None}},
        message(contextId=None, taskId=None, metadata=None, extensions=[], referenceTaskIds=None),
        message(metadata=EMPTY, parts=[{"text": "Hello there", "metadata": EMPTY}]) | {"metadata": EMPTY},
        message(parts=[{"text": "Hello there", "raw": None, "mediaType": "Text/Plain; charset=utf-8"}]),
    ],
)
async def test_fields_that_are_unknown_or_unset_do_not_matter(node: NodeUnderTest, body: dict[str, Any]) -> None:
    response = await node.client.post(SEND, json=body, headers=A2A)
    assert response.status_code == 200, response.text
    said = response.json()["task"]["history"][0]
    assert said.keys() == {"messageId", "role", "parts", "taskId", "contextId"}


async def test_several_parts_are_one_text_and_come_back_as_they_were(node: NodeUnderTest) -> None:
    parts = [{"text": "Hello from agent A."}, {"text": "The report is ready.", "metadata": {"n": 2}}]
    task = await made(node, SEND, parts=parts)
    assert task["history"][0]["parts"] == parts


BLANK = ["", " ", "\n\t", "\u0000", "\u202e", "\u200b\ufeff", "\u00ad", "\u2066 \u2069", "\x1b[31m\x1b[0m", "\uffff"]


@pytest.mark.parametrize("path", [SEND, OFFER])
@pytest.mark.parametrize("text", BLANK)
async def test_a_text_of_which_nothing_can_be_seen_is_none(node: NodeUnderTest, text: str, path: str) -> None:
    response = await node.client.post(path, json=message(text), headers=A2A)
    assert (response.status_code, fields(response.json())) == (400, ["message.parts.0.text"])
    seen = await node.client.post(path, json=message(f"{text}\nHello from agent A."), headers=A2A)
    assert seen.status_code == 200


async def test_nesting_without_end_is_refused(node: NodeUnderTest) -> None:
    body = '{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Hi"}],"metadata":{"x":%s}}}'
    for depth in (100, 100_000):
        content = body % ("[" * depth + "]" * depth)
        response = await node.client.post(SEND, content=content, headers=A2A | JSON)
        assert (response.status_code, reason(response.json())) == (400, "INVALID_REQUEST")


WITH_METADATA = (
    '{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Hello there","metadata":%s}],"metadata":%s}}'
)


MANY_NAMES = json.dumps({f"n{number}": number for number in range(20_000)})


@pytest.mark.parametrize(
    "metadata",
    ['{"x":[1.50,1e300,-0.0]}', '{"n":12345678901234567890123}', '{"é":"\\u00e9"}', '{ "b":\t1 ,"a" : {}}', MANY_NAMES],
    ids=["numbers", "digits", "escape", "space", "names"],
)
async def test_metadata_is_kept_to_the_byte(node: NodeUnderTest, metadata: str) -> None:
    """Decoding metadata at each read would be expensive: converting a mebibyte of certain numbers takes seconds, and an
    object with 80,000 names takes 43 ms.
    """
    body = (WITH_METADATA % (metadata, metadata)).encode()
    sent = await node.client.post(SEND, content=body, headers=A2A | JSON)
    assert sent.status_code == 200, sent.text
    read = await node.client.get(f"/api/v1/tasks/{sent.json()['task']['id']}", headers=A2A)
    for response in (sent, read):
        assert response.content.count(b'"metadata":' + metadata.encode()) == 2


@pytest.mark.parametrize("path", [SEND, OFFER])
@pytest.mark.parametrize("metadata", ['{"x":1e400}', '{"x":[-1e999]}', '{"x":"\\ud800"}'])
async def test_metadata_that_no_reader_can_hold_is_refused(node: NodeUnderTest, path: str, metadata: str) -> None:
    plain = WITH_METADATA % ("{}", "{}")
    of_request = f'{plain[:-1]},"metadata":{metadata}}}'
    for body in (WITH_METADATA % (metadata, "{}"), WITH_METADATA % ("{}", metadata), of_request):
        response = await node.client.post(path, content=body, headers=A2A | JSON)
        assert (response.status_code, reason(response.json())) == (400, "INVALID_REQUEST"), body


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"metadata": {"publisherId": 5}}, "message.metadata.publisherId"),
        ({"metadata": {"publisherId": "x" * 201}}, "message.metadata.publisherId"),
        ({"metadata": {"publisherId": "two\nlines"}}, "message.metadata.publisherId"),
        ({"metadata": {"title": "x" * 201}}, "message.metadata.title"),
        ({"parts": [{"text": "The report is long. " * 1100}]}, "message.parts.0.text"),
    ],
)
async def test_an_offer_that_makes_no_contract_names_the_place_in_the_message(
    node: NodeUnderTest, said: dict[str, Any], field: str
) -> None:
    response = await node.client.post(OFFER, json=message(**said), headers=A2A)
    assert (response.status_code, reason(response.json())) == (400, "INVALID_PARAMS")
    assert fields(response.json()) == [field]


async def test_a_message_has_at_most_so_many_parts(node: NodeUnderTest) -> None:
    most = [{"text": "word "}] * MAX_PARTS
    assert (await node.client.post(SEND, json=message(parts=most), headers=A2A)).status_code == 200
    response = await node.client.post(SEND, json=message(parts=[*most, {"text": "more"}]), headers=A2A)
    assert (response.status_code, reason(response.json())) == (400, "INVALID_PARAMS")
    assert fields(response.json()) == ["message.parts"]
    assert str(MAX_PARTS) in response.json()["error"]["message"]


@pytest.mark.parametrize("message_id", ["m" * 256, "two\nlines", "message-7"])
async def test_an_offer_without_a_publisher_is_that_of_its_message(node: NodeUnderTest, message_id: str) -> None:
    tasks = [await made(node, OFFER, messageId=message_id) for _ in range(2)]
    publishers = {task["metadata"]["publisherId"] for task in tasks}
    assert len(publishers) == 1
    assert publishers.pop().startswith("a2a:")


async def test_an_offer_that_is_repeated_with_its_key_is_the_same_contract(node: NodeUnderTest) -> None:
    headers = A2A | {"idempotency-key": "an-idempotency-key-of-32-characters"}
    first, again = [await node.client.post(OFFER, json=message(), headers=headers) for _ in range(2)]
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    contract = first.json()["task"]
    assert contract["history"][0]["parts"] == [{"text": "Hello from agent A."}]
    shown = (await node.client.get(f"/api/v1/tasks/{contract['id']}?historyLength=0", headers=A2A)).json()
    assert (shown["id"], "history" in shown) == (contract["id"], False)


async def test_an_offer_is_part_of_no_context_and_no_task(node: NodeUnderTest) -> None:
    """A contextId must not become a part of the publisher_id, which everybody can read."""
    task = await made(node, SEND, contextId="c")
    contract = await made(node, OFFER)
    for said, status, why in (
        ({"contextId": "c"}, 400, "INVALID_PARAMS"),
        ({"taskId": "no-such-task"}, 404, "TASK_NOT_FOUND"),
        ({"taskId": task["id"]}, 400, "UNSUPPORTED_OPERATION"),
        ({"taskId": task["id"], "contextId": "d"}, 400, "INVALID_PARAMS"),
        ({"taskId": contract["id"]}, 400, "UNSUPPORTED_OPERATION"),
    ):
        response = await node.client.post(OFFER, json=message(**said), headers=A2A)
        assert (response.status_code, reason(response.json())) == (status, why), said


async def test_the_title_of_an_offer_is_its_first_sentence_cut_short(node: NodeUnderTest) -> None:
    long = "Translate this memo, which is about the roof, " + "and about the floor, " * 20 + "into plain words."
    title = (await made(node, OFFER, parts=[{"text": long}]))["metadata"]["title"]
    assert title.startswith("Translate this memo")
    assert len(title) <= TITLE_LENGTH


async def test_an_offer_in_another_language_is_refused(node: NodeUnderTest) -> None:
    response = await node.client.post(OFFER, json=message("Hola mundo amigo, necesito tu ayuda"), headers=A2A)
    assert (response.status_code, fields(response.json())) == (400, ["message.parts.0.text"])


async def test_extensions_that_are_not_known_are_ignored(node: NodeUnderTest) -> None:
    headers = A2A | {"a2a-extensions": "https://example.com/one, https://example.com/two"}
    assert (await node.client.post(SEND, json=message(), headers=headers)).status_code == 200
