"""The answers shown in the documents look like those that the node gives."""

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tests.support.node_under_test import NodeUnderTest

Json = dict[str, Any]
MESSAGE = {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello from agent A."}]}}
OFFER = {"publisher_id": "report-desk", "title": "Summarise a report about solar panels", "lease_seconds": 900}
CALLBACK_TYPES = {
    "/api/v1/board/{id}": "board.reply",
    "/api/v1/tasks/{id}": "task.claimed",
    "/api/v1/sessions/{id}": "session.line",
    "/api/v1/inboxes/{address}": "inbox.message",
}
"""The type of the example callback, by path."""

NAME = re.compile(r"(?<=/)([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{27}|[\w-]{43})(?=/|$)")
"""An id or address in a URL."""

EPOCH = re.compile("([0-9a-f]{8}){1,2}")
"""The epoch of a session or an inbox. It may begin with a letter, and then looks like a word."""


def shape(value: Any) -> Any:
    """Return the form of an answer: its members, which of them are null, words such as states unchanged, and URLs
    without the ids in them.
    """
    if isinstance(value, dict):
        members = cast("Json", value).items()
        return {name: shape(member) for name, member in members if name not in {"description", "result_payload"}}
    if isinstance(value, list):
        return [shape(one) for one in cast("list[Any]", value)]
    if isinstance(value, str):
        if value.startswith("http"):
            return NAME.sub("ID", value)
        is_word = value.isidentifier() and (value.islower() or value.startswith(("TASK_", "ROLE_")))
        return value if is_word and not EPOCH.fullmatch(value) else "text"
    return value if value is None else type(value).__name__


async def section(node: NodeUnderTest, operation: str) -> str:
    """Return the section of llms-full.txt about an operation."""
    text = (await node.client.get("/llms-full.txt")).text
    return text.partition(f"\n#### {operation}\n")[2].partition("\n####")[0]


async def shown(node: NodeUnderTest) -> dict[str, Json]:
    """Return the example of each operation's answer, by method and path."""
    paths = (await node.client.get("/openapi.json")).json()["paths"]
    return {
        f"{method.upper()} {path}": answer["content"]["application/json"]["example"]
        for path, methods in paths.items()
        for method, operation in methods.items()
        for status, answer in operation["responses"].items()
        if status in {"200", "201"} and "example" in answer.get("content", {}).get("application/json", {})
    }


async def test_health_is_shown_of_a_node_that_serves(node: NodeUnderTest) -> None:
    examples = await shown(node)
    for path in ("/health", "/ready"):
        answer = (await node.client.get(path)).json()
        answer.get("capabilities", {}).pop("durability", None)
        examples[f"GET {path}"].get("capabilities", {}).pop("durability", None)
        assert shape(examples[f"GET {path}"]) == shape(answer), path


async def test_pages_are_shown_with_the_defaults_of_their_query(node: NodeUnderTest) -> None:
    examples = await shown(node)
    for path in ("/api/v1/board", "/api/v1/tasks"):
        page = (await node.client.get(path, params={"offset": 0})).json()
        assert [examples[f"GET {path}"][name] for name in ("limit", "offset")] == [page["limit"], page["offset"]]


async def test_contracts_are_shown_as_they_are_answered(node: NodeUnderTest) -> None:
    examples = await shown(node)

    async def post(path: str, body: Json) -> Json:
        answer = await node.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def same(operation: str, answer: Json) -> None:
        assert shape(examples[operation]) == shape(answer), operation

    task = await post("/api/v1/tasks", OFFER)
    same("POST /api/v1/tasks", task)
    same("GET /api/v1/tasks", (await node.client.get("/api/v1/tasks?status=offered")).json())
    path = f"/api/v1/tasks/{task['id']}"
    claim = await post(f"{path}/claim", {"assignee_id": "summary-agent"})
    same("POST /api/v1/tasks/{id}/claim", claim)
    proof = {"claim_token": claim["claim_token"]}
    same("POST /api/v1/tasks/{id}/extend", await post(f"{path}/extend", proof))
    same("POST /api/v1/tasks/{id}/release", await post(f"{path}/release", proof))
    proof = {"claim_token": (await post(f"{path}/claim", {"assignee_id": "summary-agent"}))["claim_token"]}
    same("POST /api/v1/tasks/{id}/transition", await post(f"{path}/transition", {"actor_id": "summary-agent"}))
    same("POST /api/v1/tasks/{id}/complete", await post(f"{path}/complete", proof))
    same("GET /api/v1/tasks/{id}", (await node.client.get(path)).json())
    other = await post("/api/v1/tasks", OFFER)
    canceled = await post(f"/api/v1/tasks/{other['id']}/cancel", {"publisher_token": other["publisher_token"]})
    same("POST /api/v1/tasks/{id}/cancel", canceled)


@pytest.mark.parametrize(
    "operation",
    [
        "POST /api/v1/relay",
        "POST /api/v1/board",
        "POST /api/v1/tasks",
        "POST /api/v1/sessions",
        "POST /api/v1/artifacts/inline",
        "POST /api/v1/inboxes",
        "POST /api/v1/feedback",
        "POST /api/v1/a2a/tasks",
    ],
)
async def test_the_request_that_is_shown_gets_the_answer_that_is_shown(node: NodeUnderTest, operation: str) -> None:
    said = await section(node, operation)
    (sent,) = re.findall(r"^curl .* -d '(.+)'$", said, re.MULTILINE)
    (answer,) = re.findall(r"^Answer 20[01]:\n\n```json\n(.+)\n```$", said, re.MULTILINE)
    got = await node.client.post(operation.removeprefix("POST "), json=json.loads(sent))
    assert got.is_success, got.text
    assert shape(json.loads(answer)) == shape(got.json())


async def test_what_an_example_says_of_another_part_of_it_is_true(node: NodeUnderTest) -> None:
    """For example, the replies must belong to the thread shown, and size and digest must be those of the artifact's
    bytes.
    """
    examples = await shown(node)
    for operation in ("GET /api/v1/board/threads/{id}", "POST /api/v1/board/{id}/close"):
        thread = examples[operation]
        assert [reply["thread_id"] for reply in thread["replies"]] == [thread["id"]], operation
        assert thread["replies"][0]["id"] != thread["id"], operation
    held = examples["GET /api/v1/artifacts/{id}/inline"]
    content = held["text"].encode()
    assert (held["byte_size"], held["digest_sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    stored = examples["POST /api/v1/artifacts/inline"]
    assert (stored["byte_size"], stored["digest_sha256"]) == (held["byte_size"], held["digest_sha256"])
    assert json.dumps(held["text"]) in await section(node, "POST /api/v1/artifacts/inline")


async def test_sessions_are_shown_as_they_are_answered(node: NodeUnderTest) -> None:
    """The `url` must end in `/messages`, because nothing is below the session's own path."""
    examples = await shown(node)
    opened = (await node.client.post("/api/v1/sessions", json={"label": "planning"})).json()
    assert shape(examples["POST /api/v1/sessions"]) == shape(opened)
    path, name = f"/api/v1/sessions/{opened['session_id']}", "/api/v1/sessions/{id}"
    sent = (await node.client.post(f"{path}/messages", json={"body": "Step 1 is done.", "author": "planner"})).json()
    assert shape(examples[f"POST {name}/messages"]) == shape(sent)
    assert shape(examples[f"GET {name}/messages"]) == shape((await node.client.get(f"{path}/messages")).json())
    proof = {"destroy_token": opened["destroy_token"]}
    destroyed = (await node.client.post(f"{path}/destroy", json=proof)).json()
    assert shape(examples[f"POST {name}/destroy"]) == shape(destroyed)


async def test_a2a_answers_are_shown_as_they_are_given(node: NodeUnderTest) -> None:
    examples = await shown(node)
    sent = (await node.client.post("/api/v1/message:send", json=MESSAGE)).json()
    assert shape(examples["POST /api/v1/message:send"]) == shape(sent)
    offer = (await node.client.post("/api/v1/a2a/tasks", json=MESSAGE)).json()
    assert shape(examples["POST /api/v1/a2a/tasks"]) == shape(offer)
    body = {"metadata": {"publisherToken": offer["task"]["metadata"]["publisherToken"]}}
    canceled = (await node.client.post(f"/api/v1/tasks/{offer['task']['id']}:cancel", json=body)).json()
    assert shape(examples["POST /api/v1/tasks/{id}:cancel"]) == shape(canceled)


async def test_inboxes_are_shown_as_they_are_answered(node: NodeUnderTest) -> None:
    examples = await shown(node)
    opened = (await node.client.post("/api/v1/inboxes", json={"label": "Report desk"})).json()
    path, name = f"/api/v1/inboxes/{opened['address']}", "/api/v1/inboxes/{address}"
    owner = {"authorization": f"Bearer {opened['inbox_token']}"}
    reply_to = {"reply_to": opened["address"], "subject": "A report", "author": "planner"}

    async def sent() -> Json:
        return (await node.client.post(f"{path}/messages", json={"body": "Please summarise it.", **reply_to})).json()

    message = await sent()
    assert shape(examples[f"POST {name}/messages"]) == shape(message)
    page = (await node.client.get(f"{path}/messages", headers=owner)).json()
    assert shape(examples[f"GET {name}/messages"]["messages"]) == shape(page["messages"])
    one, reply = f"{path}/messages/{message['id']}", {"status": "done", "reply": "It became cheaper by half."}
    settled = (await node.client.post(f"{one}/settle", json=reply, headers=owner)).json()
    assert shape(examples[f"POST {name}/messages/{{id}}/settle"]) == shape(settled)
    receipt = {"authorization": f"Bearer {message['receipt_token']}"}
    seen = (await node.client.get(one, headers=receipt)).json()
    assert shape(examples[f"GET {name}/messages/{{id}}"]) == shape(seen)
    other = await sent()
    receipt = {"authorization": f"Bearer {other['receipt_token']}"}
    withdrawn = (await node.client.delete(f"{path}/messages/{other['id']}", headers=receipt)).json()
    assert shape(examples[f"DELETE {name}/messages/{{id}}"]) == shape(withdrawn)


async def test_tasks_of_inboxes_are_shown_as_they_are_given(node: NodeUnderTest) -> None:
    examples = await shown(node)
    opened = (await node.client.post("/api/v1/inboxes", json={"label": "Report desk"})).json()
    path, name = f"/api/v1/inboxes/{opened['address']}", "/api/v1/inboxes/{address}"
    body = {**MESSAGE, "configuration": {"returnImmediately": True}}

    async def sent() -> Json:
        return (await node.client.post(f"{path}/a2a/message:send", json=body)).json()

    task = await sent()
    assert shape(examples[f"POST {name}/a2a/message:send"]) == shape(task)
    canceled = (await node.client.post(f"{path}/a2a/tasks/{task['task']['id']}:cancel")).json()
    assert shape(examples[f"POST {name}/a2a/tasks/{{id}}:cancel"]) == shape(canceled)
    task = await sent()
    reply, owner = {"status": "done", "reply": "Hello."}, {"authorization": f"Bearer {opened['inbox_token']}"}
    await node.client.post(f"{path}/messages/{task['task']['id']}/settle", json=reply, headers=owner)
    answered = (await node.client.get(f"{path}/a2a/tasks/{task['task']['id']}")).json()
    assert shape(examples[f"GET {name}/a2a/tasks/{{id}}"]) == shape(answered)


async def test_events_and_callbacks_are_shown_as_they_are_told(node: NodeUnderTest) -> None:
    examples = await shown(node)
    event = examples["GET /api/v1/events"]["events"][0]
    assert datetime.fromisoformat(event["at"]).tzinfo is UTC
    told = {path: examples[f"GET {path}/callbacks"]["callbacks"][0]["type"] for path in CALLBACK_TYPES}
    assert told == CALLBACK_TYPES


async def test_descriptions_are_sentences_for_readers_who_have_only_the_node(node: NodeUnderTest) -> None:
    for path in ("/openapi.json", "/schema.json", "/api/v1/board/schema"):
        document = (await node.client.get(path)).json()
        definitions = cast("Json", document.get("$defs") or document["components"]["schemas"])
        described = {name: str(one["description"]) for name, one in definitions.items() if "description" in one}
        assert len(described) > 5, path
        for name, text in described.items():
            assert not re.search(r"\n +|SPEC|NETWORK|DESIGN", text), (path, name)


async def test_a_limit_of_streams_is_called_so(node: NodeUnderTest) -> None:
    assert " Limit per client address, for streams: 60 in 60 s." in await section(node, "GET /api/v1/events")


async def test_the_example_of_a_redirect_follows_it(node: NodeUnderTest) -> None:
    assert "\ncurl -sSL http" in await section(node, "GET /api/v1/artifacts/{id}/content")


async def test_the_answer_of_a_stream_is_called_one(node: NodeUnderTest) -> None:
    """The answer must not be shown as one JSON document."""
    name = "/api/v1/inboxes/{address}/a2a/tasks/{id}:subscribe"
    for method in ("GET", "POST"):
        said = await section(node, f"{method} {name}")
        assert "\nAnswer 200, a stream (text/event-stream) of events with `data` like this:\n" in said
        assert "\ncurl -sSN " in said
    assert ": data of an event</summary>" in (await node.client.get("/reference/inboxes")).text


async def test_other_answers_of_an_operation_are_described(node: NodeUnderTest) -> None:
    for operation, told in (
        (
            "POST /api/v1/relay",
            "- answer 200: Acknowledged. An empty body means that the message was taken for a loop and not kept: ",
        ),
        ("POST /api/v1/tasks/claim-next", "- answer 204: No contract that fits could be claimed in time."),
    ):
        assert told in await section(node, operation), operation
    page = (await node.client.get("/reference/tasks")).text
    assert "204: No contract that fits could be claimed in time." in page


async def test_documents_say_which_operations_take_a_key_and_what_it_means_there(node: NodeUnderTest) -> None:
    for operation in ("POST /api/v1/message:send", "POST /api/v1/a2a/tasks", "POST /api/v1/tasks/{id}/claim"):
        assert "Takes Idempotency-Key." in await section(node, operation), operation
    for operation in ("POST /api/v1/tasks", "POST /api/v1/tasks/{id}/claim"):
        assert "- header `Idempotency-Key`: A secret of at least 16 random characters. " in await section(
            node, operation
        ), operation
    paths = (await node.client.get("/openapi.json")).json()["paths"]
    for path in ("/api/v1/tasks", "/api/v1/tasks/{id}/claim"):
        (key,) = (one for one in paths[path]["post"]["parameters"] if one.get("name") == "Idempotency-Key")
        assert key["schema"] == {"type": "string", "minLength": 1, "maxLength": 255}
