"""The official Python client (a2a-sdk) calls the node with every operation of A2A v1.0."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from a2a.client import Client
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from tests.conformance.a2a.client import answers, card_of, client_of, message, task_of
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

Call = Callable[[Client], Awaitable[object]]


@pytest_asyncio.fixture
async def card(served: NodeProcess, http: httpx.AsyncClient) -> AgentCard:
    return await card_of(served, http)


@pytest.fixture
def client(card: AgentCard, http: httpx.AsyncClient) -> Client:
    return client_of(card, http)


@pytest.fixture
def bold(card: AgentCard, http: httpx.AsyncClient) -> Client:
    """A client that assumes that the node supports everything, so that it sends what the node does not support."""
    card.capabilities.streaming = True
    card.capabilities.push_notifications = True
    card.capabilities.extended_agent_card = True
    return client_of(card, http)


async def test_the_card_offers_one_interface_and_no_optional_capability(card: AgentCard, served: NodeProcess) -> None:
    (interface,) = card.supported_interfaces
    assert (interface.url, interface.protocol_binding) == (f"{served.url}/api/v1", "HTTP+JSON")
    assert interface.protocol_version == "1.0"
    capabilities = card.capabilities
    assert not (capabilities.streaming or capabilities.push_notifications or capabilities.extended_agent_card)


async def test_a_message_is_acknowledged_as_a_completed_task(client: Client) -> None:
    said = message()
    task = await task_of(client, said)
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert [turn.message_id for turn in task.history] == [said.message_id]
    assert task.artifacts[0].parts[0].text == f"acknowledged {task.id}"
    assert datetime.now(UTC) - task.status.timestamp.ToDatetime(UTC) < timedelta(minutes=5)


async def test_everything_a_message_may_carry_comes_back(client: Client) -> None:
    said = message(
        context_id=str(uuid4()),
        extensions=["https://example.com/extension/v1"],
        reference_task_ids=["t0"],
    )
    ParseDict({"kindOfAgent": "tester", "depth": {"list": [1, None, True]}}, said.metadata)
    task = await task_of(client, said)
    (turn,) = (await client.get_task(GetTaskRequest(id=task.id))).history
    assert (task.context_id, turn.context_id, turn.task_id) == (said.context_id, said.context_id, task.id)
    turn.task_id = ""
    assert MessageToDict(turn) == MessageToDict(said)


async def test_the_history_is_as_long_as_asked_for(client: Client) -> None:
    task = await task_of(client, message(), history_length=0)
    assert not task.history
    assert not (await client.get_task(GetTaskRequest(id=task.id, history_length=0))).history
    assert len((await client.get_task(GetTaskRequest(id=task.id, history_length=5))).history) == 1


async def test_the_tasks_of_a_context_are_listed_page_by_page(client: Client) -> None:
    context = str(uuid4())
    sent = [await task_of(client, message(f"This is message number {n}", context_id=context)) for n in range(5)]
    request = ListTasksRequest(
        context_id=context,
        page_size=2,
        status=TaskState.TASK_STATE_COMPLETED,
        include_artifacts=True,
        status_timestamp_after=datetime.now(UTC) - timedelta(hours=1),
    )
    seen: list[Task] = []
    while True:
        page = await client.list_tasks(request)
        assert (page.page_size, page.total_size) == (2, 5)
        seen += page.tasks
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert {task.id for task in seen} == {task.id for task in sent}
    assert len(seen) == 5
    assert all(task.artifacts for task in seen)
    times = [task.status.timestamp.ToMilliseconds() for task in seen]
    assert times == sorted(times, reverse=True)


REFUSED: list[tuple[Call, type[Exception]]] = [
    (lambda client: client.get_task(GetTaskRequest(id="no-such-task")), TaskNotFoundError),
    (lambda client: client.cancel_task(CancelTaskRequest(id="no-such-task")), TaskNotFoundError),
    (lambda client: answers(client, message(task_id="no-such-task")), TaskNotFoundError),
    (lambda client: answers(client, message("Hola amigo, necesito ayuda con esto")), InvalidParamsError),
    (lambda client: answers(client, message("  ")), InvalidParamsError),
    (lambda client: answers(client, Message(message_id="m")), InvalidParamsError),
    (lambda client: client.list_tasks(ListTasksRequest(page_size=1000)), InvalidParamsError),
    (lambda client: client.list_tasks(ListTasksRequest(page_token="never seen")), InvalidParamsError),
    (
        lambda client: answers(
            client, Message(message_id="m", role=Role.ROLE_USER, parts=[Part(data=Value(number_value=1))])
        ),
        ContentTypeNotSupportedError,
    ),
    (
        lambda client: answers(
            client, message(), task_push_notification_config=TaskPushNotificationConfig(url="https://example.com")
        ),
        PushNotificationNotSupportedError,
    ),
]


@pytest.mark.parametrize(("call", "error"), REFUSED)
async def test_a_refusal_is_the_exception_that_the_protocol_names(
    client: Client, call: Call, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await call(client)


async def test_a_finished_task_takes_neither_a_message_nor_a_cancel(client: Client) -> None:
    task = await task_of(client, message())
    with pytest.raises(UnsupportedOperationError):
        await answers(client, message(task_id=task.id))
    with pytest.raises(InvalidParamsError):
        await answers(client, message(task_id=task.id, context_id="another"))
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task.id))


async def exhausted(stream: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    return [answer async for answer in stream]


NOT_OFFERED: list[tuple[Call, type[Exception]]] = [
    (lambda client: answers(client, message()), UnsupportedOperationError),
    (lambda client: exhausted(client.subscribe(SubscribeToTaskRequest(id="any"))), UnsupportedOperationError),
    (lambda client: client.get_extended_agent_card(GetExtendedAgentCardRequest()), UnsupportedOperationError),
    (
        lambda client: client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id="any", id="c1", url="https://example.com")
        ),
        PushNotificationNotSupportedError,
    ),
    (
        lambda client: client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id="any", id="c1")
        ),
        PushNotificationNotSupportedError,
    ),
    (
        lambda client: client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id="any")
        ),
        PushNotificationNotSupportedError,
    ),
    (
        lambda client: client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id="any", id="c1")
        ),
        PushNotificationNotSupportedError,
    ),
]


@pytest.mark.parametrize(("call", "error"), NOT_OFFERED)
async def test_what_the_card_does_not_offer_is_refused_by_name_when_it_is_asked_for(
    bold: Client, call: Call, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await call(bold)


async def test_a_contract_made_by_a_message_is_followed_to_its_result(
    client: Client, http: httpx.AsyncClient, served: NodeProcess
) -> None:
    base = f"{served.url}/api/v1"
    said = message("Translate this memo into plain words. It has two pages.")
    ParseDict({"publisherId": "agent-1"}, said.metadata)
    made = await http.post(f"{base}/a2a/tasks", json=MessageToDict(SendMessageRequest(message=said)))
    task_id = made.json()["task"]["id"]

    async def followed() -> Task:
        return await client.get_task(GetTaskRequest(id=task_id))

    assert (await followed()).status.state == TaskState.TASK_STATE_SUBMITTED
    path = f"{base}/tasks/{task_id}"
    plain = httpx.AsyncClient(timeout=PATIENCE)  # the contract's worker does not use A2A
    async with plain:
        claim = (await plain.post(f"{path}/claim", json={"assignee_id": "worker"})).json()
        await plain.post(f"{path}/transition", json={"actor_id": "worker", "status": "in_progress"})
        assert (await followed()).status.state == TaskState.TASK_STATE_WORKING
        result: dict[str, Any] = {"pages": 2, "text": ["first", "second"], "draft": False, "note": None}
        await plain.post(f"{path}/complete", json={"claim_token": claim["claim_token"], "result_payload": result})
    done = await followed()
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    (artifact,) = done.artifacts
    assert MessageToDict(artifact.parts[0].data) == cast("object", result)
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task_id))


async def test_a_contract_is_canceled_with_the_token_of_its_publisher(
    client: Client, http: httpx.AsyncClient, served: NodeProcess
) -> None:
    body = MessageToDict(SendMessageRequest(message=message("Summarise the report about solar panels.")))
    task = (await http.post(f"{served.url}/api/v1/a2a/tasks", json=body)).json()["task"]
    request = CancelTaskRequest(id=task["id"])
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(request)
    ParseDict({"publisherToken": task["metadata"]["publisherToken"]}, request.metadata)
    assert (await client.cancel_task(request)).status.state == TaskState.TASK_STATE_CANCELED


async def test_without_the_switch_the_hooks_are_ordinary_messages(client: Client) -> None:
    task = await task_of(client, message(message_id="tck-input-required-1"))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
