"""A refusal names every wrong field, and an answer names the fields that meant nothing."""

from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.common.refusal import Invalid
from node.tasks.model import NewTask
from node.web.http import Header
from node.web.issues import MAX_EXAMINED_CHARACTERS, MAX_NAME_CHARACTERS, MAX_NAMED_FIELDS, issue_of
from node.web.json import REMEMBERED_QUERY_BYTES, decode
from tests.support.node_under_test import NodeUnderTest

TASKS = "/api/v1/tasks"
THREAD = {"title": "A question about files", "body": "Who parses them?"}
OFFER = {"publisher_id": "desk", "title": "Summarise a report"}
PAGE = {"origin": "https://elsewhere.example"}
IGNORED = "x-ignored-fields"


async def posted(node: NodeUnderTest, path: str, text: str) -> httpx2.Response:
    """Return the answer to a body that is sent as it is written."""
    return await node.client.post(path, content=text, headers={"content-type": "application/json"})


def places(detail: list[dict[str, Any]]) -> set[tuple[str | int, ...]]:
    return {tuple(issue["loc"]) for issue in detail}


async def test_every_wrong_field_of_a_body_is_listed(node: NodeUnderTest) -> None:
    wrong = {"publisher_id": 1, "lease_seconds": 3, "input_artifact_ids": ["a", 5], "require_proof": "yes"}
    answer = await node.client.post(TASKS, json=wrong)
    assert answer.status_code == 422
    assert places(answer.json()["detail"]) == {
        ("body", "publisher_id"),
        ("body", "title"),
        ("body", "lease_seconds"),
        ("body", "input_artifact_ids", 1),
        ("body", "require_proof"),
    }


async def test_a_value_out_of_its_bounds_is_no_error_of_type(node: NodeUnderTest) -> None:
    """Too small a number, too short a text and a text of another form are no `type_error`, unlike a text in place of a
    number.
    """
    wrong = {"publisher_id": "", "title": 1, "lease_seconds": 3, "max_attempts": "two", "skills": ["Summarise"]}
    detail = (await node.client.post(TASKS, json=wrong)).json()["detail"]
    assert {issue["loc"][1]: issue["type"] for issue in detail} == {
        "publisher_id": "value_error",
        "title": "type_error",
        "lease_seconds": "value_error",
        "max_attempts": "type_error",
        "skills": "value_error",
    }


@pytest.mark.parametrize(
    ("path", "body", "allowed"),
    [
        ("/api/v1/inboxes", {"policy": "friends"}, "contacts, open, signed"),
        (
            "/api/v1/feedback",
            {"feedback_text": "A word to you.", "category": "praise"},
            "bug, feature, general, inquiry",
        ),
    ],
)
async def test_a_wrong_word_for_an_enumeration_is_answered_with_the_allowed_ones(
    node: NodeUnderTest, path: str, body: Any, allowed: str
) -> None:
    (issue,) = (await node.client.post(path, json=body)).json()["detail"]
    assert issue["msg"].startswith("Invalid enum value ")
    assert issue["msg"].endswith(f"; it must be one of {allowed}")


async def test_a_word_of_another_form_is_answered_with_the_pattern_that_it_must_have(node: NodeUnderTest) -> None:
    """The pattern must be usable as it is: without the internal ending `$(?!…)` and its backslashes."""
    answer = await node.client.post("/api/v1/tasks/claim-next", json={"assignee_id": "desk", "skills": ["Summarise"]})
    (issue,) = answer.json()["detail"]
    said = "A tag: lower-case letters, digits and `.+#_-`"
    assert issue["msg"] == f"Expected str matching regex '^[a-z0-9][a-z0-9.+#_-]{{0,49}}$': {said}"


async def test_so_is_one_inside_an_object(node: NodeUnderTest) -> None:
    message = {"messageId": "m-1", "role": "user", "parts": [{"text": "Hello there."}]}
    answer = await node.client.post("/api/v1/message:send", json={"message": message})
    assert "it must be one of ROLE_AGENT, ROLE_USER" in answer.json()["error"]["message"]


MIXED = "\u0410dmin"  # the first letter is Cyrillic
GERMAN = "Bitte übersetzen Sie mir diesen ganzen Text bis morgen früh ins Deutsche, vielen Dank."


