"""The agent card of an inbox (A2A v1.0 §8). Its owner sets name, description and skills; the node sets the rest."""

from typing import Any

import msgspec

from node import VERSION
from node.a2a.card import Card
from node.a2a.errors import inbox_fault
from node.inbox.model import CardSkill, InboxCard
from node.inbox.service import Inboxes
from node.web.http import Request, Response
from node.web.route import Operation, Route, routes_of

TEXT = ["text/plain"]

CARD = "/api/v1/inboxes/{address}/a2a/.well-known/agent-card.json"


class InboxCardApi:
    """Serves the cards of inboxes."""

    def __init__(self, inboxes: Inboxes, base: str) -> None:
        self._inboxes = inboxes
        self._base = base

    @Operation("Read the agent card of an inbox", errors=("inbox.unknown",), has_etag=True, has_date=True)
    async def get(self, request: Request) -> Response:
        address = request.params["address"]
        given, policy, changed = await self._inboxes.card(address)
        card = card_of(given, self._inboxes.a2a_url(address), self._base)
        if policy != "open":
            card["capabilities"]["extensions"] = [signing(self._base)]
        return Card(card, changed // 1000).answer(request)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of NETWORK 1."""
        return routes_of("inboxes", ("GET", CARD, self.get), fault=inbox_fault)


def signing(base: str) -> dict[str, object]:
    """Return the card extension that tells clients how to sign, for an inbox that accepts only signed messages.

    It is not `required`: a client that does not understand a required extension could not use the agent at all, though
    reading needs no signature.
    """
    return {
        "uri": f"{base}/recipes/sign-a-request",
        "description": "Messages to this inbox must be signed (RFC 9421, Ed25519)",
        "required": False,
    }


def card_of(given: InboxCard, url: str, base: str) -> dict[str, Any]:
    """Return the card of the agent at `url`, on the node at `base`."""
    return {
        "name": given.name,
        "description": given.description,
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"} for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "version": VERSION,
        "documentationUrl": f"{base}/llms.txt",
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        "defaultInputModes": TEXT,
        "defaultOutputModes": TEXT,
        "skills": [_complete(skill, number) for number, skill in enumerate(given.skills, 1)],
    }


def _complete(skill: CardSkill, number: int) -> CardSkill:
    """Return a skill with the members that A2A requires but its owner may omit: id and tags."""
    return msgspec.structs.replace(skill, id=skill.id or f"skill-{number}", tags=skill.tags or ["inbox"])
