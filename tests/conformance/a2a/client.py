"""The official Python client, and the messages that tests send with it."""

from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
)

from tests.support.nodes import NodeProcess


async def card_of(node: NodeProcess, http: httpx.AsyncClient) -> AgentCard:
    """Return the card, read from where the protocol expects it."""
    return await A2ACardResolver(http, node.url).get_agent_card()


def client_of(card: AgentCard, http: httpx.AsyncClient) -> Client:
    """Return a client, created as its documentation says."""
    return ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=["HTTP+JSON"])).create(card)


def message(text: str = "Hello from agent A.", message_id: str = "", **fields: Any) -> Message:
    return Message(message_id=message_id or str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **fields)


async def answers(client: Client, said: Message, **configuration: Any) -> list[StreamResponse]:
    request = SendMessageRequest(message=said, configuration=SendMessageConfiguration(**configuration))
    return [answer async for answer in client.send_message(request)]


async def task_of(client: Client, said: Message, **configuration: Any) -> Task:
    """Send a message and return the task, which must be the only answer."""
    (answer,) = await answers(client, said, **configuration)
    assert answer.HasField("task")
    return answer.task
