"""Imports run one way: api, service, store, node.store, lua (DESIGN 3)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

NODE = Path(__file__).parent.parent / "node"
ROOMS = ("relay", "board", "tasks", "sessions", "artifacts", "feedback")
LONGEST_FILE = 400  # lines


def files() -> list[Path]:
    return sorted(path for path in NODE.rglob("*.py") if "lua" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, with the names it takes from it."""
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def breaches(path: Path) -> Iterator[str]:
    here = path.relative_to(NODE)
    room, layer = here.parts[0], here.stem
    for name in imports(path):
        top, _, rest = name.partition(".")
        target = rest.split(".") if top == "node" else []
        redis = top in {"redis", "hiredis"}
        if redis and room != "store" and here.name != "check.py":
            yield f"{here} imports {name}: only node.store talks to Redis"
        if room == "store" and target and target[0] in {"web", *ROOMS}:
            yield f"{here} imports {name}: the store knows neither HTTP nor rooms"
        if room == "web" and target and target[0] in ROOMS:
            yield f"{here} imports {name}: web knows no room"
        if room in ROOMS:
            if layer == "model" and target and target[0] in ROOMS:
                yield f"{here} imports {name}: a model imports nothing of ours"
            if layer == "service" and (top == "litestar" or target[:1] == ["web"]):
                yield f"{here} imports {name}: a service knows no HTTP"
            if layer == "api" and target[:2] == ["store", "wire"]:
                yield f"{here} imports {name}: an api does not touch the store"
            if len(target) > 1 and target[0] in ROOMS and target[0] != room and target[1] == "store":
                yield f"{here} imports {name}: a room goes through another room's service"
        if top == "torch" or (top == "sentence_transformers" and here.as_posix() != "text/embed.py"):
            yield f"{here} imports {name}: the model belongs to the worker"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(NODE).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    assert list(breaches(path)) == []


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(NODE).as_posix())
def test_a_file_is_about_one_thing(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
