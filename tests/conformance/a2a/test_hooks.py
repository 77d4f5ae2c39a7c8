"""The hooks of the protocol's test kit (`hooked_node`), called by the official Python client."""

from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a.client import Client
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, TaskState
from a2a.utils.errors import InvalidParamsError, TaskNotCancelableError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from tests.conformance.a2a.client import answers, card_of, client_of, message, task_of
from tests.support.nodes import NodeProcess


@pytest_asyncio.fixture
async def asked(hooked: NodeProcess, http: httpx.AsyncClient) -> Client:
    """A client of the node that answers by the prefix of a messageId."""
    return client_of(await card_of(hooked, http), http)


@pytest.mark.parametrize(
    ("hook", "part"),
    [
        ("tck-artifact-text", {"text": "Generated text content"}),
        (
            "tck-artifact-file-",
            {"raw": "R2VuZXJhdGVkIHRleHQgY29udGVudA==", "filename": "output.txt", "mediaType": "text/plain"},
        ),
        (
            "tck-artifact-file-url",
            {"url": "https://node.example/output.txt", "filename": "output.txt", "mediaType": "text/plain"},
        ),
        ("tck-artifact-data", {"data": {"key": "value", "count": 42}}),
    ],
)
async def test_a_task_has_the_artifact_that_was_asked_for(asked: Client, hook: str, part: dict[str, Any]) -> None:
    task = await task_of(asked, message(message_id=f"{hook}-1a2b"))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert MessageToDict(task.artifacts[0].parts[0]) == part
    assert await asked.get_task(GetTaskRequest(id=task.id)) == task


async def test_a_message_is_answered_with_a_message(asked: Client) -> None:
    (answer,) = await answers(asked, message(message_id="tck-message-response-1a2b"))
    assert (answer.message.role, answer.message.parts[0].text) == (Role.ROLE_AGENT, "Direct message response")


async def test_a_waiting_task_takes_turns_until_one_completes_it(asked: Client) -> None:
    task = await task_of(asked, message("First", message_id="tck-input-required-1"))
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert not task.artifacts
    for n in (2, 3):
        said = message(f"Turn number {n}", message_id=f"tck-input-required-{n}", task_id=task.id)
        assert (await task_of(asked, said)).status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    with pytest.raises(InvalidParamsError):
        await answers(asked, message(task_id=task.id, context_id="another"))
    done = await task_of(asked, message("The end", message_id="tck-complete-task-4", task_id=task.id))
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert [turn.message_id.rpartition("-")[2] for turn in done.history] == ["1", "2", "3", "4"]
    short = await asked.get_task(GetTaskRequest(id=task.id, history_length=2))
    assert [turn.message_id.rpartition("-")[2] for turn in short.history] == ["3", "4"]
    with pytest.raises(UnsupportedOperationError):
        await answers(asked, message(task_id=task.id))
    with pytest.raises(TaskNotCancelableError):
        await asked.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_waiting_task_can_be_canceled_once(asked: Client) -> None:
    task = await task_of(asked, message(message_id="tck-input-required-1"))
    canceled = await asked.cancel_task(CancelTaskRequest(id=task.id))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    assert (await asked.get_task(GetTaskRequest(id=task.id))).status.state == TaskState.TASK_STATE_CANCELED
    with pytest.raises(TaskNotCancelableError):
        await asked.cancel_task(CancelTaskRequest(id=task.id))
