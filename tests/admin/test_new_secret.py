"""A stopped node gets a new secret, whichever Redis it has."""

import os
from pathlib import Path

import pytest

from node.config import ConfigError
from node.run.embedded_redis import EmbeddedRedis
from node.store import connect
from node.store.identity import identify
from tests.admin.test_backup import command
from tests.support.node_under_test import SECRET
from tests.support.servers import RedisServer

OTHER_SECRET = "Zx9Qw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiR="


async def begin(url: str, secret: str) -> None:
    async with await connect(url, timeout=5, max_in_flight=16, required=True) as store:
        await identify(store, secret)


async def test_with_the_embedded_redis(tmp_path: Path) -> None:
    kept = tmp_path / "secret"
    assert "holds no node" in command(tmp_path, "new-secret").stderr
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        await begin(server.url, SECRET)
        kept.write_text(SECRET)
        runs = command(tmp_path, "new-secret")
        assert (runs.returncode, "stop it first" in runs.stderr, kept.exists()) == (2, True, True)
        with pytest.raises(ConfigError):
            await begin(server.url, OTHER_SECRET)
    done = command(tmp_path, "new-secret")
    assert (done.returncode, done.stderr, kept.exists()) == (0, "", False)
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        await begin(server.url, OTHER_SECRET)


async def test_with_a_redis_of_its_own(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        await begin(server.url, SECRET)
        done = command(tmp_path / "data", "new-secret", RELAY_REDIS_URL=server.url)
        assert (done.returncode, done.stderr) == (0, "")
        await begin(server.url, OTHER_SECRET)
    later = command(tmp_path / "data", "new-secret", RELAY_REDIS_URL=server.url)
    assert (later.returncode, "Redis is out of reach" in later.stderr) == (os.EX_TEMPFAIL, True)
