"""The command line of an operator, run against the node under test."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from node.admin import audit
from node.cli import main
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

Admin = Callable[..., Awaitable["Ran"]]


class Ran(NamedTuple):
    """What a command came to."""

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


@pytest.fixture
def admin(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> Admin:
    """Runs `relay-node admin` with these arguments on the node's Redis."""
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
