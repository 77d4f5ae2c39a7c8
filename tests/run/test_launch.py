"""How many web processes a node has, and how much memory its Redis may use: half of what the node may."""

import os
from pathlib import Path
from typing import Any

import pytest
import redis

from node.common import control_group
from node.config import Settings
from node.run import launch
from node.run.embedded_redis import Embedded


def eight_cores(_pid: int) -> set[int]:
    return set(range(8))


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control group of this process: that of a systemd unit, in a slice."""
    group = tmp_path / "system.slice" / "relay-node.service"
    group.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("4:memory:/of/version/1\n0::/system.slice/relay-node.service\n")
    monkeypatch.setattr(control_group, "OWN", tmp_path / "cgroup")
    monkeypatch.setattr(control_group, "GROUPS", tmp_path)
    return group


@pytest.mark.parametrize(
    ("said", "processes"), [("max 100000", 8), ("150000 100000", 2), ("1000 100000", 1), ("6400000 100000", 8)]
)
@pytest.mark.parametrize("whose", ["unit", "slice", "container"])
def test_one_for_each_core_that_may_be_used(
    unit: Path, monkeypatch: pytest.MonkeyPatch, whose: str, said: str, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", eight_cores)
    assert launch.web_processes(Settings()) == 8
    group = {"unit": unit, "slice": unit.parent, "container": unit.parents[1]}[whose]
    (group / "cpu.max").write_text(f"{said}\n")
    assert launch.web_processes(Settings()) == processes
    assert launch.web_processes(Settings(workers=3)) == 3


def test_an_embedded_redis_may_use_half_of_the_memory_of_its_unit(unit: Path, tmp_path: Path) -> None:
    (unit / "memory.max").write_text("max\n")
    (unit.parent / "memory.max").write_text("1000000000\n")
    with Embedded(tmp_path / "data") as server:
        server.start()
        store: Any = redis.Redis.from_url(server.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
        assert store.config_get("maxmemory") == {"maxmemory": "500000000"}
