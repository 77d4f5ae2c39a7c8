"""Backups verified byte by byte: made, kept in a bucket, and restored onto any Redis."""

import asyncio
import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from node.admin.backup import BackupError
from node.admin.transfer import fill
from node.cli import main
from node.config import Settings
from node.run.embedded_redis import EmbeddedRedis, running
from node.store import connect, keys
from tests.admin.test_backup import BYTES, Agent
from tests.artifacts.swift import BUCKET, Swift
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import NodeProcess
from tests.support.own_process import kept_as_it_was
from tests.support.servers import PATIENCE, Cluster, RedisServer

from tests.artifacts.conftest import swift  # isort: skip

__all__ = ["swift"]


def command(folder: Path, *arguments: str, **given: str) -> CompletedProcess[str]:
    """Run `relay-node` on a data directory, in this process."""
    with kept_as_it_was(), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        for name in [name for name in os.environ if name.startswith("RELAY_")]:
            del os.environ[name]
        os.environ.update(RELAY_DATA_DIR=str(folder), RELAY_LOG="warning", **given)
        status = main(arguments)
    return CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, object]]:
    """A data directory, a backup of it, and what was written."""
    old, backup = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("kept") / "backup"
    with NodeProcess(old) as node, Agent(node.url) as agent:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        found = agent.write()
        made = command(old, "admin", "backup", str(backup))
        assert made.returncode == 0, made.stderr
    return old, backup, found


def test_a_damaged_artifact_is_named_and_never_restored(
    kept: tuple[Path, Path, dict[str, object]], tmp_path: Path
) -> None:
    _, backup, found = kept
    assert command(tmp_path / "none", "admin", "backup", "verify", str(backup)).returncode == 0
    copy = tmp_path / "copy"
    (copy).mkdir()
    for path in sorted(backup.rglob("*")):
        target = copy / path.relative_to(backup)
        target.mkdir() if path.is_dir() else target.write_bytes(path.read_bytes())
    name = str(found["artifact"])
    blob = copy / "blobs" / name[-2:] / name
    blob.write_bytes(b"X" + BYTES[1:])
    verified = command(tmp_path / "none", "admin", "backup", "verify", str(copy), "--json")
    assert verified.returncode == 1
    assert json.loads(verified.stdout)["damaged"] == [name]
    stopped = command(tmp_path / "new", "restore", str(copy))
    assert (stopped.returncode, name in stopped.stderr) == (2, True)
    assert not (tmp_path / "new" / "redis").exists()
    restored = command(tmp_path / "new", "restore", "--without-damaged", str(copy))
    assert restored.returncode == 1
    assert f"not restored: the bytes of artifact {name}\n" in restored.stdout
    assert not (tmp_path / "new" / "blobs" / name[-2:] / name).exists()
    (copy / "redis-0.rdb").write_bytes(b"REDIS")
    assert "redis-0.rdb" in command(tmp_path / "none", "admin", "backup", "verify", str(copy)).stdout


async def _noted(folder: Path) -> object:
    """Return when the last whole backup of the node on this data directory began."""
    async with await connect(str(running(folder)), timeout=10, max_in_flight=64) as store:
        return await store.command("GET", keys.LAST_BACKUP)


def test_an_artifact_that_is_damaged_already_is_named_and_not_in_the_backup(tmp_path: Path) -> None:
    """Nor does such a backup count as the last whole one."""
    old = tmp_path / "old"
    with NodeProcess(old) as node, Agent(node.url) as agent:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        name = agent.upload()
        (old / "blobs" / name[-2:] / name).write_bytes(b"X" + BYTES[1:])
        made = command(old, "admin", "backup", str(tmp_path / "backup"))
        assert asyncio.run(_noted(old)) is None
        (old / "blobs" / name[-2:] / name).write_bytes(BYTES)
        assert command(old, "admin", "backup", str(tmp_path / "whole")).returncode == 0
        assert asyncio.run(_noted(old))
    assert (made.returncode, name in made.stdout) == (1, True)
    assert not (tmp_path / "backup" / "blobs" / name[-2:] / name).exists()
    assert command(old, "admin", "backup", "verify", str(tmp_path / "backup")).returncode == 0


