"""Settings come from the environment and relay.toml, and secrets also from files of their own. The environment has
precedence.
"""

from pathlib import Path

import pytest

from node.config import ConfigError, Limit, Networks, Proxies, Schedule, Settings, load
from node.config.loading import texts
from node.config.sources import handed_down
from tests.support.users import shut

SECRET = "8Jw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiRtU="


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "relay.toml"


def test_a_file_that_is_named_is_read(written: Path) -> None:
    written.write_text("""
        port = 9000
        store_timeout = 0.5
        callback_allow_private = true
        trusted_proxies = ["10.0.0.0/8", "unix"]
        callback_refused_networks = "192.0.2.0/24"
        callback_schedule = [5, 60]
        data_dir = "/var/lib/relay"
        [limit]
        relay = "5/60"
    """)
    settings = load({"RELAY_CONFIG": str(written)})
    assert (settings.port, settings.store_timeout, settings.callback_allow_private) == (9000, 0.5, True)
    assert settings.trusted_proxies == Proxies.parse("10.0.0.0/8,unix")
    assert settings.callback_refused_networks == Networks.parse("192.0.2.0/24")
    assert settings.callback_schedule == Schedule((5, 60))
    assert settings.data_dir == Path("/var/lib/relay")
    assert settings.limits.relay == Limit(5, 60)


@pytest.mark.parametrize(
    "text",
    ["relay_retention_days = true", "drain_seconds = false", "callback_schedule = [5, true]", "[limit]\nrelay = false"],
)
def test_true_and_false_are_no_numbers(written: Path, text: str) -> None:
    written.write_text(text)
    with pytest.raises(ConfigError, match=r"(?s)relay.toml: RELAY_\w+='(5,)?(true|false)': .*(write an? |such as)"):
        load({"RELAY_CONFIG": str(written)})


def test_one_in_the_data_directory_is_found(written: Path) -> None:
    written.write_text("port = 9000")
    assert load({"RELAY_DATA_DIR": str(written.parent)}).port == 9000
    assert load({"RELAY_DATA_DIR": str(written.parent / "other")}).port == Settings().port


def test_a_setting_that_is_left_empty_has_its_default(written: Path) -> None:
    written.write_text('base_url = ""\nnode_id = ""\n[limit]\nrelay = ""')
    assert load({"RELAY_CONFIG": str(written)}) == Settings()


@pytest.mark.parametrize("text", ['data_dir = "/elsewhere"', 'config = "/elsewhere/relay.toml"'])
def test_it_cannot_say_where_it_is_itself(text: str, written: Path) -> None:
    written.write_text(text)
    with pytest.raises(ConfigError, match="set them in the environment, not in it"):
        load({"RELAY_DATA_DIR": str(written.parent)})


def test_the_environment_wins(written: Path) -> None:
    written.write_text('port = 9000\nhost = "0.0.0.0"\nsecret = "in the file, and not even long enough"')
    settings = load({"RELAY_CONFIG": str(written), "RELAY_PORT": "9001", "RELAY_SECRET": SECRET})
    assert (settings.port, settings.host, settings.secret) == (9001, "0.0.0.0", SECRET)


def test_a_process_that_is_started_again_has_the_settings_in_force(written: Path) -> None:
    written.write_text('port = 9000\nhost = "0.0.0.0"')
    environment = {"RELAY_CONFIG": str(written), "RELAY_PORT": "9001"}
    passed_on = handed_down(texts(environment))
    written.write_text("workers = 7")
    settings = load({**environment, **passed_on})
    assert (settings.port, settings.host, settings.workers) == (9001, "0.0.0.0", Settings().workers)
    # Children inherit the environment, so its values are not handed down.
    assert load(passed_on).port == Settings().port


