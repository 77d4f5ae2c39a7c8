"""Clients generated from the running node's OpenAPI document: without warnings, typed, and working."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from node.recipes.markdown import recipes
from tests.conformance.javascript import SCRIPTS, node_binary
from tests.support.nodes import ROOT, NodeProcess

PATIENCE = 600.0  # s: a type checker takes much processor time, which it shares with others on a busy machine
PYTHON = ROOT / ".venv-openapi" / "bin" / "python"

WRONG = """
// @ts-expect-error: the type checker knows that a contract has a number here
export const wrong: Offer = { ...offer, lease_seconds: "60" };
"""


def run(*command: str | Path, folder: Path) -> str:
    """Return the output of a command, which must exit with status 0."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=folder,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},  # for the formatter
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def module(name: str) -> Path:
    """Return the folder of a JavaScript package."""
    found = SCRIPTS / "node_modules" / name
    if not found.exists():
        raise FileNotFoundError(f"{name} is not installed: run `make clients`")
    return found


def recipe(served: NodeProcess) -> list[str]:
    """Return the recipe's code: configuration, command and script for Python, command and script for TypeScript."""
    (text,) = [each.body for each in recipes(served.url) if each.name == "generated-clients"]
    return re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)


def test_a_python_client_is_made_without_a_warning_and_works(served: NodeProcess, tmp_path: Path) -> None:
    if not PYTHON.exists():
        raise FileNotFoundError("openapi-python-client is not installed: run `make clients`")
    config, command, script, *_ = recipe(served)
    (tmp_path / "config.yaml").write_text(config)
    options = shlex.split(command)[1:]
    made = run(PYTHON, "-m", "openapi_python_client", *options, "--fail-on-warning", folder=tmp_path)
    assert "warning" not in made.lower()
    (tmp_path / "agent.py").write_text(script)
    # The generator writes the same client.py for every document, and it does not pass the type checker.
    checked = {"include": ["agent.py", "relay_api/api/tasks", "relay_api/models"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(checked))
    run(sys.executable, "-m", "pyright", "--pythonpath", PYTHON, "--project", "pyrightconfig.json", folder=tmp_path)
    said = run(PYTHON, "agent.py", folder=tmp_path).splitlines()
    assert said[0].startswith("open http")
    assert said[1] == "claimed with a token"
    assert "Another agent has claimed this task" in said[2]


def test_typescript_types_are_made_without_a_warning_and_checked(served: NodeProcess, tmp_path: Path) -> None:
    generator, compiler = module("openapi-typescript"), module("typescript")
    *_, command, script = recipe(served)
    options = shlex.split(command)[2:]
    made = run(node_binary(), generator / "bin" / "cli.js", *options, folder=tmp_path)
    assert "warn" not in made.lower()
    (tmp_path / "agent.ts").write_text(script + WRONG)
    checked = ("--noEmit", "--strict", "--target", "es2022", "--module", "preserve", "--lib", "es2022,dom")
    run(node_binary(), compiler / "bin" / "tsc", *checked, "--allowImportingTsExtensions", "agent.ts", folder=tmp_path)
    said = run(node_binary(), "--disable-warning=ExperimentalWarning", "agent.ts", folder=tmp_path)
    assert said.strip() == "offered with a token"


def test_the_documents_name_each_type_once_and_without_its_module(served: NodeProcess) -> None:
    for path, place in (("/openapi.json", ("components", "schemas")), ("/schema.json", ("$defs",))):
        found = json.loads(served.get(path))
        for step in place:
            found = found[step]
        assert [name for name, schema in found.items() if schema["title"] != name] == []
        assert [name for name in found if not name.isidentifier()] == []
