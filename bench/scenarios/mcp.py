"""MCP tools/call: a tool that needs no store, compared with the official SDK's server, and a tool that writes."""

from bench.client import Call
from bench.entities import must_say
from bench.lab import Lab
from bench.payload import MCP_HEADERS, Template, sentence, tool_call
from bench.peers import mcp_sdk
from bench.scenario import Scenario

CEILING = "get_node_health, ceiling"

_call = Template("POST", "/api/v1/mcp", **MCP_HEADERS)


async def run(lab: Lab) -> None:
    healthy, acknowledged = must_say(b'"isError":false'), must_say(b"acknowledged")
    health = lab.numbered(lambda number: Call(_call(tool_call(number, "get_node_health", {})), answered=healthy))

    def relay_message(number: int) -> Call:
        message = {"message": sentence(number), "agent": f"agent-{number}"}
        return Call(_call(tool_call(number, "relay_message", message)), answered=acknowledged)

    relay = lab.numbered(relay_message)
    if lab.alone:
        async with lab.node() as node:
            await lab.at_asked_rate(node, relay)
        return
    async with lab.node("web") as node, lab.peers([mcp_sdk.PEER]) as peers:
        await lab.side_by_side([(node, health), *peers], CEILING)
        ceiling = await lab.at_ceiling(node, relay, "relay_message, ceiling")
        await lab.at_rate(node, relay, "relay_message, half of the ceiling", ceiling.requests_per_s / 2)


SCENARIO = Scenario("mcp", "MCP tools/call; the Python SDK's server beside it", run)