def test_a_process_that_is_started_again_has_the_secret_in_force(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    environment = {"RELAY_DATA_DIR": str(tmp_path), "RELAY_SECRET_FILE": str(file)}
    passed_on = handed_down(texts(environment))
    file.write_text("another secret, for the next start of the node")
    assert load({**environment, **passed_on}).secret == SECRET
    file.unlink()
    assert load({**environment, **passed_on}).secret == SECRET


def test_a_file_that_is_named_must_be_there(written: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load({"RELAY_CONFIG": str(written)})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 9000", "RELAY_PROT is not a setting"),
        ("port = ", "Invalid value"),
        (b'node_id = "\xff"', "can't decode byte 0xff"),
        ("durability = 'x'", "RELAY_DURABILITY='x': write always or everysec or replicated"),
        ("callback_allow_private = 'maybe'", "RELAY_CALLBACK_ALLOW_PRIVATE='maybe': write 1 or 0"),
        (
            "[limit]\nrelay = 'a/b'",
            "RELAY_LIMIT_RELAY='a/b': 'a/b' is not <count>/<seconds> of at most 1000000000/31622400, such as 10/60",
        ),
        ("callback_schedule = 'a'", "RELAY_CALLBACK_SCHEDULE='a': 'a' is not a list of up to 100 pauses"),
        ("port = 'eighty'", "RELAY_PORT='eighty': write an integer from 1 to 65535"),
        ("port = 2026-01-01", "port must be text, a number, or a list of these"),
        ("workers = [[]]\n[limit.relay]\nx = 1", "RELAY_LIMIT_RELAY_X is not a setting"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_file(text: str | bytes, said: str, written: Path) -> None:
    written.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as refused:
        load({"RELAY_CONFIG": str(written)})
    assert str(refused.value).startswith(f"{written}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("by_name", [True, False])
def test_what_is_there_and_not_a_file_is_an_error(written: Path, *, by_name: bool) -> None:
    where = {"RELAY_CONFIG": str(written)} if by_name else {"RELAY_DATA_DIR": str(written.parent)}
    written.mkdir()  # as Docker does if the file to be mounted does not exist
    with pytest.raises(ConfigError, match=r"relay.toml is not a file$"):
        load(where)
    written.rmdir()
    written.symlink_to("nowhere")
    with pytest.raises(ConfigError, match=r"relay.toml is not a file$"):
        load(where)


def test_who_may_not_look_into_the_data_directory_is_told_who_to_be(tmp_path: Path) -> None:
    said = r"relay.toml cannot be read: Permission denied; run this command as the node's user"
    with shut(tmp_path), pytest.raises(ConfigError, match=said):
        load({"RELAY_DATA_DIR": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"relay.toml cannot be read: File name too long$"):
        load({"RELAY_DATA_DIR": "/" + "x" * 300})


@pytest.mark.parametrize("name", ["SECRET", "SIGNING_KEY", "REDIS_URL", "SEARCH_URL"])
def test_a_secret_is_read_from_the_file_that_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "value").write_text(f"{SECRET}\n")
    assert getattr(load({f"RELAY_{name}_FILE": str(tmp_path / "value")}), name.lower()) == SECRET


def test_credentials_of_the_bucket_are_read_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "value").write_text("key\n")
    given = {"AWS_SECRET_ACCESS_KEY_FILE": str(tmp_path / "value"), "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    assert load(given).aws == {"AWS_SECRET_ACCESS_KEY": "key", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}
    assert load({**given, "AWS_SECRET_ACCESS_KEY": "", "AWS_REGION": ""}).aws == load(given).aws
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY and AWS_SECRET_ACCESS_KEY_FILE are both given"):
        load({**given, "AWS_SECRET_ACCESS_KEY": "another"})


@pytest.mark.parametrize(
    ("content", "said"),
    [(b" \n", "the file is empty"), (b"x" * 65_537, "the file is larger than 64 KiB"), (b"\xff", "not UTF-8 text")],
)
def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "value").write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load({"RELAY_SECRET_FILE": str(tmp_path / "value")})


def test_a_secret_in_the_environment_wins_over_one_that_relay_toml_names(written: Path) -> None:
    written.write_text("secret_file = '/nowhere/now'")
    with pytest.raises(ConfigError, match="No such file"):
        load({"RELAY_CONFIG": str(written)})
    assert load({"RELAY_CONFIG": str(written), "RELAY_SECRET": SECRET}).secret == SECRET
    (written.parent / "secret").write_text("of the file")
    written.write_text(f"secret_file = '{written.parent}/secret'")
    assert load({"RELAY_CONFIG": str(written)}).secret == "of the file"
    assert load({"RELAY_CONFIG": str(written), "RELAY_SECRET": SECRET}).secret == SECRET


def test_two_forms_of_one_secret_contradict_each_other(tmp_path: Path) -> None:
    (tmp_path / "value").write_text(SECRET)
    with pytest.raises(ConfigError, match="RELAY_SECRET and RELAY_SECRET_FILE are both given"):
        load({"RELAY_SECRET": SECRET, "RELAY_SECRET_FILE": str(tmp_path / "value")})


def test_only_secrets_are_read_from_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "value").write_text("8000")
    with pytest.raises(ConfigError, match="RELAY_PORT_FILE is not a setting"):
        load({"RELAY_PORT_FILE": str(tmp_path / "value")})


def test_no_message_shows_a_secret() -> None:
    with pytest.raises(ConfigError) as refused:
        load({"RELAY_SECRET_FILE": "/dev/full/secret"})
    assert "RELAY_SECRET_FILE" in str(refused.value)
