"""How many web processes a node has, which signals reach them, how many files they may open, and how much memory its
Redis may use: half of the node's.
"""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import uvloop
from granian.asgi import LifespanProtocol

from node.common import control_group
from node.config import Settings
from node.run import launch
from node.run.embedded_redis import EmbeddedRedis
from tests.support.nodes import PATIENCE
from tests.support.own_process import SIGNALS, kept_as_it_was


def eight_cores(_pid: int) -> set[int]:
    return set(range(8))


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The control group of this process: that of a systemd unit in a slice."""
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


def test_a_process_may_have_as_many_connections_as_the_system_lets_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
    try:
        launch.prepare(Settings(data_dir=tmp_path))
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_embedded_redis_may_use_half_of_the_memory_of_its_unit(unit: Path, tmp_path: Path) -> None:
    (unit / "memory.max").write_text("max\n")
    (unit.parent / "memory.max").write_text("1000000000\n")
    with EmbeddedRedis(tmp_path / "data") as server:
        server.start()
        store: Any = redis.Redis.from_url(server.url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
        assert store.config_get("maxmemory") == {"maxmemory": "500000000"}


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop of a web process. Signals are blocked as in a process that is just starting.

    uvloop leaves its handlers installed when it is closed; `kept_as_it_was` restores the previous ones.
    """
    with kept_as_it_was():
        loop = uvloop.new_event_loop()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, launch.WEB_SIGNALS)
        yield loop
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        loop.close()


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_that_comes_between_the_start_of_the_application_and_of_its_server_is_heeded(
    loop: asyncio.AbstractEventLoop, signum: signal.Signals
) -> None:
    """Granian's event loop is blocked at that moment. A stop signal must not be lost if the process got no CPU time
    just before.
    """
    heeded = asyncio.Event()

    async def app(_scope: object, _receive: object, send: Any) -> None:
        loop.add_signal_handler(signum, heeded.set)
        await send({"type": "lifespan.startup.complete"})
        time.sleep(0.3)  # noqa: ASYNC251 - gives the CPU to other processes
        await heeded.wait()

    started = LifespanProtocol(launch._unblocking_signals(app))  # pyright: ignore[reportPrivateUsage]
    loop.run_until_complete(started.startup())
    signal.raise_signal(signum)
    loop.run_until_complete(asyncio.wait_for(started.event_shutdown.wait(), PATIENCE))  # the application has ended
    assert heeded.is_set()
