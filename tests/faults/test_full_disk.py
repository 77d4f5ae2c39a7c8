"""A node's disk is full, and later has room again: nothing acknowledged is lost, and nobody has to intervene."""

import os
from pathlib import Path

import pytest
import redis

from node.admin.backup import BackupError, back_up
from node.admin.restore import restore
from node.cli import main
from node.config import ConfigError, Settings
from node.run.embedded_redis import EmbeddedError, EmbeddedRedis
from node.run.keychain import environment
from node.store import connect
from tests.faults.losing_disk import LosingDisk, needs_fuse
from tests.faults.test_processes import HELLO, call
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, until

pytestmark = needs_fuse


def test_a_node_whose_disk_was_full_goes_on_by_itself_with_all_that_it_acknowledged(disk: LosingDisk) -> None:
    with NodeProcess(disk.mount / "data") as node:
        node.start(RELAY_LIMIT_RELAY="0", RELAY_WORKERS="1").ready()

        def relayed(number: int) -> str:
            said = {"message": f"{HELLO} It is number {number}.", "public": False}
            answer = call(node, "POST", "/api/v1/relay", said)
            assert answer.status in {200, 503}
            return answer.json()["reference_id"] if answer.status == 200 else ""

        kept = [relayed(number) for number in range(10)]
        assert all(kept)
        disk.fill()
        ended = node.line("child ended", child="redis")
        assert "only 0 MiB of disk space are free" in ended["said"]
        assert not relayed(10)
        disk.make_room()
        until(lambda: relayed(11), "the node takes messages again")
        for message in kept:
            assert call(node, "GET", f"/api/v1/relay/{message}").status == 200


def test_a_redis_that_does_not_start_for_lack_of_disk_may_be_tried_again(disk: LosingDisk) -> None:
    """Status 2 means that a setting is wrong, and systemd does not restart a process that ended with it."""
    disk.fill()
    with EmbeddedRedis(disk.mount, disk_reserve=2**20) as server:
        with pytest.raises(EmbeddedError) as raised:
            server.start()
        assert raised.value.status == os.EX_TEMPFAIL
        disk.make_room()
        server.start()


def test_a_disk_without_room_for_the_name_of_its_holder_is_locked_all_the_same(disk: LosingDisk) -> None:
    with EmbeddedRedis(disk.mount) as server:
        server.start()
        redis.Redis(unix_socket_path=str(server.socket), socket_timeout=PATIENCE).set("kept", "yes")
    disk.fill()
    with EmbeddedRedis(disk.mount) as server:
        server.start()
        assert redis.Redis(unix_socket_path=str(server.socket), socket_timeout=PATIENCE).get("kept") == b"yes"
        with pytest.raises(EmbeddedError, match="is in use"):
            EmbeddedRedis(disk.mount)


def test_a_key_that_cannot_be_kept_for_lack_of_disk_may_be_kept_later(disk: LosingDisk) -> None:
    disk.fill()
    with pytest.raises(
        ConfigError, match="secret cannot be written: No space left on device; free some space there"
    ) as raised:
        environment(Settings(data_dir=disk.mount))
    assert raised.value.status == os.EX_TEMPFAIL
    assert not list(disk.mount.iterdir())
    disk.make_room()
    assert environment(Settings(data_dir=disk.mount)) == environment(Settings(data_dir=disk.mount))


async def test_a_restore_without_room_names_the_full_disk_and_can_be_repeated(disk: LosingDisk, tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "old") as server:
        server.start()
        old = Settings(redis_url=server.url, data_dir=tmp_path / "old")
        environment(old)
        async with await connect(server.url, timeout=1.0, max_in_flight=16, required=True) as store:
            await back_up(old, store, tmp_path / "backup", {})
    settings = Settings(data_dir=disk.mount / "data")
    disk.fill()
    with pytest.raises(BackupError, match=f"{disk.mount}/data/secret.new: No space left on device"):
        restore(settings, tmp_path / "backup")
    disk.make_room()
    restore(settings, tmp_path / "backup")
    with EmbeddedRedis(settings.data_dir) as server:
        server.start()


def test_an_export_without_room_leaves_no_half_of_it(
    disk: LosingDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    file = disk.mount / "export.jsonl"
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        disk.fill()
        assert main(["admin", "export", str(file)]) == 1
        assert not file.exists()
        disk.make_room()
        assert main(["admin", "export", str(file)]) == 0
        assert file.exists()
