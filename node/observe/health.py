"""GET /health: whether the node serves, and what it can do (SPEC 2.8). GET /ready: whether to send requests to it.

Both are public, so neither shows a counter.
"""

from time import monotonic
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from node import VERSION
from node.common.shared_reads import SharedReads
from node.config import Settings
from node.describe.capabilities import CAPABILITIES, Capabilities
from node.share.capacity import Capacity
from node.store import Store, StoreUnavailable
from node.store.durability import Kept, read
from node.web.http import NO_STORE, Request, Response, json_response
from node.web.route import Operation, OtherAnswer, Route, routes_of

HEALTH_SECONDS = 0.1
"""Seconds for which an answer is reused, so that frequent health checks put no load on the store."""

RETRY_SOON = (b"retry-after", b"1")

Shortage = Literal["ok", "low"]


class LiveCapabilities(Capabilities):
    """`durability`: what acknowledged writes survive, according to the Redis servers; `none`: not even a restart."""

    durability: Kept


class Health(msgspec.Struct):
    """`unavailable` comes with 503: reads and writes fail until the store is back."""

    status: Literal["ok", "unavailable"]
    version: Annotated[str, Meta(examples=[VERSION])]
    node_id: Annotated[str, Meta(examples=["relay-node"])]
    memory: Annotated[Shortage, Meta(examples=["ok"])]
    """`low`: new sessions and threads are refused for now."""
    disk: Annotated[Shortage, Meta(examples=["ok"])]
    """`low`: the same is refused, for lack of disk space."""
    capabilities: LiveCapabilities


class Ready(msgspec.Struct):
    """Any status but `ready` comes with 503."""

    status: Annotated[Literal["ready", "draining", "unavailable"], Meta(examples=["ready"])]


class HealthApi:
    """The health of this process and of the store that it uses."""

    def __init__(self, store: Store, settings: Settings, capacity: Capacity) -> None:
        self._capacity = capacity
        self._store = store
        self._settings = settings
        self.draining = False
        """Set when the process is about to stop: it still serves, but load balancers should use other processes."""
        self._healthy: Response | None = None
        """The last answer with status 200."""
        self._healthy_until = 0.0
        self._reads = SharedReads(self._read)

    @Operation(
        "Whether the node is in service, and which capabilities it has",
        answers=Health,
        also=(OtherAnswer("application/json", Health, 503, "The store is out of reach."),),
    )
    async def get_health(self, request: Request) -> Response:
        """Answer 200 while the store answers, else 503."""
        if self._healthy and monotonic() < self._healthy_until and self._store.connected:
            return self._healthy
        return await self._reads.get(None)

    @Operation(
        "Whether load balancers should send requests to this process",
        answers=Ready,
        also=(OtherAnswer("application/json", Ready, 503, "It is about to stop, or the store is out of reach."),),
    )
    async def get_ready(self, request: Request) -> Response:
        """Answer 200 if load balancers may send requests here, else 503. Makes no call to the store.

        This is not the health of the store: while one primary of a cluster fails over, everything else is served, and
        another process could do no better. Only a process that reaches no primary at all should get no requests.
        """
        if self._store.connected and not self.draining:
            return json_response(Ready("ready"), headers=NO_STORE)
        return json_response(Ready("draining" if self.draining else "unavailable"), 503, (*NO_STORE, RETRY_SOON))

    async def _read(self, _: None) -> Response:
        try:
            durability = await read(self._store)
        except StoreUnavailable:
            return json_response(self._health("unavailable", "unknown"), 503, (RETRY_SOON,))
        self._healthy = json_response(self._health("ok", durability), headers=NO_STORE)
        self._healthy_until = monotonic() + HEALTH_SECONDS
        return self._healthy

    def _health(self, status: Literal["ok", "unavailable"], durability: Kept) -> Health:
        live = LiveCapabilities(**asdict(CAPABILITIES), durability=durability)
        memory: Shortage = "low" if self._capacity.is_memory_low else "ok"
        disk: Shortage = "low" if self._capacity.is_disk_low else "ok"
        return Health(status, VERSION, self._settings.node_id, memory, disk, live)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes (SPEC 4.8)."""
        return routes_of(
            "utility",
            ("GET", "/health", self.get_health),
            ("GET", "/ready", self.get_ready),
        )