async def test_texts_are_judged_together_with_all_else(node: NodeUnderTest) -> None:
    wrong = {"publisher_id": " ", "title": MIXED, "description": GERMAN, "retry_seconds": 5}
    answer = await node.client.post(TASKS, json=wrong | {"result_schema": {"type": "sting"}})
    assert places(answer.json()["detail"]) == {
        ("body", "publisher_id"),
        ("body", "title"),
        ("body", "description"),
        ("body", "retry_seconds"),
        ("body", "result_schema", "type"),
    }
    ill_typed = await node.client.post(TASKS, json=wrong | {"lease_seconds": 1, "deadline": "soon"})
    assert places(ill_typed.json()["detail"]) == {
        ("body", "publisher_id"),
        ("body", "title"),
        ("body", "description"),
        ("body", "lease_seconds"),
        ("body", "deadline"),
    }
    thread = await node.client.post("/api/v1/board", json={"title": " ", "body": GERMAN, "author": MIXED})
    assert places(thread.json()["detail"]) == {("body", "title"), ("body", "body"), ("body", "author")}


async def test_of_texts_in_another_language_all_are_named(node: NodeUnderTest) -> None:
    answer = await node.client.post("/api/v1/board", json={"title": GERMAN, "body": GERMAN})
    assert (answer.status_code, answer.headers["x-error-code"]) == (400, "language.not_english")
    assert answer.json()["error"].endswith(" Not in plain English: title, body.")


async def test_every_wrong_parameter_of_a_query_is_listed(node: NodeUnderTest) -> None:
    answer = await node.client.get(TASKS, params={"status": "offered", "limit": "x", "offset": "-1"})
    assert answer.status_code == 422
    assert places(answer.json()["detail"]) == {("query", "limit"), ("query", "offset")}


async def test_the_word_null_is_no_value_of_a_parameter(node: NodeUnderTest) -> None:
    answer = await node.client.get("/api/v1/agents", params={"liveness": "null"})
    assert (answer.status_code, places(answer.json()["detail"])) == (422, {("query", "liveness")})


async def test_unknown_fields_are_named_whether_it_succeeds_or_not(node: NodeUnderTest) -> None:
    taken = await node.client.post(TASKS, json=OFFER | {"lease_second": 60, "callbackUrl": "x"})
    assert (taken.status_code, taken.headers[IGNORED]) == (201, "body.lease_second, body.callbackUrl")
    refused = await node.client.post(TASKS, json={"lease_second": 60})
    assert (refused.status_code, refused.headers[IGNORED]) == (422, "body.lease_second")
    listed = await node.client.get("/api/v1/board", params={"q": "files", "limit": 5}, headers=PAGE)
    assert (listed.status_code, listed.headers[IGNORED]) == (200, "query.q")
    long = await node.client.get("/api/v1/board", params={"q": "x" * REMEMBERED_QUERY_BYTES, "limit": 5})
    assert (long.status_code, long.headers[IGNORED]) == (200, "query.q")
    assert IGNORED in listed.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/relay"),
        ("POST", "/api/v1/sessions"),
        ("GET", "/api/v1/board/schema"),
        ("GET", "/health"),
        ("GET", "/api/v1/a2a/card"),
        ("GET", "/api/v1/tasks?pageSize=5"),
        ("GET", "/api/v1/tasks?status=offered"),
        ("GET", "/api/v1/extendedAgentCard"),
        ("POST", "/api/v1/message:send"),
        ("POST", "/api/v1/tasks/x:cancel?A2A-Version=1.0"),
    ],
)
async def test_unknown_parameters_are_named_whatever_the_operation_takes(
    node: NodeUnderTest, method: str, path: str
) -> None:
    path += "&" if "?" in path else "?"
    answer = await node.client.request(method, f"{path}colour=red", json={} if method == "POST" else None)
    assert answer.headers[IGNORED] == "query.colour"


async def test_parameters_of_the_protocol_that_answers_are_known(node: NodeUnderTest) -> None:
    said = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}}
    task = (await node.client.post("/api/v1/message:send?A2A-Version=1.0", json=said)).json()["task"]
    for query, named in (("historyLength=1", None), ("historyLength=1&wait=0", "query.wait")):
        assert (await node.client.get(f"{TASKS}/{task['id']}?{query}")).headers.get(IGNORED) == named
    assert (await node.client.get("/api/v1/board/schema?x=%ff")).status_code == 200


async def test_nothing_is_named_where_all_is_known(node: NodeUnderTest) -> None:
    assert IGNORED not in (await node.client.post("/api/v1/board", json=THREAD)).headers
    assert IGNORED not in (await node.client.post("/api/v1/relay", json={"message": "Hello", "mood": "good"})).headers


async def test_a_header_holds_no_more_than_some_names_and_none_as_it_came(node: NodeUnderTest) -> None:
    many = {f"field{number}": 1 for number in range(MAX_NAMED_FIELDS + 1)}
    named = (await node.client.post("/api/v1/board", json=THREAD | many)).headers[IGNORED]
    assert named.endswith(f"body.field{MAX_NAMED_FIELDS - 1}, ...")
    odd = (await node.client.post("/api/v1/board", json=THREAD | {"ü\r\nX: y, z": 1, "n" * 500: 1})).headers[IGNORED]
    assert odd == f"body.%C3%BC%0D%0AX%3A%20y%2C%20z, body.{'n' * MAX_NAME_CHARACTERS}"


