"""Imports go in one direction: api, service, store, node.store, lua (DESIGN 3)."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODE = ROOT / "node"
LONGEST_FILE = 400  # lines

PAGE = (ROOT / "docs" / "architecture.md").read_text()
FLOORS = [set(line.split()) for line in re.findall(r"^│ ((?:[a-z_]\w* *)+)│$", PAGE, re.MULTILINE)][::-1]
"""Folders and single modules of node/, as drawn, lowest floor first. Each imports only from lower floors and from
itself.
"""

FEATURES = {"relay", "board", "search", "tasks", "sessions", "artifacts", "inbox", "agents", "feedback", "a2a"}

COMPOSITION = {"run", "retention"}
"""Folders that compose others, and therefore know the inside of a feature: its stores, its retention rules."""

OF_THE_STORE = {"errors", "idempotency", "ids", "long_poll"}
"""Modules of node.store that code which does not know Redis may import."""

HANDED_TO_WEB = {"activity", "blocked", "limits", "work"}
"""Stores that are handed to web."""

OUTSIDE = {
    "granian": {"overload/intake.py", "run"},
    "gcld3": {"text/verdict.py"},
    "hiredis": {"store"},
    "jinja2": {"site"},
    "litestar": {"web"},
    "nacl": {"sign"},
    "opentelemetry": {"observe"},
    "prometheus_client": {"observe"},
    "onnxruntime": {"embedding"},
    "sentence_transformers": {"embedding/original.py"},
    "tokenizers": {"embedding"},
    "torch": {"embedding"},
}
"""Packages that only one folder or file may import."""


def files() -> list[Path]:
    return sorted(path for path in NODE.rglob("*.py") if "lua" not in path.parts)


def place(path: Path) -> str:
    return path.relative_to(NODE).as_posix()


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path) for path in files()}


@cache
def imports(path: Path) -> list[str]:
    """Return every module that a file imports. A name imported from a module counts as that module."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                name = f"{statement.module}.{alias.name}"
                yield name if name in MODULES else statement.module
        elif isinstance(statement, ast.Call) and ast.unparse(statement.func) == "import_module":
            names = [argument.value for argument in statement.args if isinstance(argument, ast.Constant)]
            yield from (name for name in names if isinstance(name, str))


def ours(path: Path) -> Iterator[list[str]]:
    """Return the modules of the node that a file imports, as their path components below `node`."""
    for name in imports(path):
        steps = name.split(".")
        if steps[0] == "node" and len(steps) > 1:  # every module may import the version from `node` itself
            yield steps[1:]


def top(path: Path) -> str:
    return path.relative_to(NODE).with_suffix("").parts[0]


def breaches(path: Path) -> Iterator[str]:
    here, folder, layer = place(path), top(path), path.stem
    for steps in ours(path):
        name = ".".join(steps)
        if layer == "model":
            yield f"{here} imports {name}: a model imports nothing of ours"
        if folder in FEATURES and layer == "service" and steps[0] == "web":
            yield f"{here} imports {name}: a service knows no HTTP"
        if (
            folder in FEATURES
            and layer == "service"
            and steps[0] == "store"
            and steps[-1] not in OF_THE_STORE | {"limits"}
        ):
            yield f"{here} imports {name}: a service knows no Redis"
        if folder in FEATURES and layer == "api" and "store" in steps[:2] and steps[-1] not in OF_THE_STORE:
            yield f"{here} imports {name}: an api does not touch the store"
        if folder == "web" and steps[0] == "store" and steps[-1] not in OF_THE_STORE | HANDED_TO_WEB:
            yield f"{here} imports {name}: web knows no Redis"
        if folder in FEATURES and layer == "store" and steps[0] not in {"store", "share", "common", "config", folder}:
            yield f"{here} imports {name}: the store of a feature knows Redis and its feature"
        if folder in FEATURES and steps[0] in FEATURES - {folder} and steps[1] not in {"service", "model"}:
            yield f"{here} imports {name}: a feature goes through another feature's service"
        if (
            folder not in FEATURES | COMPOSITION
            and steps[0] in FEATURES
            and steps[1] not in {"service", "model", "api"}
        ):
            yield f"{here} imports {name}: of a feature others know its service, its model and its routes"
    for package in {name.partition(".")[0] for name in imports(path)} & OUTSIDE.keys():
        if not OUTSIDE[package] & {folder, here}:
            yield f"{here} imports {package}: that belongs to {' and '.join(OUTSIDE[package])}"


def test_imports_run_one_way() -> None:
    assert [breach for path in files() for breach in breaches(path)] == []


def test_a_folder_stands_on_those_below_it() -> None:
    assert [wrong for path in files() if path != NODE / "__init__.py" for wrong in from_above(path)] == []


def from_above(path: Path) -> Iterator[str]:
    """Yield the imports of a file from its own floor or a higher one, outside its folder."""
    folder = top(path)
    floor = next((number for number, folders in enumerate(FLOORS) if folder in folders), None)
    if floor is None:
        yield f"say on which floor {folder} stands"
    else:
        below = set[str]().union(*FLOORS[:floor], {folder})
        yield from (f"{place(path)} imports {'.'.join(steps)}" for steps in ours(path) if steps[0] not in below)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {dotted(path): {name for name in imports(path) if name in MODULES - {dotted(path)}} for path in files()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_file_is_about_one_thing() -> None:
    sources = [path for folder in ("node", "client", "bench", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in sources if len(path.read_text().splitlines()) > LONGEST_FILE] == []


PROTOCOLS = {"a2a/model.py"}
"""Modules whose classes are named as in a protocol."""


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in files():
        if place(path) not in PROTOCOLS:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(place(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
