"""A whole node inside the test: the real application on a real Redis, called over ASGI."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import httpx2

from node.config import Settings
from node.run.services import Services, Stores
from node.run.web import WebNode
from node.run.worker import main as worker_main
from node.sign.node_key import NodeKey
from node.store import Store, connect
from node.store.clock import now_ms
from node.web.address import ClientAddress
from node.web.application import WebApplication
from node.web.http import ASGIMessage
from tests.support.models import exported_model
from tests.support.servers import PATIENCE

SECRET = "8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU="
SIGNING_KEY = NodeKey.generate().secret


def settings_for(redis_url: str, **given: Any) -> Settings:
    """Return settings of a node that uses that Redis. Its timeout for Redis is longer than the default, since the
    machine may be busy.
    """
    return Settings(
        redis_url=redis_url,
        secret=SECRET,
        signing_key=SIGNING_KEY,
        base_url="http://node.example",
        embedding_model=given.pop("embedding_model", None) or exported_model(),
        store_timeout=given.pop("store_timeout", 5.0),
        **given,
    )


async def until(condition: Callable[[], Awaitable[object]], patience: float = PATIENCE) -> None:
    """Return as soon as `condition` is true. It polls, because the condition asks a server and has no event to wait
    for.
    """
    async with asyncio.timeout(patience):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class NodeUnderTest:
    """What a test needs of a node: its settings, its store, and clients to call it."""

    def __init__(self, app: WebApplication, settings: Settings, store: Store) -> None:
        self.app = app
        self.settings = settings
        self.store = store
        self.client = self.client_at("203.0.113.7")

    def client_at(self, address: str) -> httpx2.AsyncClient:
        """A client with this address."""
        transport = httpx2.ASGITransport(app=self.app, client=(address, 40000))
        return httpx2.AsyncClient(transport=transport, base_url="http://node.example")

    async def names(self, pattern: str) -> list[str]:
        """Return all keys that match a pattern, on all servers. They are sorted, since Redis returns them in no fixed
        order.
        """
        replies = cast("list[list[bytes]]", await self.store.everywhere("KEYS", pattern))
        return sorted(name.decode() for names in replies for name in names)

    async def listened_to(self, channel: str) -> None:
        """Return once somebody is subscribed to the channel."""

        async def heard() -> bool:
            return await self.store.command("PUBSUB", "SHARDNUMSUB", channel, key=channel) != [channel.encode(), 0]

        await until(heard)

    async def a_millisecond_later(self) -> None:
        """Return when the clock of Redis has passed the current millisecond, so that later changes have a later
        time.
        """
        began = await now_ms(self.store)
        while await now_ms(self.store) == began:
            pass

    def services(self) -> Services:
        """Services on the same Redis, as another process has them."""
        return Services(self.settings, Stores(self.store, self.store))

    def worker(self) -> AbstractAsyncContextManager[None]:
        """A background worker for as long as the context lasts."""
        return _worker(self.settings)


@asynccontextmanager
async def _worker(settings: Settings) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(worker_main(settings, stop))
    try:
        yield
    finally:
        stop.set()
        await task


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[NodeUnderTest]:
    """A node that is started through its lifespan, as a server starts it."""

    async def compose() -> WebNode:
        return await WebNode.start(settings)

    app = WebApplication(compose, ClientAddress(settings.trusted_proxies, settings.forwarded_header))
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[ASGIMessage] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    started = await outbox.get()
    assert started["type"] == "lifespan.startup.complete", started
    store = await connect(settings.redis_url, timeout=settings.store_timeout, max_in_flight=64)
    node = NodeUnderTest(app, settings, store)
    try:
        yield node
    finally:
        await node.client.aclose()
        await store.close()
        await inbox.put({"type": "lifespan.shutdown"})
        await life
