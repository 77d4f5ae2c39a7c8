"""docs/architecture.md is true: imports follow its drawing, its paths exist, and they call each other as it says."""

import ast
import re
from pathlib import Path

import pytest

from tests.repository.test_layers import FEATURES, FLOORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CHAINS = [line for line in PAGE.splitlines() if re.search(r"[→⇢] `", line)]
CALLS = sorted({pair for chain in CHAINS for pair in re.findall(r"(?=`([\w/.]+)` → `([\w/.]+)`)", chain)})


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:node|lua|tests)/[\w/.]+)`", PAGE))
    assert len(named) > 30
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize(("caller", "called"), CALLS)
def test_what_is_said_to_call_imports_what_it_calls(caller: str, called: str) -> None:
    tree = ast.parse((ROOT / caller).read_text())
    if called.endswith(".lua"):
        assert Path(called).stem in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return
    module = called.removesuffix(".py").replace("/", ".")
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {statement.module for statement in statements}
    imported |= {f"{statement.module}.{alias.name}" for statement in statements for alias in statement.names}
    assert module in imported


def test_the_life_of_everything_is_told() -> None:
    told = re.findall(r"^## The life of an? (\w+)$", PAGE, re.MULTILINE)
    assert told == ["write", "event", "search", "callback", "feed", "connection"]
    assert len(CALLS) > 12


def test_every_folder_has_its_place_and_its_line() -> None:
    folders = {path.parent.name for path in (ROOT / "node").glob("*/__init__.py")}
    drawn = [name for floor in FLOORS for name in floor]
    assert sorted(drawn) == sorted(folders | {"__main__", "cli", "config"})
    readme = (ROOT / "node" / "README.md").read_text()
    assert sorted(name for name in folders if f"`{name}`" not in readme) == []
    glossary = PAGE.partition("## Glossary")[2]
    assert sorted(feature for feature in FEATURES - {"a2a"} if feature not in glossary) == []


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\| ([a-z][^|]*) \|", PAGE.partition("## Glossary")[2], re.MULTILINE)[1:]
    assert len(words) > 40
    assert words == sorted(words)
