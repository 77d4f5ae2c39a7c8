"""The real web application with a test's own routes, called over ASGI."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from node.config import Proxies, Settings
from node.web.address import ClientAddress
from node.web.application import WebApplication
from node.web.http import ASGIApp, ASGIMessage
from node.web.origin import OriginPolicy
from node.web.paths import Paths
from node.web.route import Route
from node.web.router import Router
from node.web.throughput import Throughput


class Routes:
    """What the web application needs of a node: hot routes, and others."""

    def __init__(
        self,
        hot: Sequence[Route],
        others: Sequence[Route],
        rate: int = 0,
        mounted: Mapping[str, ASGIApp] | None = None,
    ) -> None:
        self.hot = hot
        self.mounted = mounted or {}
        self.paths = Paths([*hot, *others])
        self.origins = OriginPolicy(Settings(base_url="http://node.example"))
        self.throughput = Throughput(rate)
        self.router = Router(others, self.paths)

    def refuses(self, client: str) -> bool:
        return False

    def drain(self) -> None: ...

    def release(self) -> None: ...

    async def close(self) -> None: ...


async def front_of(
    *hot: Route, others: Sequence[Route] = (), rate: int = 0, mounted: Mapping[str, ASGIApp] | None = None
) -> WebApplication:
    """Return a started web application. `rate`: bytes a second for one client; 0 is no limit."""

    async def compose() -> Routes:
        return Routes(hot, others, rate, mounted)

    app = WebApplication(compose, ClientAddress(Proxies()))
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[ASGIMessage] = asyncio.Queue()
    await inbox.put({"type": "lifespan.startup"})
    await inbox.put({"type": "lifespan.shutdown"})
    await app({"type": "lifespan"}, inbox.get, outbox.put)
    return app


@asynccontextmanager
async def client_of(app: ASGIApp, address: str = "203.0.113.7") -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of the application."""
    transport = httpx2.ASGITransport(app=app, client=(address, 40000))
    async with httpx2.AsyncClient(transport=transport, base_url="http://node.example") as client:
        yield client
