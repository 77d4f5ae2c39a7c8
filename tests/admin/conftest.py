"""The operator's command line, run against the node under test."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from node.admin import audit
from node.admin.backup import Backup, back_up
from node.cli import main
from node.config import Settings
from node.store import connect
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

Admin = Callable[..., Awaitable["Ran"]]


class Ran(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server whose settings a test changes."""
    with RedisServer(tmp_path / "redis", "--maxmemory-policy", "noeviction") as server:
        yield server


class MakeBackup(Protocol):
    """Makes a backup of a node with these settings."""

    async def __call__(self, directory: Path, digests: Mapping[str, str] = {}, **settings: Any) -> Backup: ...


@pytest.fixture
async def make_backup(tmp_path: Path) -> AsyncIterator[MakeBackup]:
    """Back up nodes whose Redis is an empty server of the test's own."""
    with RedisServer(tmp_path / "redis", "--repl-diskless-sync-delay", "0") as server:
        async with await connect(server.url, timeout=5, max_in_flight=64) as store:

            async def make(directory: Path, digests: Mapping[str, str] = {}, **settings: Any) -> Backup:
                return await back_up(Settings(redis_url=server.url, **settings), store, directory, digests)

            yield make


@pytest.fixture
def admin(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> Admin:
    """Run `relay-node admin` with these arguments on the node's Redis."""
    for name in [name for name in os.environ if name.startswith("RELAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RELAY_REDIS_URL", node.settings.redis_url)
    monkeypatch.setenv("RELAY_LOG", "warning")
    monkeypatch.setattr(audit, "who", lambda: "olivia")

    async def run(*arguments: str) -> Ran:
        capsys.readouterr()
        status = await asyncio.to_thread(main, ["admin", *arguments])
        said = capsys.readouterr()
        return Ran(status, said.out, said.err)

    return run
