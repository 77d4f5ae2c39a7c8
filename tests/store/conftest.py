"""A real, short-lived Redis for each test. Tests of connections run on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
import uvloop

from node.store import Arg, Script, Store, connect
from node.store.scripts import FOLDER, compile_script
from node.store.steps import Step
from tests.support.servers import PATIENCE, RedisServer

ON_BOTH_LOOPS = {"test_address.py", "test_batches.py", "test_calls.py", "test_calls_failing.py", "test_wakeups.py"}

TIMEOUT = 1.0  # s that a call may take in tests that wait for the timeout


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]] | None:
    """Run tests of connections on uvloop, which a node's processes use, and on asyncio's own loop, which
    commands use.
    """
    if item.path.name in ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return None


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


class Opener:
    """Opens stores that are closed at the end of the test, however it ends."""

    def __init__(self) -> None:
        self._opened: list[Store] = []

    async def __call__(
        self, url: str, *, timeout: float = TIMEOUT, max_in_flight: int = 4096, required: bool = True
    ) -> Store:
        store = await connect(url, timeout=timeout, max_in_flight=max_in_flight, required=required)
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest_asyncio.fixture
async def open_store() -> AsyncIterator[Opener]:
    opener = Opener()
    yield opener
    await opener.close()


@pytest_asyncio.fixture
async def store(redis_server: RedisServer, open_store: Opener) -> Store:
    """A store whose calls do not fail because the machine is busy."""
    return await open_store(redis_server.url, timeout=PATIENCE)


class StepOf:
    """Creates steps of a script that is not in `lua/`, from its keys and arguments in the order of its header."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def __call__(self, *given: Arg) -> Step:
        count = len(self.script.keys)
        return Step(self.script, [str(key) for key in given[:count]], given[count:])


def step(name: str, body: str, keys: int = 1, args: int = 0) -> StepOf:
    """Create steps of a script for a test. `body` sees key1.. and arg1.. as locals."""
    header = [f"-- KEYS[{n}] key{n}  a key" for n in range(1, keys + 1)]
    header += [f"-- ARGV[{n}] arg{n}  an argument" for n in range(1, args + 1)]
    text = "\n".join(["#!lua", *header, "-- Returns whatever the test needs", "-- Slot of key1", body, ""])
    return StepOf(compile_script(name, text, FOLDER / "lib"))
