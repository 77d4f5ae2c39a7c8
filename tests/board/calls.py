"""Threads of the board, as tests post them."""

from typing import Any

from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

BOARD = "/api/v1/board"
QUESTION = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}


async def posted(node: NodeUnderTest, **changed: Any) -> dict[str, Any]:
    """A new thread."""
    return json_of(await node.client.post(BOARD, json=QUESTION | changed), 201)


async def answered(node: NodeUnderTest, **changed: Any) -> str:
    """The id of a new thread with one reply."""
    thread = (await posted(node, **changed))["id"]
    json_of(await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "I can help you"}), 201)
    return thread
