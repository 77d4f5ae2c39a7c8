"""What all of the operator's commands have in common."""

import msgspec
import pytest

from node.admin.console.context import MAX_COLUMN, STORE_TIMEOUT, opened, table
from tests.support.node_under_test import NodeUnderTest


def test_a_cell_of_a_table_is_short_and_one_line() -> None:
    longest, cut = "x" * MAX_COLUMN, "x" * (MAX_COLUMN - 1) + "…"
    rows = [(longest, True), (longest + "x", False), ("two\nlines", None), ("", 0)]
    assert table(("WHAT", "IS"), rows) == [
        "WHAT".ljust(MAX_COLUMN) + "  IS",
        f"{longest}  yes",
        f"{cut}  no",
        "two lines".ljust(MAX_COLUMN) + "  -",
        "-".ljust(MAX_COLUMN) + "  0",
    ]


@pytest.mark.parametrize(("given", "waits"), [(0.9, STORE_TIMEOUT), (30.0, 30.0)])
async def test_a_command_waits_longer_for_redis_than_a_client_would(
    node: NodeUnderTest, given: float, waits: float
) -> None:
    settings = msgspec.structs.replace(node.settings, store_timeout=given)
    async with opened(settings, "olivia") as context:
        assert context.settings.store_timeout == waits
