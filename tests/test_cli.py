"""The `relay-node` command: what it prints, and the exit status it gives."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from node import VERSION
from node.cli import main
from node.describe.settings import SettingRow, page, table
from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE, free_port

pytestmark = pytest.mark.usefixtures("no_settings")

CONFIG_ERROR = 2
GOOD_SECRET = "8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU="


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


def test_a_command_that_is_interrupted_while_it_is_imported_ends_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "structlog.py").write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    with subprocess.Popen(
        [sys.executable, "-m", "node", "serve"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as importing:
        assert importing.stdout
        assert importing.stdout.readline() == "importing\n"
        importing.send_signal(signal.SIGINT)
        said = importing.communicate(timeout=PATIENCE)[1]
    assert (importing.returncode, said) == (130, "")


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


def test_a_web_process_does_not_load_what_it_has_no_use_for() -> None:
    loaded = (
        "import sys; from node.__main__ import main; sys.argv[1:] = ['config']; main();"
        "import structlog, node.run.web; from node.web.paths import Paths; from node.web.router import Router;"
        "Router((), Paths(()));"
        "print([name for name in sys.modules if name.partition('.')[0] in ('rich', 'pydantic', 'pydantic_core')])"
    )
    ran = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
