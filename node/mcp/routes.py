"""Composes the routes of MCP from the operations that its tools and resources call."""

from collections.abc import Sequence

from node.mcp.api import McpApi
from node.mcp.card import card_routes
from node.mcp.prompts import Prompts
from node.mcp.resources import Resources
from node.mcp.server import McpServer
from node.mcp.sse import SseApi
from node.mcp.store import StreamStore
from node.mcp.stream_calls import StreamCalls
from node.mcp.tool_calls import ToolCalls
from node.mcp.tools import TOOLS
from node.store import Store
from node.web.limits import Limiter
from node.web.origin import OriginPolicy
from node.web.route import Route
from node.web.throughput import Throughput


class McpRoutes:
    """The MCP server of one web process: its routes and open streams."""

    def __init__(
        self,
        routes: Sequence[Route],
        limiter: Limiter,
        throughput: Throughput,
        store: Store,
        origins: OriginPolicy,
        public_url: str,
    ) -> None:
        """`routes`: the operations that tools and resources call."""
        operations = {f"{route.method} {route.path}": route for route in routes}
        tools = ToolCalls(TOOLS, operations)
        prompts = Prompts(public_url)
        resources = Resources(public_url, operations)
        server = McpServer(tools, prompts, resources, limiter, throughput)
        streams = StreamStore(store)
        self._calls = StreamCalls(server, streams)
        self._streams = SseApi(self._calls, streams, limiter, origins, public_url)
        self.routes: tuple[Route, ...] = (
            *McpApi(server, origins).routes(),
            *self._streams.routes(),
            *card_routes(tools, prompts, resources, public_url),
        )

    def end_streams(self) -> None:
        """End all event streams, so that the process can stop."""
        self._streams.end()

    async def close(self) -> None:
        """Wait for the calls whose answers go to event streams."""
        await self._calls.close()
