"""Prints what the faults cost at the end of the run."""

import pytest

from tests.faults.report import ROWS, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("what each fault cost")
        for line in table(ROWS):
            terminalreporter.line(line)
        terminalreporter.line(f"{sum(row.acknowledged for row in ROWS)} writes were acknowledged.")
