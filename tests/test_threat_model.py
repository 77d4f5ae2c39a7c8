"""Every claim of docs/threat-model.md names code and a test that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/threat-model.md").read_text()
CLAIMS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and len(line.strip("| ").split(" | ")) == 4 and not line.endswith("| Test |")
]
CAPABILITIES = (
    *("Every request", "Relay and board", "Tasks", "Sessions", "Artifacts", "Callbacks", "Signatures"),
    *("MCP and A2A", "Pages", "Operator's side", "What nothing stops"),
)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[0][:60])
def test_a_claim_names_code_and_a_test_that_exist(claim: list[str]) -> None:
    _, _, code, proof = claim
    assert quoted(code)
    assert [path for path in quoted(code) if not (ROOT / path).is_file()] == []
    assert quoted(proof)
    for name in quoted(proof):
        path, _, test = name.partition("::")
        assert re.search(rf"^ *(async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE), name


def test_every_capability_has_its_section() -> None:
    sections = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert set(CAPABILITIES) <= set(sections)
    tables = re.split(r"^## .*$", PAGE, flags=re.MULTILINE)
    assert sum(table.count("\n| ") - 1 for table in tables if "| Test |" in table) == len(CLAIMS)


def test_the_way_to_report_a_weakness_is_told() -> None:
    assert "docs/threat-model.md" in (ROOT / "SECURITY.md").read_text()
