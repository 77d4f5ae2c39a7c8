"""The official Python client (a2a-sdk) talks to an inbox as to any agent, over both bindings (NETWORK 1)."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, A2AClientError, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)

from node.a2a.inboxes import stream
from tests.conformance.a2a.client import message
from tests.sign.signing import Signed, sign
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

BINDINGS = pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"])


@asynccontextmanager
async def owned(node: NodeProcess, http: httpx.AsyncClient) -> AsyncGenerator[dict[str, Any]]:
    """An inbox whose owner answers in capitals, but asks back on `ask`, and ignores `leave me`."""
    inbox = (await http.post(f"{node.url}/api/v1/inboxes", json={"label": "Echo"})).json()
    owner = {"Authorization": f"Bearer {inbox['inbox_token']}"}

    async def answer() -> None:
        seen = 0
        while True:
            query = {"wait": 20, "since_seq": seen}
            page = (await http.get(f"{inbox['url']}/messages", params=query, headers=owner, timeout=PATIENCE)).json()
            seen = page["next_since_seq"]
            for each in page["messages"]:
                if each["body"] == "leave me":
                    continue
                status = "input_required" if each["body"] == "ask" else "done"
                settling = {"status": status, "reply": each["body"].upper()}
                await http.post(f"{inbox['url']}/messages/{each['id']}/settle", json=settling, headers=owner)

    answering = asyncio.create_task(answer())
    try:
        yield inbox
    finally:
        answering.cancel()


async def card_of(inbox: dict[str, Any], http: httpx.AsyncClient) -> AgentCard:
    return await A2ACardResolver(http, inbox["a2a_url"]).get_agent_card()


async def last_task(responses: AsyncIterator[StreamResponse]) -> Task:
    """Return the task in the only answer to a message that is not streamed."""
    (response,) = [each async for each in responses]
    return response.task


class Signing(httpx.Auth):
    """Signs each request as the card's extension says."""

    requires_request_body = True

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        content_type = request.headers.get("content-type")
        headers = {"host": request.url.netloc.decode()} | ({"content-type": content_type} if content_type else {})
        unsigned = Signed(request.method, request.url.path, body=request.content, headers=headers)
        covered = ("@method", "@authority", "@path", "signature-key", *(("content-digest",) if request.content else ()))
        request.headers.update(sign(covered, f";created={int(time.time())}", request=unsigned).headers)
        yield request


@BINDINGS
async def test_a_client_writes_to_an_inbox_that_asks_for_signatures_once_it_signs(
    served: NodeProcess, http: httpx.AsyncClient, binding: str
) -> None:
    inbox = (await http.post(f"{served.url}/api/v1/inboxes", json={"policy": "signed"})).json()
    card = await card_of(inbox, http)
    [extension] = card.capabilities.extensions
    assert (extension.uri, extension.required) == (f"{served.url}/recipes/sign-a-request", False)
    config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding], polling=False)
    at_once = SendMessageConfiguration(return_immediately=True)
    request = SendMessageRequest(message=message("hello"), configuration=at_once)
    with pytest.raises(A2AClientError, match="403"):
        await last_task(ClientFactory(config).create(card).send_message(request))
    http.auth = Signing()
    sent = await last_task(ClientFactory(config).create(card).send_message(request))
    assert sent.status.state == TaskState.TASK_STATE_SUBMITTED


@BINDINGS
async def test_an_inbox_is_called_streamed_from_asked_back_and_canceled(
    served: NodeProcess, http: httpx.AsyncClient, binding: str
) -> None:
    async with asyncio.timeout(PATIENCE), owned(served, http) as inbox:
        card = await card_of(inbox, http)
        assert (card.name, card.capabilities.streaming) == ("Echo", True)

        def client(*, streaming: bool) -> Any:
            config = ClientConfig(
                httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding], polling=False
            )
            return ClientFactory(config).create(card)

        called = await last_task(client(streaming=False).send_message(SendMessageRequest(message=message("hello"))))
        assert called.status.state == TaskState.TASK_STATE_COMPLETED
        assert called.artifacts[0].parts[0].text == "HELLO"
        again = await client(streaming=False).get_task(GetTaskRequest(id=called.id))
        assert again.status.state == TaskState.TASK_STATE_COMPLETED

        streamed = client(streaming=True).send_message(SendMessageRequest(message=message("stream")))
        kinds = [each.WhichOneof("payload") async for each in streamed]
        assert (kinds[0], kinds[-1]) == ("task", "status_update")
        assert "artifact_update" in kinds

        asked = await last_task(client(streaming=False).send_message(SendMessageRequest(message=message("ask"))))
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        answer = message("yes", task_id=asked.id, context_id=asked.context_id)
        done = await last_task(client(streaming=False).send_message(SendMessageRequest(message=answer)))
        assert (done.id, done.status.state) == (asked.id, TaskState.TASK_STATE_COMPLETED)

        at_once = SendMessageConfiguration(return_immediately=True)
        request = SendMessageRequest(message=message("leave me"), configuration=at_once)
        left = await last_task(client(streaming=False).send_message(request))
        assert left.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        following = client(streaming=True).subscribe(SubscribeToTaskRequest(id=left.id))
        assert (await anext(following)).task.id == left.id
        canceled = await client(streaming=False).cancel_task(CancelTaskRequest(id=left.id))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED
        states = [each.status_update.status.state async for each in following if each.HasField("status_update")]
        assert states[-1] == TaskState.TASK_STATE_CANCELED


def test_the_client_does_not_take_a_silent_stream_for_a_broken_one() -> None:
    waits = httpx.AsyncClient().timeout.read  # the client that ClientConfig has by default
    assert waits is not None
    assert waits > stream.HEARTBEAT_SECONDS