def test_a_backup_of_one_server_becomes_a_node_on_a_cluster(
    kept: tuple[Path, Path, dict[str, object]], tmp_path: Path
) -> None:
    _, backup, found = kept
    new = tmp_path / "new"
    with Cluster(tmp_path / "cluster", 3) as cluster:
        restored = command(new, "restore", str(backup), RELAY_REDIS_URL=cluster.url)
        assert restored.returncode == 0, restored.stderr
        again = command(new, "restore", str(backup), RELAY_REDIS_URL=cluster.url)
        assert (again.returncode, "not empty" in again.stderr) == (2, True)
        with NodeProcess(new) as node, Agent(node.url) as agent:
            node.start(RELAY_WORKERS="1", RELAY_REDIS_URL=cluster.url, RELAY_SECRET="", **NO_LIMITS_GIVEN).ready()
            agent.finds(found)
        back = tmp_path / "back"
        made = command(new, "admin", "backup", str(back), RELAY_REDIS_URL=cluster.url)
        assert made.returncode == 0, made.stderr
    with RedisServer(tmp_path / "single") as server:
        restored = command(tmp_path / "third", "restore", str(back), RELAY_REDIS_URL=server.url)
        assert restored.returncode == 0, restored.stderr
        thread = str(found["thread"]["id"])  # type: ignore[index]
        assert server.do("HGET", f"thread:{{{int(thread[-2:], 16) & 63:02x}}}:{thread}", "body")


def test_a_backup_is_kept_in_a_bucket_and_restored_from_it(
    kept: tuple[Path, Path, dict[str, object]], tmp_path: Path, swift: Swift
) -> None:
    old, _, found = kept
    place = f"s3://{BUCKET}/backups"
    with NodeProcess(old) as node:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        made = [command(old, "admin", "backup", f"{place}/one", **swift._asdict())]
        made += [command(old, "admin", "backup", "--into", "--keep", "1", f"{place}/many", **swift._asdict())]
    assert [each.returncode for each in made] == [0, 0], made
    verified = command(tmp_path / "none", "admin", "backup", "verify", f"{place}/one", **swift._asdict())
    assert verified.returncode == 0, verified.stderr + verified.stdout
    new = tmp_path / "new"
    restored = command(new, "restore", f"{place}/one", **swift._asdict())
    assert restored.returncode == 0, restored.stderr
    with NodeProcess(new) as node, Agent(node.url) as agent:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        assert agent.get(f"/api/v1/artifacts/{found['artifact']}/content") == BYTES
        assert agent.get(f"/api/v1/relay/{found['private']}")["payload"]["public"] is False
    nothing = command(tmp_path / "none", "admin", "backup", "verify", f"{place}/nothing", **swift._asdict())
    assert (nothing.returncode, "not a whole backup" in nothing.stdout) == (1, True)


async def test_a_restore_that_was_interrupted_is_not_gone_on_with_by_another_backup(tmp_path: Path) -> None:
    """Otherwise entities that only the first backup had would stay in Redis for ever, in no list."""
    for name in ("old", "new"):
        with EmbeddedRedis(tmp_path / name, "everysec") as embedded:
            embedded.start()
            async with await connect(embedded.url, timeout=PATIENCE, max_in_flight=8, required=True) as store:
                await store.command("SET", f"thread:{{00}}:{name}", 1)
    with RedisServer(tmp_path / "target") as server:
        settings = Settings(redis_url=server.url)
        await fill(settings, tmp_path / "new", "new", is_first=True, is_last=False)
        with pytest.raises(BackupError, match="holds part of another backup"):
            await fill(settings, tmp_path / "old", "old", is_first=True, is_last=True)
        await fill(settings, tmp_path / "new", "new", is_first=True, is_last=True)
        assert server.do("KEYS", "*") == [b"thread:{00}:new"]
