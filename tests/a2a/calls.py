"""Messages to the node's own agent as A2A clients send them, and what those clients read in errors."""

from typing import Any

from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

SEND = "/api/v1/message:send"
OFFER = "/api/v1/a2a/tasks"
A2A = {"a2a-version": "1.0"}
"""Headers of a client that speaks A2A 1.0."""


def message(text: str = "Hello from agent A.", **fields: Any) -> dict[str, Any]:
    """Return a SendMessageRequest."""
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]} | fields}


async def sent(node: NodeUnderTest, text: str = "Hello from agent A.", **fields: Any) -> dict[str, Any]:
    """Return the task of an acknowledged message."""
    return json_of(await node.client.post(SEND, json=message(text, **fields), headers=A2A))["task"]


def reason(error: dict[str, Any]) -> str:
    return error["error"]["details"][0]["reason"]


def fields(error: dict[str, Any]) -> list[str]:
    return [violation["field"] for violation in error["error"]["details"][1]["fieldViolations"]]