async def test_null_stands_for_a_default_as_it_does_in_a_tool_call(node: NodeUnderTest) -> None:
    offer = {"require_proof": None, "input_artifact_ids": None, "description": None, "lease_seconds": None}
    task = (await node.client.post(TASKS, json=OFFER | offer)).json()
    assert (task["require_proof"], task["input_artifact_ids"]) == (False, [])
    refused = await node.client.post(TASKS, json=OFFER | {"title": None, "require_proof": None})
    assert places(refused.json()["detail"]) == {("body", "title")}


async def test_a_refusal_repeats_no_value_without_end(node: NodeUnderTest) -> None:
    """A role of 900 kB must not come back in an answer of 1.5 MB."""
    part = {"role": "x" * 10_000, "messageId": "m-1", "parts": [{"text": "Hello"}]}
    answer = await node.client.post("/api/v1/message:send", json={"message": part})
    assert (answer.status_code, len(answer.content) < 3000) == (400, True)


def test_a_value_that_looks_like_the_end_of_a_message_names_no_place() -> None:
    """Searching for the place at each of its possible beginnings would take 3 s for 64 kB in a query or body."""
    value = " - at `$.a[1]" * 1_000_000
    assert issue_of(f"Invalid enum value '{value}'", "body").loc == ("body",)
    assert issue_of(f"Invalid enum value '{value}' - at `$.message.parts[2]`", "body").loc == (
        "body",
        "message",
        "parts",
        2,
    )


@pytest.mark.parametrize("written", ["900.0", "9e2", "90000e-2", "900.000"])
async def test_a_whole_number_may_be_written_as_a_float(node: NodeUnderTest, written: str) -> None:
    answer = await posted(node, "/api/v1/sessions", f'{{"ttl_seconds": {written}}}')
    assert answer.status_code == 201, answer.text
    schema = '{"enum":[900.0,{"n":1.0}]}'  # arbitrary JSON: its numbers are kept as they are
    offer = f'{{"publisher_id": "desk", "title": "Summarise a report", "lease_seconds": {written}'
    task = await posted(node, TASKS, f'{offer}, "result_schema": {schema}}}')
    assert task.json()["lease_seconds"] == 900
    assert schema in task.text


@pytest.mark.parametrize(
    "written",
    ["900.5", "9e-1", "1e400", "1e300", '"900.0"', "true", "[900.0]", "9007199254740994.0", "9007199254740993.0"],
)
async def test_a_number_that_is_not_whole_is_refused(node: NodeUnderTest, written: str) -> None:
    answer = await posted(node, "/api/v1/sessions", f'{{"ttl_seconds": {written}}}')
    assert answer.status_code == 422
    assert places(answer.json()["detail"]) == {("body", "ttl_seconds")}


async def test_a_result_stays_byte_for_byte(node: NodeUnderTest) -> None:
    task = (await node.client.post(TASKS, json=OFFER)).json()
    claim = (await node.client.post(f"{TASKS}/{task['id']}/claim", json={"assignee_id": "w"})).json()
    result = '{"pages": 1.0, "sum": 1e2, "lease_seconds": 900.0}'
    said = f'{{"claim_token": "{claim["claim_token"]}", "unknown": 5.0, "result_payload": {result}}}'
    assert (await posted(node, f"{TASKS}/{task['id']}/complete", said)).status_code == 200
    assert f'"result_payload":{result}' in (await node.client.get(f"{TASKS}/{task['id']}")).text


@pytest.mark.parametrize("body", [b"[]", b"null", b"5", b'"text"'])
def test_what_is_no_object_is_one_issue(body: bytes) -> None:
    with pytest.raises(Invalid) as refused:
        decode(body, NewTask, [])
    assert [issue.loc for issue in refused.value.issues] == [("body",)]


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.text(max_size=2), max_size=2)
NAMES = st.sampled_from([*NewTask.__struct_fields__, "other", "ö"])
OFFERS = st.fixed_dictionaries(
    {name: st.just(value) for name, value in OFFER.items()},
    optional={"lease_seconds": st.just(900), "skills": st.just(["ocr"]), "require_proof": st.booleans()},
)


