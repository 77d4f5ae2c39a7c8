"""The README is true: its names, its links, and its curl tour against a real node."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest

from node.config import SECRETS
from node.config.sources import CONFIG, FILE_SUFFIX
from node.describe.settings import table
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("bench/*.md"))]
TOUR = re.findall(r"```console\n\$ (?P<command>.+?)\n(?P<answer>\{.+?\})\n```", README, re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"
HITS = "hits"
MORE = "…"


def test_every_setting_in_a_document_is_one_of_the_program() -> None:
    known = {row.name for row in table()} | {f"{name}{FILE_SUFFIX}" for name in SECRETS} | {CONFIG}
    for page in PAGES:
        assert set(re.findall(r"RELAY_[A-Z0-9_]*[A-Z0-9]\b", page.read_text())) <= known, page.name


def test_every_link_of_a_document_leads_somewhere() -> None:
    for page in PAGES:
        for link, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([\w-]+))?\)", page.read_text()):
            to = page.parent / link if link else page
            assert to.exists(), f"{page.name}: {link}"
            assert not heading or heading in anchors(to), f"{page.name}: {link}#{heading}"


def test_the_index_of_the_documents_has_every_one_of_them() -> None:
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= set(re.findall(r"\]\(([^)#]+)", README))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def parsed(answer: str) -> Any:
    """Parse a printed answer, in which `…` at the end of an object stands for the omitted fields."""
    return json.loads(answer.replace(f",{MORE}}}", f',"{MORE}":true}}'))


def learn(printed: Any, got: Any, ids: dict[str, str]) -> None:
    """Check that an answer has the fields of the printed one, and record which id stands for which."""
    assert type(printed) is type(got)
    match printed:
        case dict():
            fields = cast("dict[str, Any]", printed)
            if fields.pop(MORE, None):
                assert fields.keys() < got.keys()
            else:
                assert list(fields) == list(got)
            assert fields.get("error") == got.get("error")
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
        node.start().ready().line("embedding model loaded")
        for command, answer in TOUR:
            # Longest first, because a token contains an address.
            for printed, real in sorted(ids.items(), key=lambda pair: -len(pair[0])):
                command = command.replace(printed, real)  # noqa: PLW2901
            command = command.replace(ADDRESS, node.url)  # noqa: PLW2901
            printed = parsed(answer)
            got = run(command, until_found=HITS in printed)
            learn(printed, got, ids)


def run(command: str, *, until_found: bool) -> Any:
    """Return the answer of a command. A search is repeated until it finds what was just posted."""
    for _ in range(50):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=PATIENCE)
        got = json.loads(done.stdout)
        if not until_found or got[HITS]:
            return got
        time.sleep(1)  # the limit is one search a second
    pytest.fail(f"nothing found by {command}")
