"""The directory's probes find the official A2A and MCP servers open, and have no effect on them (NETWORK 2)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from node.agents.entry import AgentRow, StoredAgent, stored_agent
from node.agents.fetch import CardFetcher
from node.agents.probe import Prober
from node.callbacks.breaker import Breaker
from node.callbacks.call import Caller
from node.callbacks.concurrency import Concurrency
from node.callbacks.fair import FairCaller
from node.callbacks.resolve import SystemResolver
from node.callbacks.target import TargetPolicy
from node.config import Limit
from tests.support.fake_store import FakeStore
from tests.support.servers import free_port

NODE = "http://node.example"
WELL_KNOWN = "/.well-known/agent-card.json"


class Idle(AgentExecutor):
    """An agent that counts the requests that it gets to execute."""

    def __init__(self) -> None:
        self.asked = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.asked += 1

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.asked += 1


@asynccontextmanager
async def serving(app: Any, port: int) -> AsyncGenerator[str]:
    """Serve an application on a port, and yield its base URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


@pytest_asyncio.fixture
async def calls() -> AsyncIterator[FairCaller]:
    store = FakeStore()
    breaker = Breaker(store, Limit(0, 60))
    yield FairCaller(Caller(TargetPolicy(allow_private=True), SystemResolver(), breaker), breaker, Concurrency())
    await store.close()


def listed(base: str, url: str, binding: str) -> StoredAgent:
    """List an agent by its URL, and return its entry."""
    fields = {
        "status": "listed",
        "proof": "domain",
        "address": "127.0.0.1",
        "by": "0" * 32,
        "card_url": base + WELL_KNOWN,
        "url": url,
        "binding": binding,
        "version": "1.0",
    }
    return stored_agent("", AgentRow.of({name.encode(): value.encode() for name, value in fields.items()}, None))


def prober(calls: FairCaller) -> Prober:
    return Prober(calls, CardFetcher(calls, NODE))


async def test_the_a2a_server_is_listed_and_open_over_both_bindings(calls: FairCaller) -> None:
    port = free_port()
    card = AgentCard(
        name="Desk",
        description="Helps people with long documents of every kind.",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}", protocol_binding="HTTP+JSON", protocol_version="1.0")
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=False),
        skills=[AgentSkill(id="sum", name="Sum up", description="Sums up long reports.", tags=["summary"])],
    )
    executor = Idle()
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, rpc_url="/rpc"),
        *create_rest_routes(handler),
    ]
    async with serving(Starlette(routes=routes), port) as base:
        found = await CardFetcher(calls, NODE).fetch(f"{base}/", "0" * 32)
        assert (found.reason, found.fields["url"], found.fields["binding"]) == ("", base, "HTTP+JSON")
        asked = prober(calls)
        assert await asked.call(listed(base, base, "HTTP+JSON")) == "open"
        assert await asked.call(listed(base, f"{base}/rpc", "JSONRPC")) == "open"
        assert await asked.call(listed(base, f"{base}/nowhere", "JSONRPC")) == "wrong_protocol"
    assert executor.asked == 0


@pytest.mark.parametrize("is_plain", [True, False], ids=["JSON", "event stream"])
async def test_the_mcp_server_is_open(calls: FairCaller, is_plain: bool) -> None:
    app = MCPServer("peer").streamable_http_app(
        json_response=is_plain,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    async with serving(app, free_port()) as base:
        # The server has no agent card at the usual place: the probe says so before it asks for anything else.
        assert (await prober(calls).probe(listed(base, f"{base}/mcp", "MCP"))).found == "gone"
        async with serving(Starlette(routes=create_agent_card_routes(AgentCard(name="x"))), free_port()) as other:
            assert (await prober(calls).probe(listed(other, f"{base}/mcp", "MCP"))).found == "open"
