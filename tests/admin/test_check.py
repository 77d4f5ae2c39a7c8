"""`relay-node check`: what it says about the machine and its Redis, and its exit status."""

import shutil
import sys
from pathlib import Path

import pytest

from node.admin.check import server_findings
from node.cli import main
from node.config import Settings
from node.embedding.exported import GRAPH
from node.sign.node_key import NodeKey
from node.store import keys
from node.store.identity import SCHEMA, fingerprint
from tests.support.models import exported_model
from tests.support.servers import Cluster, RedisServer, free_port, until

pytestmark = pytest.mark.usefixtures("no_settings")

GOOD_SECRET = "8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU="


def test_check_of_a_fresh_machine_finds_nothing_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check"]) == 0
    said = _findings(capsys)
    assert said["Redis"].startswith("ok embedded")
    assert said["durability"].startswith("ok appendonly yes, appendfsync always")
    assert said["sharded pub/sub"].startswith("ok")
    assert said["data"] == "ok no node has used this Redis yet"
    assert not (tmp_path / "data").exists()


def test_check_does_not_mistake_the_data_of_a_stopped_node_for_no_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "data" / "redis").mkdir(parents=True)
    assert main(["check"]) == 0
    assert _findings(capsys)["data"] == f"note not checked: the node in {tmp_path / 'data'} is not running"


def test_check_names_each_thing_that_a_redis_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_BASE_URL", "https://relay.example")
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--maxmemory-policy", "allkeys-lru") as server:
        monkeypatch.setenv("RELAY_REDIS_URL", server.url)
        assert main(["check"]) == 1
        said = _findings(capsys)
        assert said["durability"].startswith("missing appendonly yes, appendfsync everysec")
        assert said["eviction"] == "missing maxmemory-policy is allkeys-lru: it must be noeviction"
        assert said["search engine"].startswith("note no FT commands")
        assert said["base URL"] == "ok https://relay.example"
        monkeypatch.setenv("RELAY_SEARCH_URL", f"redis://127.0.0.1:{free_port()}")
        assert main(["check"]) == 1
        assert _findings(capsys)["search engine"].startswith("missing unknown: ")
        monkeypatch.delenv("RELAY_SEARCH_URL")
        server.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
        main(["check"])
        assert _findings(capsys)["eviction"].startswith("note noeviction, but no maxmemory")
        server.do("CONFIG", "SET", "maxmemory", "64mb")
        monkeypatch.setenv("RELAY_DURABILITY", "everysec")
        assert main(["check"]) == 0
        assert _findings(capsys)["eviction"] == "ok noeviction at 64 MiB"
        server.do("CONFIG", "SET", "requirepass", "x#y")
        monkeypatch.setenv("RELAY_REDIS_URL", server.url.replace("://", "://:x#y@"))
        assert main(["check"]) == 0, "as the node does, it takes the # for a part of the password"


def test_check_says_whose_data_a_redis_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with RedisServer(tmp_path / "redis") as server:
        monkeypatch.setenv("RELAY_REDIS_URL", server.url)
        server.do("HSET", keys.IDENTITY, "schema", SCHEMA, "secret", fingerprint(GOOD_SECRET))
        main(["check"])
        assert _findings(capsys)["data"].startswith(f"note schema {SCHEMA}; not checked whether it is this node's")
        monkeypatch.setenv("RELAY_SECRET", GOOD_SECRET)
        main(["check"])
        assert _findings(capsys)["data"] == f"ok this node's, schema {SCHEMA}"
        monkeypatch.setenv("RELAY_SECRET", GOOD_SECRET[::-1])
        assert main(["check"]) == 1
        said = "missing this Redis holds the data of a node with another RELAY_SECRET"
        assert _findings(capsys)["Redis"].startswith(said)


def test_check_names_the_oldest_redis_that_will_do() -> None:
    first = next(server_findings(Settings(), "", lambda *_: b"redis_version:6.2.14\r\n"))
    assert (first.mark, first.sentence) == ("missing", "redis 6.2.14 is too old: 7.0 or later is needed")


def test_check_says_that_a_model_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("RELAY_EMBEDDING_MODEL", f"{tmp_path}/model")
    assert main(["check"]) == 1
    said = f"missing RELAY_EMBEDDING_MODEL={tmp_path}/model does not exist for this user"
    assert _findings(capsys)["embedding model"] == said
    named = "sentence-transformers/all-MiniLM-L6-v2"  # on the model hub, which `check` does not contact
    monkeypatch.setenv("RELAY_EMBEDDING_MODEL", named)
    main(["check"])
    assert _findings(capsys)["embedding model"] == f"ok {named}"
    monkeypatch.setenv("RELAY_EMBEDDING_MODEL", "none")
    main(["check"])
    assert _findings(capsys)["embedding model"] == "note none, so search is by text only"


def test_check_says_how_there_may_be_a_model_where_only_exported_ones_can_be_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "torch", None)
    main(["check"])
    said = _findings(capsys)["embedding model"]
    assert said.startswith("missing torch not installed: ")
    assert said.endswith("'relay-node[worker]', or name an exported model in RELAY_EMBEDDING_MODEL")
    monkeypatch.setitem(sys.modules, "numpy", None)
    main(["check"])
    assert _findings(capsys)["embedding model"].endswith("'relay-node[worker]'")


