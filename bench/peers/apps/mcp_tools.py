"""A server on the MCP SDK with one tool that needs no store."""

# This runs in .venv-bench, whose packages the type checker does not see.
# pyright: basic, reportMissingImports=false

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse

server = MCPServer("peer")


@server.tool()
async def get_node_health() -> dict[str, str]:
    """Health of this node."""
    return {"status": "ok"}


@server.custom_route("/health", methods=["GET"])
async def health(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"})


app = server.streamable_http_app(
    json_response=True,
    stateless_http=True,
    transport_security=TransportSecuritySettings(allowed_hosts=["127.0.0.1"]),  # the suite's Host has no port
)
