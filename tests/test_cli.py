"""The `relay-node` command: what it prints, and the exit status it gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from node.cli import main
from node.config import table
from tests.support.nodes import ROOT
from tests.support.servers import Cluster, RedisServer, free_port

CONFIG_ERROR = 2


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what a test sets; the data directory is its own."""
    for name in [name for name in os.environ if name.startswith("RELAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path / "data"))


def test_config_prints_every_setting_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert (head, rule) == ("| Setting | Default | Meaning |", "|---|---|---|")
    assert [row.split(" | ")[0] for row in rows] == [f"| `{row.name}`" for row in table()]
    assert all(row.count("|") == 4 for row in rows)


def test_config_prints_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["default"], row["meaning"]) for row in printed] == [
        (row.name, row.default, row.meaning) for row in table()
    ]


def test_config_helps_where_a_setting_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_PROT", "1")
    assert main(["config"]) == 0


@pytest.mark.parametrize("command", ["serve", "web", "worker", "check"])
def test_a_setting_that_cannot_be_used_is_one_sentence_and_status_2(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_PORT", "eighty")
    assert main([command]) == CONFIG_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "relay-node: RELAY_PORT='eighty': Expected `int`, got `str`\n"


@pytest.mark.parametrize("command", ["web", "worker"])
def test_a_part_alone_needs_a_redis_to_be_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == CONFIG_ERROR
    assert "RELAY_REDIS_URL" in capsys.readouterr().err


def test_a_directory_that_cannot_be_written_is_one_sentence_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path / "file" / "data"))
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    assert main(["web"]) == CONFIG_ERROR
    assert "make RELAY_DATA_DIR writable" in capsys.readouterr().err


def test_a_replica_is_not_to_be_had_from_the_embedded_redis(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_PORT", str(free_port()))
    monkeypatch.setenv("RELAY_DURABILITY", "replicated")
    assert main(["serve"]) == CONFIG_ERROR
    assert "set RELAY_REDIS_URL" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["dance"], ["config", "--xml"]])
def test_a_command_that_does_not_exist_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == CONFIG_ERROR


def test_the_module_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "node", "config"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("| Setting |")


def test_no_command_loads_the_embedding_model() -> None:
    loaded = "import sys, node.cli; print('torch' in sys.modules, 'node.run.web' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "False False\n"


def test_check_of_a_fresh_machine_finds_nothing_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check"]) == 0
    said = _findings(capsys)
    assert said["Redis"].startswith("ok embedded")
    assert said["durability"].startswith("ok appendonly yes, appendfsync always")
    assert said["sharded pub/sub"].startswith("ok")
    assert not (tmp_path / "data").exists()


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
        server.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.do("CONFIG", "SET", "maxmemory", "64mb")
        monkeypatch.setenv("RELAY_DURABILITY", "everysec")
        assert main(["check"]) == 0
        assert _findings(capsys)["eviction"] == "ok noeviction at 64 MiB"


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
        assert "this server is one of a cluster: write redis+cluster://" in _findings(capsys)["cluster"]


def test_check_wants_a_replica_where_a_replica_is_promised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_DURABILITY", "replicated")
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        monkeypatch.setenv("RELAY_REDIS_URL", server.url)
        main(["check"])
        assert _findings(capsys)["durability"].startswith("missing")
        server.do("CONFIG", "SET", "min-replicas-to-write", "1")
        main(["check"])
        assert _findings(capsys)["durability"].startswith("ok")


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1", "http://127.0.0.1:1", "redis://[", "redis+cluster://127.0.0.1:1"]
)
def test_check_of_a_redis_that_is_not_there_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", url)
    assert main(["check"]) == 1
    assert _findings(capsys)["Redis"].startswith("missing")


@pytest.mark.parametrize(
    ("settings", "mark"),
    [
        ({"RELAY_BASE_URL": "relay.example"}, "missing"),
        ({"RELAY_BASE_URL": "ftp://relay.example"}, "missing"),
        ({"RELAY_BASE_URL": "https://relay.example/?a=b"}, "missing"),
        ({"RELAY_BASE_URL": "http://[::1"}, "missing"),
        ({"RELAY_HOST": "0.0.0.0"}, "missing"),
        ({"RELAY_BASE_URL": "http://relay.example"}, "note"),
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
    (tmp_path / "data" / "secret").write_text("key")
    (tmp_path / "data" / "secret").chmod(0o644)
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    main(["check"])
    assert _findings(capsys)["keys"] == f"missing others can read {tmp_path}/data/secret: chmod 600"


def test_check_tries_the_blob_store_with_bytes_that_it_removes_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blobs = tmp_path / "blobs"
    monkeypatch.setenv("RELAY_BLOB_URL", f"file://{blobs}")
    main(["check"])
    assert _findings(capsys)["blob store"] == f"ok {blobs} will be made"
    blobs.mkdir()
    main(["check"])
    assert _findings(capsys)["blob store"] == f"ok file://{blobs}: written, read and deleted"
    assert list(blobs.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///dev/null", "missing file:///dev/null: "),
        ("file:///dev/null/blobs", "missing /dev/null is not writable"),
        ("gs://bucket", "missing RELAY_BLOB_URL: "),
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
    """What `check` printed: by subject, its mark and its sentence."""
    lines = capsys.readouterr().out.splitlines()
    return {line[8:26].strip(): f"{line[:8].strip()} {line[26:]}" for line in lines}
