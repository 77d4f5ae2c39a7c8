"""What all of the operator's commands have in common."""

from typing import cast

import msgspec
import pytest

from node.admin.console import client_content, status
from node.admin.console.context import MAX_COLUMN, STORE_TIMEOUT, CommandContext, opened, table
from node.common.refusal import Refused
from node.observe.memory import RedisMemory
from node.share.origin import Attributed
from node.store import Store
from tests.admin.conftest import Admin
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


async def test_status_shows_the_memory_of_the_fullest_primary(
    node: NodeUnderTest, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def redis_memory(_store: Store, _limit: int) -> list[RedisMemory]:
        return [RedisMemory(0, used, limit) for used, limit in ((10, 100), (70, 100), (50, 100), (99, 0))]

    monkeypatch.setattr(status, "redis_memory", redis_memory)
    assert (await admin("status", "--json")).data["memory_percent"] == 70


async def test_what_a_purge_is_refused_is_not_called_gone(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_context: CommandContext, name: str) -> None:
        raise Refused(name)

    monkeypatch.setattr(client_content, "REMOVALS", dict.fromkeys(client_content.KINDS, refuse))
    async with opened(node.settings, "olivia") as context:
        for code, outcome in (("task.unknown", client_content.GONE), ("task.state", "task.state")):
            assert await client_content.remove(context, Attributed("contract", code, None, None, None)) == outcome


async def test_a_rare_kind_of_keys_is_not_left_out() -> None:
    class Keys:
        """Three hundred keys. The first one drawn is of a kind of its own."""

        drawn = 0

        async def everywhere(self, command: str) -> list[object]:
            if command == "DBSIZE":
                return [300]
            self.drawn += 1
            return [b"audit" if self.drawn == 1 else b"thread:{00}:1"]

    sizes = status._kinds  # pyright: ignore[reportPrivateUsage] - its public caller draws at random
    assert await sizes(cast("Store", Keys())) == (300, {"thread": 300, "audit": 1})
