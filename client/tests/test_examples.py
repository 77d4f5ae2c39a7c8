"""The examples run against a real node, with models that follow a script."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.client_node import begin
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE

PACKAGE = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-examples" / "bin" / "python"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    """A node whose directory contains no agents but those of the examples."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield begin(node).ready()


def said(example: str, served: NodeProcess) -> Any:
    """Run an example and return the results of its agents."""
    if not PYTHON.exists():
        raise FileNotFoundError("the frameworks of the examples are not installed: run `make clients`")
    done = subprocess.run(
        [str(PYTHON), str(PACKAGE / "tests" / "scripted" / example), served.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={"PYTHONPATH": f"{PACKAGE}:{PACKAGE / 'examples'}"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_planner_and_two_workers_of_pydantic_ai_meet_at_a_node(served: NodeProcess) -> None:
    summarisers, extractors, answer, summary, figures = said("script_pydantic_ai.py", served)
    assert {agent["name"] for agent in (*summarisers, *extractors)} <= {"Summary desk", "Figures desk"}
    assert extractors
    assert answer == "Yes, I have time today."
    assert summary == {"headline": "Solar grows", "sentences": ["It makes more power than before."]}
    assert figures == {"figures": {"share": 12.5}}


@pytest.mark.parametrize("framework", ["langgraph", "openai_agents"])
def test_a_planner_and_a_worker_meet_by_the_tools_of_the_node(served: NodeProcess, framework: str) -> None:
    assert said(f"script_{framework}.py", served) == {"headline": "Solar grows"}
