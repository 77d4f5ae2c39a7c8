"""The official conformance suite: the scenarios about the features of this server.

Left out are scenarios that need special tools (`test_simple_text`, ...), a server that calls its client, or sessions.
`server-stateless` has four such checks among its 25; they report "Not testable".
"""

import asyncio
import re

import pytest

from tests.conformance.javascript import SCRIPTS, node_binary
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIOS = {
    ("server-initialize", LEGACY): 2,
    ("ping", LEGACY): 2,
    ("server-session-lifecycle", LEGACY): 0,
    ("tools-list", LEGACY): 3,
    ("tools-list", MODERN): 4,
    ("resources-list", LEGACY): 2,
    ("resources-list", MODERN): 2,
    ("prompts-list", LEGACY): 2,
    ("prompts-list", MODERN): 2,
    ("dns-rebinding-protection", LEGACY): 2,
    ("dns-rebinding-protection", MODERN): 2,
    ("server-sse-multiple-streams", LEGACY): 0,
    ("server-sse-multiple-streams", MODERN): 1,
    ("server-stateless", MODERN): 21,
    ("caching", MODERN): 8,
    ("http-header-validation", MODERN): 14,
    ("sep-2164-resource-not-found", MODERN): 4,
    ("input-required-result-unsupported-methods", MODERN): 2,
}
"""Number of checks that must pass, by scenario and revision."""


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
async def test_a_scenario_of_the_suite(served: NodeProcess, scenario: str, version: str) -> None:
    url = f"http://localhost:{served.port}/api/v1/mcp"
    suite = SCRIPTS / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    process = await asyncio.create_subprocess_exec(
        *(node_binary(), str(suite), "server", "--url", url, "--scenario", scenario, "--spec-version", version),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        output, _ = await process.communicate()
    said = output.decode()
    passed = re.search(r"Passed: (\d+)/\d+, (\d+) failed", said)
    assert passed is not None, said
    assert int(passed[1]) == SCENARIOS[scenario, version], said
    assert int(passed[2]) == said.count("Error: Not testable: server does not list the diagnostic tool"), said
