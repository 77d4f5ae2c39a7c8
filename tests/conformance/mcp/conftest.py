"""The official MCP clients call the node."""

from importlib.util import find_spec

from tests.conformance.javascript import SCRIPTS

if find_spec("mcp") is None or not (SCRIPTS / "node_modules" / "@modelcontextprotocol").exists():
    raise ModuleNotFoundError("the official MCP clients are not installed: run `make clients`")
