"""The `relay-node` command: what it prints, and the exit status it gives."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from node import VERSION
from node.cli import main
from node.describe.settings import SettingRow, page, table
from node.sign.node_key import NodeKey
from tests.support.nodes import ROOT
from tests.support.own_process import kept_as_it_was
from tests.support.servers import PATIENCE, Cluster, RedisServer, free_port

CONFIG_ERROR = 2
GOOD_SECRET = "8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU="


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path) -> Iterator[None]:
    """Only what a test sets; the data directory is its own. Nothing of it is left for other tests."""
    with kept_as_it_was():
        for name in [name for name in os.environ if name.startswith("RELAY_")]:
            del os.environ[name]
        os.environ["RELAY_DATA_DIR"] = str(tmp_path / "data")
        yield


def test_config_prints_the_page_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--markdown"]) == 0
    assert capsys.readouterr().out == page()


def test_config_says_where_each_value_comes_from_and_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "relay.toml").write_text('port = 9000\n[limit]\nrelay = "5/60"\n')
    (tmp_path / "secret").write_text(GOOD_SECRET)
    monkeypatch.setenv("RELAY_SECRET_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://:password@127.0.0.1")
    monkeypatch.setenv("RELAY_LIMIT_RELAY", "7/60")
    assert main(["config", "--config", str(tmp_path / "relay.toml")]) == 0
    printed = capsys.readouterr().out
    assert "password" not in printed
    assert GOOD_SECRET not in printed
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in printed.splitlines()}
    assert rows["RELAY_PORT"] == f"9000 {tmp_path}/relay.toml"
    assert rows["RELAY_LIMIT_RELAY"] == "7/60 environment"
    assert rows["RELAY_LIMIT_BOARD"] == "10/60 default"
    assert rows["RELAY_SECRET"] == f"(not shown) {tmp_path}/secret, named by RELAY_SECRET_FILE in environment"
    assert rows["RELAY_REDIS_URL"] == "(not shown) environment"


def config_into(output: IO[Any]) -> "subprocess.CompletedProcess[str]":
    """Run `relay-node config` with this standard output."""
    command = [sys.executable, "-m", "node", "config"]
    return subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, check=False)


def test_an_output_that_goes_to_a_full_disk_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ran = config_into(full)
    said = "relay-node: the output cannot be written: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (os.EX_TEMPFAIL, said)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{VERSION}\n")


def test_a_reader_that_has_seen_enough_is_no_failure_of_ours() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        ran = config_into(nobody)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_a_command_that_is_interrupted_ends_without_a_word() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/board/x"
        command = [sys.executable, "-m", "node", "verify", url]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as asking, silent.accept()[0]:
            asking.send_signal(signal.SIGINT)
            said = asking.communicate(timeout=PATIENCE)[1]
    assert (asking.returncode, said) == (130, "")


def test_config_prints_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert msgspec.convert(printed, list[SettingRow]) == table()
    assert {row["source"] for row in printed} == {"default", "environment"}


def test_config_helps_where_a_setting_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_PROT", "1")
    assert main(["config"]) == CONFIG_ERROR
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == len(table())
    assert printed.err == "relay-node: RELAY_PROT is not a setting; `relay-node config` lists them\n"


@pytest.mark.parametrize("command", ["serve", "web", "worker", "check"])
def test_a_setting_that_cannot_be_used_is_one_sentence_and_status_2(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_PORT", "eighty")
    assert main([command]) == CONFIG_ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "relay-node: RELAY_PORT='eighty': write an integer from 1 to 65535\n"


BAD_SETTINGS = [
    {"RELAY_TRUSTED_PROXIES": "10.0.0.0/33"},
    {"RELAY_TRUSTED_PROXIES": "loadbalancer"},
    {"RELAY_CALLBACK_REFUSED_NETWORKS": "10.0.0.1/8"},
    {"RELAY_SIGNING_KEY": "whsk_short"},
    {"RELAY_SECRET": "a"},
    {"RELAY_SECRET_FILE": "/dev/null"},
    {"RELAY_SECRET_FILE": "/nowhere"},
    {"RELAY_PORT": "9100", "RELAY_ADMIN_PORT": "9100"},
    {"RELAY_BASE_URL": "foo"},
    {"RELAY_BASE_URL": "ftp://relay.example"},
    {"RELAY_BASE_URL": "https://relay.example/?a=b"},
    {"RELAY_BASE_URL": "http://[::1"},
    {"RELAY_REDIS_URL": "http://127.0.0.1:1"},
    {"RELAY_REDIS_URL": "redis://["},
    {"RELAY_REDIS_URL": "redis://127.0.0.1:port"},
    {"RELAY_REDIS_URL": "redis://127.0.0.1/zero"},
    {"RELAY_REDIS_URL": "rediss://127.0.0.1?ssl_ca_certs=/nowhere"},
    {"RELAY_REDIS_URL": "rediss://127.0.0.1?ssl_ca_cert=/nowhere"},
    {"RELAY_SEARCH_URL": "127.0.0.1"},
    {"RELAY_BLOB_URL": "gs://bucket"},
    {"RELAY_BLOB_URL": "s3://bucket"},
    {"RELAY_METRICS_DIR": "/dev/null/counts"},
    {"RELAY_METRICS_DIR": "/tmp/" + "x" * 300},
    {"RELAY_DATA_DIR": os.fsdecode(b"/tmp/\xff")},
    {"RELAY_BLOB_URL": "file:///" + "x" * 300},
    {"RELAY_BLOB_URL": "file:///%00"},
    {"RELAY_EMBEDDING_MODEL": "/" + "x" * 300},
    {"RELAY_WORKERS": "9" * 400},
    {"RELAY_TRACE_URL": "localhost:4318"},
    {"RELAY_NODE_ID": "a\nb"},
    {"RELAY_TASK_HOT_DAYS": "inf"},
    {"RELAY_BUFFER_TTL": "1" + "0" * 30},
    {"RELAY_LIMIT_RELAY": "10/99999999999"},
    {"RELAY_CONFIG": "/nowhere"},
]


@pytest.mark.parametrize("command", [["serve"], ["web"], ["worker"], ["check"], ["admin", "status"]], ids=" ".join)
@pytest.mark.parametrize("settings", BAD_SETTINGS, ids=str)
def test_every_command_refuses_a_bad_setting_in_one_sentence(
    settings: dict[str, str], command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"RELAY_REDIS_URL": "redis://127.0.0.1:1", **settings}.items():
        monkeypatch.setenv(name, text)
    assert main(command) == CONFIG_ERROR
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("relay-node: ")
    assert said.err.count("\n") == 1
    assert any(name in said.err for name in settings)


@pytest.mark.parametrize("name", ["RELAY_DATA_DIR", "RELAY_METRICS_DIR"])
def test_a_link_that_leads_to_itself_is_one_sentence_and_status_2(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "link")
    monkeypatch.setenv(name, str(tmp_path / "link"))
    assert main(["check"]) == CONFIG_ERROR
    said = f"relay-node: {name}={str(tmp_path / 'link')!r}: Too many levels of symbolic links; choose another\n"
    assert capsys.readouterr().err == said


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


def test_the_embedded_redis_offers_no_replica(
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
    assert ran.stdout.startswith("RELAY_HOST ")


def test_no_command_loads_the_embedding_model() -> None:
    loaded = "import sys, node.cli; print('torch' in sys.modules, 'node.run.web' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "False False\n"


def test_no_process_loads_what_shows_logs_in_colours() -> None:
    loaded = (
        "import sys; from node.__main__ import main; sys.argv[1:] = ['config']; main();"
        "import structlog, node.run.web; print([name for name in sys.modules if name.startswith('rich')])"
    )
    ran = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_check_of_a_fresh_machine_finds_nothing_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check"]) == 0
    said = _findings(capsys)
    assert said["Redis"].startswith("ok embedded")
    assert said["durability"].startswith("ok appendonly yes, appendfsync always")
    assert said["sharded pub/sub"].startswith("ok")
    assert said["data"] == "ok no node has written its mark there yet"
    assert not (tmp_path / "data").exists()


def test_check_does_not_mistake_the_data_of_a_stopped_node_for_no_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "data" / "redis").mkdir(parents=True)
    assert main(["check"]) == 0
    assert _findings(capsys)["data"] == f"note of a node in {tmp_path / 'data'} that does not run: not looked at"


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
        assert _findings(capsys)["search engine"].startswith("missing not known: ")
        monkeypatch.delenv("RELAY_SEARCH_URL")
        server.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.do("CONFIG", "SET", "maxmemory", "64mb")
        monkeypatch.setenv("RELAY_DURABILITY", "everysec")
        assert main(["check"]) == 0
        assert _findings(capsys)["eviction"] == "ok noeviction at 64 MiB"
        server.do("CONFIG", "SET", "requirepass", "x#y")
        monkeypatch.setenv("RELAY_REDIS_URL", server.url.replace("://", "://:x#y@"))
        assert main(["check"]) == 0, "as the node does, it takes the # for a part of the password"


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
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        monkeypatch.setenv("RELAY_REDIS_URL", server.url)
        main(["check"])
        assert _findings(capsys)["durability"].startswith("missing")
        server.do("CONFIG", "SET", "min-replicas-to-write", "1")
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
    assert _findings(capsys)["keys"] == f"missing others can read {tmp_path}/data/secret: chmod 600"
    (tmp_path / "data" / "secret").chmod(0o600)
    main(["check"])
    kept = f"note kept in {tmp_path}/data: every host of this node needs the same two"
    assert _findings(capsys)["keys"] == kept
    for name, key in (("RELAY_SECRET", GOOD_SECRET), ("RELAY_SIGNING_KEY", NodeKey.generate().secret)):
        with monkeypatch.context() as patch:
            patch.setenv(name, key)
            main(["check"])
            assert _findings(capsys)["keys"] == kept, "one of them is not given"


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
