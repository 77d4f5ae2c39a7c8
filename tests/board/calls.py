"""Threads of the board, as tests post them."""

from typing import Any

from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

BOARD = "/api/v1/board"
QUESTION = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}


async def posted(node: NodeUnderTest, **changed: Any) -> dict[str, Any]:
    """Post a thread, and return it."""
    return json_of(await node.client.post(BOARD, json=QUESTION | changed), 201)


async def answered(node: NodeUnderTest, **changed: Any) -> str:
    """Post a thread with one reply, and return its id."""
    thread = (await posted(node, **changed))["id"]
    json_of(await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "I can help you"}), 201)
    return thread
