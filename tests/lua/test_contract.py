"""What lua/README.md promises of every step and fragment, where the loader does not check it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from node.store.scripts import FOLDER, Script
from tests.support.scripts import all_scripts

NODE = Path(__file__).parents[2] / "node"
DECLARED = re.compile(r"^@step\ndef (\w+)\(", re.MULTILINE)
COMMENT = re.compile(r"--.*")
SCRIPTS = all_scripts()
FRAGMENTS = sorted(path.stem for path in (FOLDER / "lib").glob("*.lua"))


def code_of(path: Path) -> str:
    """Return the text of a Lua file without its comments."""
    return COMMENT.sub("", path.read_text())


def test_every_script_is_declared_as_a_step_by_exactly_one_module() -> None:
    declared = Counter(name for path in NODE.rglob("*.py") for name in DECLARED.findall(path.read_text()))
    assert declared == dict.fromkeys((script.name for script in SCRIPTS), 1)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_name_of_a_header_is_used(script: Script) -> None:
    names = [*script.keys, *script.args]
    words = re.findall(r"\w+", code_of(FOLDER / f"{script.name}.lua"))
    assert [name for name in names if name not in words] == []


def test_further_arguments_are_used_where_a_header_allows_them() -> None:
    for script in SCRIPTS:
        used = "ARGV" in code_of(FOLDER / f"{script.name}.lua")
        assert used == bool(script.rest), script.name


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_is_one_function_of_its_name_and_its_comment_says_what_it_returns(fragment: str) -> None:
    text = (FOLDER / "lib" / f"{fragment}.lua").read_text()
    (signature,) = re.findall(r"^local function (\w+\(.*\))$", text, re.MULTILINE)
    assert signature.startswith(f"{fragment}(")
    assert text.startswith(f"-- {signature} -> ")


def test_every_fragment_is_included_somewhere_and_named_in_the_readme() -> None:
    included: set[str] = set()
    for path in FOLDER.rglob("*.lua"):
        included |= set(re.findall(r"^-- include (\w+)$", path.read_text(), re.MULTILINE))
    rows = re.findall(r"^\| (`.+`) \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert included == named == set(FRAGMENTS)


def test_what_a_step_includes_it_calls() -> None:
    for path in FOLDER.rglob("*.lua"):
        code = code_of(path)
        for name in re.findall(r"^-- include (\w+)$", path.read_text(), re.MULTILINE):
            assert f"{name}(" in code, f"{path.name} includes {name}"
