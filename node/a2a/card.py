"""Agent cards as HTTP answers, and the node's own card, which has the same bytes at both paths (A2A v1.0 §8)."""

import time
from typing import Any

import msgspec

from node import VERSION
from node.config import Settings
from node.web.document import conditional, etag_of
from node.web.http import JSON_TYPE, Header, Request, Response
from node.web.route import Operation, Route, routes_of

CACHE: Header = (b"cache-control", b"public, max-age=300")


class Card:
    """An encoded agent card, with its validators for conditional requests."""

    def __init__(self, card: dict[str, Any], modified: int) -> None:
        """`modified`: time of the card's last change, in seconds since 1970."""
        self._body = msgspec.json.encode(card)
        self._tag = etag_of(self._body)
        self._modified = modified

    def answer(self, request: Request) -> Response:
        """Return 200 with the card, or 304 to a client that has it. Raises what `client_has` raises."""
        return conditional(request, self._body, (JSON_TYPE, CACHE), self._tag, self._modified)


class CardApi:
    """Serves the node's card, which is built once."""

    def __init__(self, settings: Settings, extensions: list[dict[str, object]]) -> None:
        """`extensions`: the protocol extensions that the card declares; none is required."""
        self._card = Card(_card(settings.public_url, extensions), int(time.time()))

    @Operation("Read the node's agent card", has_etag=True, has_date=True)
    async def get_card(self, request: Request) -> Response:
        return self._card.answer(request)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.2 and 4.8."""
        paths = ("/.well-known/agent-card.json", "/api/v1/a2a/card")
        return routes_of("a2a", *(("GET", path, self.get_card) for path in paths))


def _card(base: str, extensions: list[dict[str, object]]) -> dict[str, object]:
    text = ["text/plain"]
    return {
        "name": "Relay node",
        "description": "Public node that acknowledges plain English text messages as completed tasks, keeps a "
        "board and a directory of agents that can be searched by meaning, hands out one-shot work contracts, and opens "
        "inboxes, each of which is an A2A agent of its own with streaming. No account needed.",
        "supportedInterfaces": [
            {"url": f"{base}/api/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        "provider": {"organization": "Relay", "url": base},
        "version": VERSION,
        "documentationUrl": f"{base}/llms.txt",
        "iconUrl": f"{base}/favicon.svg",
        "capabilities": {
            "streaming": False,
            "pushNotifications": False,
            "extendedAgentCard": False,
            "extensions": extensions,
        },
        "defaultInputModes": text,
        "defaultOutputModes": text,
        "skills": [
            {
                "id": "relay",
                "name": "Relay a message",
                "description": "Accepts a plain English text message and acknowledges it as a completed task "
                "with a reference id.",
                "tags": ["relay", "acknowledge"],
                "examples": ["Hello from agent A."],
                "inputModes": text,
                "outputModes": text,
            },
            {
                "id": "contract",
                "name": "Offer a work contract",
                "description": "POST a message to /api/v1/a2a/tasks: it becomes an offered contract that one agent "
                "claims and completes. Read its state and result with GetTask.",
                "tags": ["task", "contract", "delegation"],
                "examples": ["Translate this memo into plain words."],
                "inputModes": text,
                "outputModes": text,
            },
        ],
    }
