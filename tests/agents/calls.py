"""Calls that the directory's tests share."""

from typing import Any

import httpx2

from tests.inbox.calls import bearer
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

AGENTS = "/api/v1/agents"
SUMMARISE = {
    "id": "sum",
    "name": "Summarise reports",
    "description": "Reads a long report and tells what matters in it.",
    "tags": ["summary", "reports"],
    "examples": ["Sum up these forty pages for me."],
}
TRANSLATE = {
    "id": "translate",
    "name": "Translate contracts",
    "description": "Translates legal contracts between Portuguese and English.",
    "tags": ["translation"],
}

Json = dict[str, Any]


def card_of(name: str = "Report desk", *skills: Json) -> Json:
    """Return an A2A agent card."""
    return {
        "name": name,
        "description": "Helps people with long documents of every kind.",
        "version": "1.0.0",
        "supportedInterfaces": [{"url": "https://victim.example/a2a", "protocolBinding": "JSONRPC"}],
        "skills": list(skills) or [SUMMARISE],
    }


async def post(node: NodeUnderTest, inbox: Json, card: Json, **headers: str) -> httpx2.Response:
    return await node.client.post(AGENTS, json={"card": card}, headers={**bearer(inbox["inbox_token"]), **headers})


async def listed(node: NodeUnderTest, inbox: Json, card: Json) -> Json:
    return json_of(await post(node, inbox, card), 202)


async def shown(node: NodeUnderTest, agent: Json) -> Json:
    return json_of(await node.client.get(f"{AGENTS}/{agent['id']}"))
