"""Calls of A2A clients to the agents of inboxes, and of the owners who answer."""

from typing import Any

import httpx2

from tests.callbacks.receiver import Receiver
from tests.inbox.calls import Json, path_of, read, settled
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest


def message(text: str = "Hola, ¿qué tal?", **fields: Any) -> Json:
    """Return a Message."""
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]} | fields


async def sent(node: NodeUnderTest, inbox: Json, said: Json, **configuration: Any) -> httpx2.Response:
    """Return the answer to a message that does not wait for the owner of the inbox."""
    body = {"message": said, "configuration": {"returnImmediately": True} | configuration}
    return await node.client.post(path_of(inbox, "/a2a/message:send"), json=body)


async def begun(node: NodeUnderTest, inbox: Json, said: Json | None = None) -> Json:
    """Send a message, and return its task."""
    return json_of(await sent(node, inbox, said or message()))["task"]


async def got(node: NodeUnderTest, inbox: Json, task: Json) -> Json:
    """Return the current state of the task."""
    return (await node.client.get(path_of(inbox, f"/a2a/tasks/{task['id']}"))).json()


async def rpc(node: NodeUnderTest, inbox: Json, method: str, params: Json) -> Json:
    call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    answer = (await node.client.post(path_of(inbox, "/a2a"), json=call)).json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer


def reason(response: httpx2.Response) -> str:
    return response.json()["error"]["details"][0]["reason"]


async def answered(node: NodeUnderTest, inbox: Json, **settlement: Any) -> Json:
    """Let the owner wait for one message, read it and settle it."""
    [held] = (await read(node, inbox, wait=20))["messages"]
    assert (await settled(node, inbox, held, **settlement)).status_code == 200
    return held


def configs_of(inbox: Json, task: Json, config: str = "") -> str:
    return path_of(inbox, f"/a2a/tasks/{task['id']}/pushNotificationConfigs{config}")


async def pushed_to(node: NodeUnderTest, inbox: Json, task: Json, **config: Any) -> httpx2.Response:
    return await node.client.post(configs_of(inbox, task), json=config)


def kinds(receiver: Receiver) -> list[str]:
    """Return the received events in order, each as its kind and, for a task or status, its state."""
    return [kind_of(body) for _, body in receiver.messages]


def kind_of(event: Json) -> str:
    [(kind, value)] = event.items()
    return kind if kind == "artifactUpdate" else f"{kind} {value['status']['state'].removeprefix('TASK_STATE_')}"
