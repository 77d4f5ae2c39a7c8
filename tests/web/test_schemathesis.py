"""schemathesis finds no server error on a running node, and no breach of /openapi.json.

A short run by default; with FAULTS=full (`make fuzz`), as many cases as fit into an evening.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.effort import FULL
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import ROOT, NodeProcess
from tests.web.paths import ARTIFACT, DIGEST, THREAD

EXAMPLES = 300 if FULL else 1
PHASES = "examples,coverage,fuzzing,stateful" if FULL else "examples,coverage,fuzzing"
PATIENCE = 14400 if FULL else 600  # s for the whole run, on a busy machine
CONFIG = Path(__file__).with_name("schemathesis.toml")
NOT_TRIED = 2
"""Number of operations left out: MCP's event stream, which has no end, and the document itself."""


@pytest.fixture
def running_node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as node:
        # A Redis call that is too slow on a busy machine is no finding. One worker is enough, since requests come one
        # after the other.
        yield node.start(RELAY_STORE_TIMEOUT="30", RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()


def test_no_request_breaks_the_node_or_its_description(running_node: NodeProcess, tmp_path: Path) -> None:
    document = json.loads(running_node.get("/openapi.json"))
    operations = sum(len(methods) for methods in document["paths"].values())
    said = schemathesis(running_node, tmp_path, things_made_at(running_node))
    assert f"Tested: {operations - NOT_TRIED}" in said, said
    passed = re.search(r"([\d,]+) generated, ([\d,]+) passed", said)
    assert passed, said
    assert passed[1] == passed[2]
    assert [line for line in running_node.lines if line["level"] in {"error", "critical"}] == []


def schemathesis(node: NodeProcess, folder: Path, things: dict[str, str]) -> str:
    """Run schemathesis, and return its output. Fails the test if it finds something."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("--config-file", str(CONFIG)),
        *("run", f"{node.url}/openapi.json", "--phases", PHASES, "-n", str(EXAMPLES)),
    ]
    report = folder / "report"  # a file, so that a run that is killed for its time still shows its findings
    try:
        with report.open("w") as output:
            status = subprocess.run(
                command,
                cwd=folder,  # schemathesis leaves files in its working directory
                env=os.environ
                | things
                | {"SCHEMATHESIS_HOOKS": "tests.web.schemathesis_hooks", "PYTHONPATH": str(ROOT)},
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        pytest.fail(f"not over after {PATIENCE} s; until then:\n{report.read_text()}")
    said = report.read_text()
    assert status == 0, said
    return said


def things_made_at(node: NodeProcess) -> dict[str, str]:
    """Create one entity of each kind. Returns the ids, by the names that the configuration has for them."""
    return {
        "FUZZ_THREAD": post(node, "board", THREAD)["id"],
        "FUZZ_TASK": post(node, "tasks", {"publisher_id": "agent-1", "title": "Summarise a report"})["id"],
        "FUZZ_SESSION": post(node, "sessions", {})["session_id"],
        "FUZZ_ARTIFACT": post(node, "artifacts", ARTIFACT, **DIGEST)["id"],
        "FUZZ_MESSAGE": post(node, "relay", {"message": "Hello from one agent to another."})["reference_id"],
    }


def post(node: NodeProcess, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{node.url}/api/v1/{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)
