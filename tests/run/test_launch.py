"""How many web processes a node has."""

import os
from pathlib import Path

import pytest

from node.config import Settings
from node.run import launch


def eight_cores(_pid: int) -> set[int]:
    return set(range(8))


@pytest.mark.parametrize(
    ("said", "processes"), [("max 100000", 8), ("150000 100000", 2), ("1000 100000", 1), ("6400000 100000", 8)]
)
def test_one_for_each_core_that_the_container_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", eight_cores)
    monkeypatch.setattr(launch, "CPU_MAX", tmp_path / "cpu.max")
    assert launch.web_processes(Settings()) == 8
    (tmp_path / "cpu.max").write_text(f"{said}\n")
    assert launch.web_processes(Settings()) == processes
    assert launch.web_processes(Settings(workers=3)) == 3
