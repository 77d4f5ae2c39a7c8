"""A disk with faults, and a report at the end of the run of what the faults cost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.losing_disk import LosingDisk
from tests.faults.report import ROWS, table
from tests.support.servers import RedisServer


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("what each fault cost")
        for line in table(ROWS):
            terminalreporter.line(line)
        terminalreporter.line(f"{sum(row.acknowledged for row in ROWS)} writes were acknowledged.")


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that a test stops, kills or freezes."""
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LosingDisk]:
    """A disk that can be full and lose power."""
    with LosingDisk(tmp_path / "disk") as disk:
        yield disk
