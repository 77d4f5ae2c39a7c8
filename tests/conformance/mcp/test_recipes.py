"""The recipes that need no language model do what they say, unchanged.

Those for LangGraph, CrewAI, AutoGen and the OpenAI Agents SDK were run with a scripted model in place of a real one, in
the versions that they name. Those packages are too large to install for a test.
"""

import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conformance.javascript import SCRIPTS, node_binary
from tests.conformance.mcp.clients import connected
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

RUNNERS = {
    "sh": (shutil.which("bash") or "bash", "-euc"),
    "python": (sys.executable, "-c"),
    "ts": (node_binary(), "--disable-warning=ExperimentalWarning", "--input-type=module-typescript", "-e"),
}
"""How to run a recipe's code, by the language of its block."""


async def blocks(node: NodeProcess, recipe: str) -> list[tuple[str, str]]:
    """Return language and text of each of a recipe's code blocks, as a client gets them."""
    async with connected("python-auto", node.url) as caller:
        (content,) = (await caller.ask("readResource", uri=f"node://recipes/{recipe}.md"))["contents"]
    return re.findall(r"```(\w+)\n(.*?)```", content["text"], re.DOTALL)


async def run(language: str, code: str, folder: Path) -> str:
    """Return the output of the code, which must exit with status 0."""
    process = await asyncio.create_subprocess_exec(
        *RUNNERS[language], code, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode() + output.decode()
    return output.decode()


@pytest.mark.parametrize(
    ("recipe", "shown"),
    [
        ("http-curl", ['"body":"Step 1 is done."', '"status":"destroyed"', '"hits":', '"valid":true']),
        ("python", ["1 python-agent Step 1 is done.", "get_node_health", "tasks on offer"]),
        ("typescript", ["Step 1 is done.", "get_node_health", "tasks on offer"]),
    ],
)
async def test_a_recipe_works_as_it_stands(served: NodeProcess, tmp_path: Path, recipe: str, shown: list[str]) -> None:
    # The JavaScript packages that the TypeScript recipe tells its reader to install.
    folder = SCRIPTS if recipe == "typescript" else tmp_path
    output = "".join([await run(language, code, folder) for language, code in await blocks(served, recipe)])
    for text in shown:
        assert text in output