@given(OFFERS | st.just(dict[str, Any]()), st.dictionaries(NAMES, VALUES, max_size=3))
@example({}, {"publisher_id": "\r"})
def test_a_second_look_finds_what_the_first_does(valid: dict[str, Any], odd: dict[str, Any]) -> None:
    """A body that msgspec accepts is accepted with the same values. A body that msgspec refuses is refused, except for
    a null in place of a default.
    """
    body = valid | odd
    text = msgspec.json.encode(body)
    kept = {name: value for name, value in body.items() if value is not None or name in {"publisher_id", "title"}}
    notes: list[Header] = []
    try:
        expected = msgspec.convert(kept, NewTask)
    except msgspec.ValidationError:
        with pytest.raises(Invalid) as refused:
            decode(text, NewTask, notes)
        assert len({issue.loc for issue in refused.value.issues}) == len(refused.value.issues) > 0
    else:
        assert msgspec.structs.asdict(decode(text, NewTask, notes)) == msgspec.structs.asdict(expected)
    assert bool(notes) == bool({"other", "ö"} & body.keys())


@pytest.mark.parametrize(("name", "size"), [("result", 20), ("output", 20), ("result", MAX_EXAMINED_CHARACTERS)])
async def test_a_result_by_another_name_is_refused_and_not_lost(node: NodeUnderTest, name: str, size: int) -> None:
    offered = (await node.client.post(TASKS, json=OFFER)).json()
    claimed = (await node.client.post(f"{TASKS}/{offered['id']}/claim", json={"assignee_id": "worker"})).json()
    token, result = {"claim_token": claimed["claim_token"]}, {"text": "x" * size}
    wrong = await node.client.post(f"{TASKS}/{offered['id']}/complete", json={**token, name: result})
    assert wrong.status_code == 422
    assert places(wrong.json()["detail"]) == {("body", "result_payload")}
    right = await node.client.post(
        f"{TASKS}/{offered['id']}/complete", json={**token, "result_payload": result, "x": 1}
    )
    assert right.status_code == 200
    assert (await node.client.get(f"{TASKS}/{offered['id']}")).json()["result_payload"] == result


@pytest.mark.parametrize(
    "given", [{}, {"result_payload": None, "result": 1}, {"assignee_id": "worker", "note": "Done."}]
)
async def test_a_contract_may_be_completed_without_a_result(node: NodeUnderTest, given: Any) -> None:
    offered = (await node.client.post(TASKS, json=OFFER)).json()
    claimed = (await node.client.post(f"{TASKS}/{offered['id']}/claim", json={"assignee_id": "worker"})).json()
    completion = {"claim_token": claimed["claim_token"], **given}
    answer = await node.client.post(f"{TASKS}/{offered['id']}/complete", json=completion)
    assert answer.json()["status"] == "completed"


async def test_a_result_that_is_given_to_a_transition_is_refused_and_not_lost(node: NodeUnderTest) -> None:
    offered = (await node.client.post(TASKS, json=OFFER)).json()
    claimed = (await node.client.post(f"{TASKS}/{offered['id']}/claim", json={"assignee_id": "worker"})).json()
    move = {"actor_id": "worker"}
    for result in ({"result_payload": {"pages": 1}}, {"result": "x" * MAX_EXAMINED_CHARACTERS}):
        wrong = await node.client.post(f"{TASKS}/{offered['id']}/transition", json=move | result)
        assert (wrong.status_code, places(wrong.json()["detail"])) == (422, {("body", "result_payload")})
        assert "/complete" in wrong.json()["detail"][0]["msg"]
    right = await node.client.post(f"{TASKS}/{offered['id']}/transition", json=move | {"message": "I have begun."})
    assert (right.json()["status"], right.headers["x-ignored-fields"]) == ("in_progress", "body.message")
    completion = {"claim_token": claimed["claim_token"], "result_payload": {"pages": 1}}
    assert (await node.client.post(f"{TASKS}/{offered['id']}/complete", json=completion)).status_code == 200


@pytest.mark.parametrize("name", ["replyText", "answer", "body", "reason"])
async def test_a_reply_by_another_name_is_refused_and_not_lost(node: NodeUnderTest, name: str) -> None:
    opened = (await node.client.post("/api/v1/inboxes", json={})).json()
    url, owner = f"/api/v1/inboxes/{opened['address']}", {"authorization": f"Bearer {opened['inbox_token']}"}
    sent = (await node.client.post(f"{url}/messages", json={"body": "Can you read three pages for me?"})).json()
    settle = f"{url}/messages/{sent['id']}/settle"
    wrong = await node.client.post(settle, json={"status": "done", name: "Yes, send them."}, headers=owner)
    assert wrong.status_code == 422
    assert "artifact_ids" in wrong.json()["detail"][0]["msg"]
    right = await node.client.post(settle, json={"status": "done", "reply": "Yes, send them."}, headers=owner)
    assert right.status_code == 200
