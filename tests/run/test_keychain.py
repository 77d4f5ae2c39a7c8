"""The node's keys: those that it makes are strong, and nothing starts with a secret that could be guessed."""

import os
import tempfile
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes, token_hex, token_urlsafe

import pytest

from node.cli import main
from node.config import ConfigError, Settings
from node.run.keychain import check_secret, environment
from node.sign.node_key import NodeKey

GUESSABLE = {
    "one letter": "a",
    "a word": "correct-horse",
    "one character short": token_hex(16)[1:],
    "one letter over and over": "a" * 44,
    "all bits zero, in base64": b64encode(bytes(32)).decode(),
    "a word over and over": "changeme-changeme-changeme-changeme",
    "the digits over and over": "0123456789abcdef" * 2,
    "seven letters": "abcdefg" * 4 + "gfed",
}


@pytest.mark.parametrize("name", GUESSABLE)
def test_a_secret_that_could_be_guessed_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"RELAY_SECRET can be guessed: .* `openssl rand -base64 32`"):
        environment(Settings(secret=GUESSABLE[name], data_dir=tmp_path))


@pytest.mark.parametrize("text", ["", "\n", "a"])
def test_an_empty_or_short_file_is_no_secret_either(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(text)
    with pytest.raises(ConfigError, match=f"{tmp_path}/secret can be guessed"):
        environment(Settings(data_dir=tmp_path))


def test_what_generators_print_is_taken(tmp_path: Path) -> None:
    for _ in range(1000):
        for secret in (token_hex(16), token_hex(32), token_urlsafe(24), b64encode(token_bytes(32)).decode()):
            check_secret(Settings(secret=secret, data_dir=tmp_path))


def test_a_secret_of_eight_different_characters_is_taken(tmp_path: Path) -> None:
    check_secret(Settings(secret="abcdefgh" * 3 + "hgfedcba", data_dir=tmp_path))


def test_keys_that_are_given_are_used_and_none_is_made(tmp_path: Path) -> None:
    settings = Settings(secret=token_hex(32), signing_key=NodeKey.generate().secret, data_dir=tmp_path)
    given = environment(settings)
    assert (given["RELAY_SECRET"], given["RELAY_SIGNING_KEY"]) == (settings.secret, settings.signing_key)
    assert list(tmp_path.iterdir()) == []


def test_what_the_node_makes_itself_is_taken_at_every_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")  # a secret must not be written to a folder that others use
    settings = Settings(data_dir=tmp_path / "new" / "data")
    check_secret(settings)  # there is no secret yet
    assert environment(settings) == environment(settings)
    assert settings.data_dir.stat().st_mode & 0o777 == 0o700


def test_a_key_that_was_made_is_on_the_disk_with_its_name_before_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data, fsync, synced, named = tmp_path / "data", os.fsync, set[int](), list[str]()

    def record(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)
        if os.path.samestat(os.fstat(descriptor), data.stat()):
            named[:] = [key for key in ("secret", "signing-key") if (data / key).exists()]
            assert {(data / key).stat().st_ino for key in named} <= synced

    monkeypatch.setattr(os, "fsync", record)
    environment(Settings(data_dir=data))
    assert named == ["secret", "signing-key"]


@pytest.mark.parametrize("command", ["serve", "web", "worker"])
def test_no_part_starts_with_a_secret_that_could_be_guessed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("RELAY_SECRET", "a")
    assert main([command]) == 2
    assert capsys.readouterr().err.startswith("relay-node: RELAY_SECRET can be guessed: ")


@pytest.mark.parametrize("command", ["check", "web"])
@pytest.mark.parametrize(
    ("file", "text"), [("secret", ""), ("secret", "a"), ("signing-key", ""), ("signing-key", "whsk_x")]
)
def test_a_kept_key_that_is_none_stops_every_command(
    command: str,
    file: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    (tmp_path / file).write_text(text)
    assert main([command]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"relay-node: {tmp_path}/{file}")
    assert said.err.count("\n") == 1
