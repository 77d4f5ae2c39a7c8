"""The README tells the truth: its settings table, and its curl tour against a real node."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest

from node.config import table
from tests.support.nodes import ROOT, NodeProcess

README = (ROOT / "README.md").read_text()
TOUR = re.findall(r"```console\n\$ (?P<command>.+?)\n(?P<answer>\{.+?\})\n```", README, re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"
HITS = "hits"


def test_the_settings_table_is_that_of_the_program() -> None:
    for row in table():
        assert f"| `{row.name}` |" in README, f"{row.name} is not in the README: `relay-node config` prints the table"
    shown = set(re.findall(r"^\| `(RELAY_\w+)` \|", README, re.MULTILINE))
    assert shown == {row.name for row in table()}


def learn(printed: Any, got: Any, ids: dict[str, str]) -> None:
    """Hold an answer against the printed one: the same fields; and note which id stands for which."""
    assert type(printed) is type(got)
    match printed:
        case dict():
            fields = cast("dict[str, Any]", printed)
            assert list(fields) == list(got)
            for name, value in fields.items():
                learn(value, got[name], ids)
        case [first, *_]:
            assert got
            learn(first, got[0], ids)
        case str() if printed != got:
            ids[printed] = got
        case _:
            pass


def test_the_curl_tour_works_as_printed(tmp_path: Path) -> None:
    assert shutil.which("curl"), "the tour needs curl"
    assert len(TOUR) >= 10
    ids: dict[str, str] = {}
    with NodeProcess(tmp_path / "data") as node:
        node.start().ready().line("embedding model loaded", patience=120)
        for command, answer in TOUR:
            for printed, real in ids.items():
                command = command.replace(printed, real)  # noqa: PLW2901
            command = command.replace(ADDRESS, node.url)  # noqa: PLW2901
            printed = json.loads(answer)
            got = run(command, until_found=HITS in printed)
            learn(printed, got, ids)


def run(command: str, *, until_found: bool) -> Any:
    """The answer of a command; of a search, once what was posted just now is found."""
    for _ in range(50):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
        got = json.loads(done.stdout)
        if not until_found or got[HITS]:
            return got
        time.sleep(1)  # the limit is one search a second
    pytest.fail(f"nothing found by {command}")