def test_check_says_that_an_exported_model_is_damaged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    folder = shutil.copytree(exported_model(), tmp_path / "model")
    monkeypatch.setenv("RELAY_EMBEDDING_MODEL", str(folder))
    main(["check"])
    assert _findings(capsys)["embedding model"] == f"ok {folder}"
    (folder / GRAPH).write_bytes(b"no graph")
    main(["check"])
    assert _findings(capsys)["embedding model"].startswith(f"missing the exported model in {folder} cannot be loaded: ")


def test_check_looks_at_every_primary_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Cluster(tmp_path / "cluster", primaries=3) as cluster:
        monkeypatch.setenv("RELAY_REDIS_URL", cluster.url)
        assert main(["check"]) == 1
        lines = capsys.readouterr().out.splitlines()
        poor = [line for line in lines if line.startswith("missing durability ") and "appendonly no" in line]
        primaries = cluster.servers[: cluster.primaries]
        assert all(any(f"(127.0.0.1:{primary.port})" in line for line in poor) for primary in primaries)
        monkeypatch.setenv("RELAY_REDIS_URL", f"redis://127.0.0.1:{cluster.servers[0].port}")
        assert main(["check"]) == 1
        assert "this Redis is a member of a cluster: write redis+cluster://" in _findings(capsys)["Redis"]


def test_check_wants_a_replica_where_a_replica_is_promised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_DURABILITY", "replicated")
    kept = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
    with RedisServer(tmp_path / "redis", *kept, port=free_port()) as server:
        monkeypatch.setenv("RELAY_REDIS_URL", server.url)
        main(["check"])
        assert _findings(capsys)["durability"].startswith("missing")
        server.do("CONFIG", "SET", "min-replicas-to-write", "1")
        main(["check"])
        finding = _findings(capsys)["durability"]
        assert finding.startswith("missing"), "a server without its replica was called fine, and took no writes"
        assert finding.endswith("min-replicas-to-write 1: Redis refuses writes, as too few replicas follow (0)")
        with RedisServer(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}"):
            until(lambda: server.info("replication")["min_slaves_good_slaves"] == 1, "the replica follows")
            main(["check"])
            assert _findings(capsys)["durability"].startswith("ok")


def test_check_reads_a_password_as_the_node_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with RedisServer(tmp_path / "redis", port=free_port()) as server:
        server.do("CONFIG", "SET", "requirepass", "pa#ss")
        monkeypatch.setenv("RELAY_REDIS_URL", f"redis://:pa#ss@127.0.0.1:{server.port}")
        main(["check"])
        assert _findings(capsys)["Redis version"].startswith("ok")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1"])
def test_check_of_a_redis_that_is_not_there_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", url)
    assert main(["check"]) == 1
    assert _findings(capsys)["Redis"].startswith("missing")


@pytest.mark.parametrize(
    ("settings", "mark"),
    [
        ({"RELAY_HOST": "0.0.0.0"}, "missing"),
        ({"RELAY_BASE_URL": "http://relay.example"}, "note"),
        ({"RELAY_BASE_URL": "https://localhost"}, "note"),
        ({}, "note"),
        ({"RELAY_HOST": "0.0.0.0", "RELAY_BASE_URL": "https://relay.example"}, "ok"),
    ],
)
def test_check_looks_at_the_address_that_others_are_given(
    settings: dict[str, str], mark: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    main(["check"])
    assert _findings(capsys)["base URL"].startswith(mark)


def test_check_refuses_keys_that_others_can_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secret").write_text(GOOD_SECRET)
    (tmp_path / "data" / "secret").chmod(0o644)
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    main(["check"])
    assert _findings(capsys)["keys"] == f"missing other users can read {tmp_path}/data/secret: run chmod 600"
    (tmp_path / "data" / "secret").chmod(0o600)
    main(["check"])
    kept, needed = f"kept in {tmp_path}/data", "every host of this node needs the same two keys"
    assert _findings(capsys)["keys"] == f"note RELAY_SECRET is {kept}, RELAY_SIGNING_KEY is {kept}: {needed}"
    monkeypatch.setenv("RELAY_SECRET", GOOD_SECRET)
    main(["check"])
    assert _findings(capsys)["keys"] == f"note RELAY_SECRET is given, RELAY_SIGNING_KEY is {kept}: {needed}"
    monkeypatch.setenv("RELAY_SIGNING_KEY", NodeKey.generate().secret)
    main(["check"])
    assert _findings(capsys)["keys"] == "ok RELAY_SECRET is given, RELAY_SIGNING_KEY is given"


def test_check_tries_the_blob_store_with_bytes_that_it_removes_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blobs = tmp_path / "blobs"
    monkeypatch.setenv("RELAY_BLOB_URL", f"file://{blobs}")
    main(["check"])
    assert _findings(capsys)["blob store"] == f"ok {blobs} will be created"
    blobs.mkdir()
    main(["check"])
    assert _findings(capsys)["blob store"] == f"ok file://{blobs}: test bytes written, read and deleted"
    assert list(blobs.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///dev/null", "missing file:///dev/null: "),
        ("file:///dev/null/blobs", "missing /dev/null is not writable"),
        ("s3://bucket", "missing s3://bucket: the bucket cannot be reached"),
    ],
)
def test_check_says_why_a_blob_store_cannot_be_used(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("RELAY_BLOB_URL", url)
    assert main(["check"]) == 1
    assert _findings(capsys)["blob store"].startswith(said)


def _findings(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the mark and sentence that `check` printed for each subject."""
    lines = capsys.readouterr().out.splitlines()
    return {line[8:26].strip(): f"{line[:8].strip()} {line[26:]}" for line in lines}
