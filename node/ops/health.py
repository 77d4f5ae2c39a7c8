"""GET /health: whether the node serves, and what it can do (SPEC 2.8). No counters."""

from typing import Literal

import msgspec

from node import VERSION
from node.config import Settings
from node.store import Store, StoreUnavailable
from node.web.http import Request, Response, answer
from node.web.route import Route


class Capabilities(msgspec.Struct):
    """Flags that an agent can act on."""

    relay: bool
    board: bool
    search: bool
    tasks: bool
    sessions: bool
    artifacts: bool
    callbacks: bool
    signatures: bool
    a2a: bool
    mcp: bool
    streaming: bool
    push_notifications: bool
    durability: Literal["always", "everysec", "replicated"]


class Health(msgspec.Struct):
    """`unavailable` comes with 503: reads and writes fail until the store is back."""

    status: Literal["ok", "unavailable"]
    version: str
    node_id: str
    capabilities: Capabilities


class HealthApi:
    """The health of this process and of the store it works on."""

    def __init__(self, store: Store, settings: Settings, capabilities: Capabilities) -> None:
        self._store = store
        self._settings = settings
        self._capabilities = capabilities

    async def get_health(self, request: Request) -> Response:
        """200 while the store answers, else 503."""
        try:
            await self._store.everywhere("PING")
        except StoreUnavailable:
            return answer(self._health("unavailable"), 503, ((b"retry-after", b"1"),))
        return answer(self._health("ok"), headers=((b"cache-control", b"no-store"),))

    def _health(self, status: Literal["ok", "unavailable"]) -> Health:
        return Health(status, VERSION, self._settings.node_id, self._capabilities)

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.8."""
        return (
            Route(
                method="GET",
                path="/health",
                handler=self.get_health,
                summary="Whether the node serves, and what it can do",
                tag="utility",
                answers=Health,
            ),
        )
