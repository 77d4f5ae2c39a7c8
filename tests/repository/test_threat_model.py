"""The code and tests named by the claims of docs/threat-model.md exist."""

import re
from pathlib import Path

import pytest

from node.share.cost import COSTS as COSTS_OF
from node.share.cost import Kind
from tests.support.node_under_test import NodeUnderTest

METHODS = {"GET", "POST", "PUT", "DELETE"}
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/threat-model.md").read_text()
CLAIMS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and len(line.strip("| ").split(" | ")) == 4 and not line.endswith("| Test |")
]
COSTS = [claim for claim in CLAIMS if claim[0].startswith(("`GET ", "`POST ", "`DELETE "))]
"""The cost of each operation: the operations, the cost, its bound, and the test."""
CAPABILITIES = (
    *(
        "Every request",
        "Relay and board",
        "Tasks",
        "Sessions",
        "Inboxes",
        "Directory",
        "Artifacts",
        "Callbacks",
        "Signatures",
    ),
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


async def test_every_operation_of_the_documents_has_one_row_that_says_what_it_costs(node: NodeUnderTest) -> None:
    paths = (await node.client.get("/openapi.json")).json()["paths"]
    served = {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}
    told = [operation for operations, *_ in COSTS for operation in quoted(operations)]
    assert sorted(told) == sorted(operation for operation in served if operation.split()[0] in METHODS)


def test_what_a_write_keeps_is_what_it_is_charged() -> None:
    """The page's figures are those of the program."""
    kinds: dict[str, Kind] = {"/api/v1/board": "thread", "/api/v1/board/{id}/replies": "reply", "/api/v1/tasks": "task"}
    for path, kind in kinds.items():
        [(_, cost, *_)] = [row for row in COSTS if f"POST {path}" in quoted(row[0])]
        kilobytes = f"{COSTS_OF[kind].keeps / 1000:g} kB"
        assert f"keeps {kilobytes}" in cost


def test_the_way_to_report_a_weakness_is_told() -> None:
    assert "docs/threat-model.md" in (ROOT / "SECURITY.md").read_text()
