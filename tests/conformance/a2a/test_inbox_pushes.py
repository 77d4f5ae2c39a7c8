"""The official Python client (a2a-sdk) subscribes a receiver to push notifications about an inbox's tasks
(NETWORK 1).
"""

import asyncio

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import ParseDict

from tests.a2a.inbox_calls import answered
from tests.callbacks.receiver import Receiver
from tests.callbacks.test_callbacks import PUBLIC
from tests.conformance.a2a.client import message
from tests.conformance.a2a.test_inbox_agents import BINDINGS
from tests.inbox.calls import opened
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE, eventually

pytestmark = pytest.mark.settings(callback_allow_private=True)


def last(receiver: Receiver) -> StreamResponse:
    return ParseDict(receiver.messages[-1][1], StreamResponse())


@BINDINGS
async def test_a_receiver_is_told_what_the_client_asked_for(node: NodeUnderTest, binding: str) -> None:
    transport = httpx.ASGITransport(app=node.app, client=("203.0.113.8", 40000))  # type: ignore[arg-type]
    async with (
        asyncio.timeout(PATIENCE),
        Receiver(PUBLIC) as receiver,
        node.worker(),
        httpx.AsyncClient(transport=transport) as http,
    ):
        inbox = await opened(node)
        card = await A2ACardResolver(http, inbox["a2a_url"]).get_agent_card()
        assert card.capabilities.push_notifications
        config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding])
        client = ClientFactory(config).create(card)
        first = TaskPushNotificationConfig(
            id="first",
            url=receiver.url_at("/first"),
            token="t0ken",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="cr3dentials"),
        )
        asked = SendMessageConfiguration(return_immediately=True, task_push_notification_config=first)
        request = SendMessageRequest(message=message("hello"), configuration=asked)
        [response] = [each async for each in client.send_message(request)]
        task_id = response.task.id
        await receiver.until(1, path="/first")

        second = TaskPushNotificationConfig(task_id=task_id, url=receiver.url_at("/second"))
        made = await client.create_task_push_notification_config(second)
        assert (made.id, made.task_id, made.url) == (task_id, task_id, second.url)
        await receiver.until(1, path="/second")
        getting = GetTaskPushNotificationConfigRequest(task_id=task_id, id=made.id)
        assert await client.get_task_push_notification_config(getting) == made
        listing = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        listed = await client.list_task_push_notification_configs(listing)
        assert {each.id for each in listed.configs} == {"first", made.id}
        deleting = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=made.id)
        await client.delete_task_push_notification_config(deleting)
        with pytest.raises(TaskNotFoundError):
            await client.get_task_push_notification_config(getting)

        await answered(node, inbox, reply="HELLO")

        await eventually(lambda: last(receiver).status_update.status.state == TaskState.TASK_STATE_COMPLETED)
        events = [ParseDict(body, StreamResponse()) for _, body in receiver.messages]
        assert events[-2].artifact_update.artifact.parts[0].text == "HELLO"
        assert receiver.headers[-1]["authorization"] == "Bearer cr3dentials"
        assert receiver.headers[-1]["x-a2a-notification-token"] == "t0ken"
        assert receiver.paths["/second"] == 1
