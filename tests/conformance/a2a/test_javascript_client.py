"""The official JavaScript client (@a2a-js/sdk) calls the node with every operation of A2A v1.0."""

import json
from typing import Any

import pytest

from tests.conformance import javascript
from tests.support.nodes import NodeProcess


@pytest.fixture(scope="module")
def outcomes(served: NodeProcess) -> dict[str, dict[str, Any]]:
    """What each operation in js/a2a.mjs returned or threw."""
    return json.loads(javascript.run("a2a.mjs", served.url))


def returned(outcomes: dict[str, dict[str, Any]], name: str) -> Any:
    assert "threw" not in outcomes[name], outcomes[name]
    return outcomes[name]["returned"]


def test_the_client_finds_the_interface_in_the_card(outcomes: dict[str, dict[str, Any]], served: NodeProcess) -> None:
    card = returned(outcomes, "card")
    assert card["version"] == "1.0"
    assert card["interfaces"] == [
        {"url": f"{served.url}/api/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    ]


def test_a_message_is_acknowledged_and_read_back(outcomes: dict[str, dict[str, Any]]) -> None:
    task = returned(outcomes, "send")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == f"acknowledged {task['id']}"
    assert returned(outcomes, "get") == task
    assert returned(outcomes, "get without history") == {name: task[name] for name in task if name != "history"}


def test_without_streams_the_client_falls_back_to_one_answer(outcomes: dict[str, dict[str, Any]]) -> None:
    assert returned(outcomes, "stream falls back to send") == ["task"]


def test_the_tasks_of_a_context_are_listed_page_by_page(outcomes: dict[str, dict[str, Any]]) -> None:
    listed = returned(outcomes, "list")
    assert len(listed["ids"]) == len(set(listed["ids"])) == 2
    assert listed["sent"] == listed["ids"][-1]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("send in another language", "RequestMalformedError"),
        ("send to a finished task", "UnsupportedOperationError"),
        ("send data", "ContentTypeNotSupportedError"),
        ("send with a push config", "PushNotificationNotSupportedError"),
        ("list with a bad size", "RequestMalformedError"),
        ("get an unknown task", "TaskNotFoundError"),
        ("cancel an unknown task", "TaskNotFoundError"),
        ("cancel a finished task", "TaskNotCancelableError"),
        ("cancel a contract", "TaskNotCancelableError"),
        ("stream", "UnsupportedOperationError"),
        ("subscribe", "UnsupportedOperationError"),
        ("extended card", "UnsupportedOperationError"),
        ("create push config", "PushNotificationNotSupportedError"),
        ("get push config", "PushNotificationNotSupportedError"),
        ("list push configs", "PushNotificationNotSupportedError"),
        ("delete push config", "PushNotificationNotSupportedError"),
    ],
)
def test_a_refusal_is_the_error_that_the_protocol_names(
    outcomes: dict[str, dict[str, Any]], operation: str, error: str
) -> None:
    assert outcomes[operation].get("threw") == error, outcomes[operation]


def test_a_contract_made_by_a_message_is_followed_to_its_result(outcomes: dict[str, dict[str, Any]]) -> None:
    followed = returned(outcomes, "contract")
    assert followed["states"] == ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert followed["artifacts"] == [{"artifactId": "result", "parts": [{"data": {"pages": [1, 2]}}]}]
