"""Settings are read from the environment, and the error for a wrong one says what to write instead."""

import os
import re
from pathlib import Path

import pytest

from node.config import ConfigError, Limit, Settings, load
from node.describe.settings import table
from node.run.validation import loaded


def test_without_any_setting_the_defaults_hold() -> None:
    assert load({}) == Settings()
    assert load({"PATH": "/bin", "RELAYED": "no"}) == Settings()


def test_the_admin_port_is_off_and_if_it_is_on_only_the_machine_itself_reaches_it() -> None:
    assert load({}).admin_port == 0
    assert load({"RELAY_ADMIN_PORT": "9100"}).admin_host == "127.0.0.1"


def test_an_empty_setting_is_no_setting() -> None:
    assert load({"RELAY_PORT": "", "RELAY_BASE_URL": "", "RELAY_LIMIT_RELAY": ""}) == Settings()


def test_each_kind_of_setting_is_read_from_text() -> None:
    settings = load(
        {
            "RELAY_HOST": "0.0.0.0",
            "RELAY_PORT": "9000",
            "RELAY_STORE_TIMEOUT": "0.25",
            "RELAY_DATA_DIR": "/var/lib/relay node",
            "RELAY_DURABILITY": "everysec",
            "RELAY_CALLBACK_ALLOW_PRIVATE": "1",
            "RELAY_LIMIT_RELAY": "5/30",
            "RELAY_LIMIT_MCP": "0",
        }
    )
    assert (settings.host, settings.port, settings.store_timeout) == ("0.0.0.0", 9000, 0.25)
    assert settings.data_dir == Path("/var/lib/relay node")
    assert (settings.durability, settings.callback_allow_private) == ("everysec", True)
    assert load({"RELAY_CALLBACK_ALLOW_PRIVATE": "false"}).callback_allow_private is False
    assert settings.limits.relay == Limit(5, 30)
    assert settings.limits.mcp.count == 0
    assert settings.limits.board == Settings().limits.board


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("RELAY_PORT", "http", "int"),
        ("RELAY_PORT", "0", "write an integer from 1 to 65535"),
        ("RELAY_PORT", "65536", "write an integer from 1 to 65535"),
        ("RELAY_WORKERS", "-1", "write an integer from 0 to 1000"),
        ("RELAY_WORKERS", "8000", "write an integer from 0 to 1000"),
        ("RELAY_STORE_TIMEOUT", "0", "write a number from 0.01"),
        ("RELAY_STORE_TIMEOUT", "nan", ""),
        ("RELAY_MEMORY_ALARM", "79.5", "write an integer from 0 to 99"),
        ("RELAY_DURABILITY", "sometimes", "sometimes"),
        ("RELAY_CALLBACK_ALLOW_PRIVATE", "maybe", "write 1 or 0"),
        ("RELAY_CALLBACK_SCHEDULE", "5,soon", "soon"),
        ("RELAY_CALLBACK_SCHEDULE", "5,0", "such as 5,60,300"),
        ("RELAY_CALLBACK_SCHEDULE", "nan", "such as 5,60,300"),
        ("RELAY_LIMIT_RELAY", "10", "<count>/<seconds>"),
        ("RELAY_LIMIT_RELAY", "10/0", "<count>/<seconds>"),
        ("RELAY_LIMIT_RELAY", "-1/60", "<count>/<seconds>"),
        ("RELAY_LIMIT_RELAY", "many/60", "many"),
        ("RELAY_LIMIT_RELAY", "0/60", "nor 0 (no limit)"),
        ("RELAY_LIMIT_RELAY", "1000000001/60", "<count>/<seconds>"),
        ("RELAY_LIMIT_RELAY", "1/31622401", "<count>/<seconds> of at most 1000000000/31622400"),
        ("RELAY_CALLBACK_SCHEDULE", "5,86401", "each must be over 0 and at most 86400"),
        ("RELAY_CALLBACK_SCHEDULE", ",".join("5" * 101), "up to 100 pauses"),
        ("RELAY_BUFFER_TTL", str(2**50 + 1), "at most 1.1259e+15"),
        ("RELAY_TASK_HOT_DAYS", "1000001", "at most 1e+06"),
        ("RELAY_TASK_HOT_DAYS", "nan", "write a number from 0"),
        ("RELAY_NODE_ID", "x" * 101, "at most 100 printable characters"),
        ("RELAY_HOST", "http://0.0.0.0", "without a scheme, brackets or a port"),
        ("RELAY_HOST", "0.0.0.0:80", "write an IP address or a host name"),
        ("RELAY_HOST", "[::1]", "write an IP address or a host name"),
        ("RELAY_ADMIN_HOST", "*", "write an IP address or a host name"),
        ("RELAY_BASE_URL", "ftp://relay.example", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay.example:0", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay.example,https://other.example", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://me@relay.example", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay.example/?page=1", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay.example/#page", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay.example/a b", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", "https://relay..example", "is not http(s)://HOST"),
        ("RELAY_BASE_URL", f"https://{'a' * 64}.example", "is not http(s)://HOST"),
        ("RELAY_CALLBACK_REFUSED_NETWORKS", "192.0.2.1/24", "has host bits set"),
        ("RELAY_ADMIN_NAMES", "relay.example, metrics.example:9100", "'metrics.example:9100' is not a host name"),
        ("RELAY_ADMIN_NAMES", "http://metrics.example", "without a scheme, a port or a path"),
        ("RELAY_ADMIN_NAMES", "metrics.example/metrics", "without a scheme, a port or a path"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_what_it_must_be(name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({name: text})
    message = str(refused.value)
    assert message.startswith(f"{name}='{text}': ")
    assert said in message
    assert "\n" not in message


def test_what_cannot_be_shown_is_refused_without_it() -> None:
    with pytest.raises(ConfigError, match="RELAY_SECRET is not UTF-8"):
        load({"RELAY_SECRET": os.fsdecode(b"\xff" * 40)})
    with pytest.raises(ConfigError, match="printable"):
        load({"RELAY_NODE_ID": "relay\x1b[2J"})


def test_the_largest_values_are_taken() -> None:
    largest = {
        "RELAY_LIMIT_RELAY": "1000000000/31622400",
        "RELAY_CALLBACK_SCHEDULE": ",".join(["86400"] * 100),
        "RELAY_BUFFER_TTL": str(2**50),
        "RELAY_TASK_HOT_DAYS": "1000000",
        "RELAY_NODE_ID": "x" * 100,
    }
    settings = load(largest)
    assert (str(settings.limits.relay), str(settings.callback_schedule)) == (
        largest["RELAY_LIMIT_RELAY"],
        largest["RELAY_CALLBACK_SCHEDULE"],
    )
    assert (settings.buffer_ttl, settings.task_hot_days) == (2**50, 1e6)


NONSENSE = [
    *(
        "-1",
        "0",
        "1.5",
        "1e999",
        "nan",
        "9" * 30,
        "9" * 400,
        "\uff11\uff12",
        " ",
        "\n",
        "5\n6",
        "abc",
        "a b",
        "\xe9.example",
    ),
    *("/", "//", ",", "*", "none", "[]", "http://", "1/0", "10/60/5", os.fsdecode(b"\xff"), "x" * 5000),
]


@pytest.mark.parametrize("name", [row.name for row in table()])
def test_whatever_a_setting_says_it_is_used_or_refused_in_one_sentence(name: str) -> None:
    for text in NONSENSE:
        try:
            loaded({name: text})
        except ConfigError as refused:
            assert name in str(refused) or text in str(refused)
            assert "\n" not in str(refused)


def test_a_name_that_is_no_setting_is_refused_so_that_a_slip_is_not_a_default() -> None:
    with pytest.raises(ConfigError, match=r"RELAY_PROT is not a setting; `relay-node config` lists them"):
        load({"RELAY_PROT": "8000"})


def test_what_the_command_of_the_client_reads_is_no_setting() -> None:
    """A shell with RELAY_NODE set, as the client's README says, must be able to start and operate a node."""
    command = Path(__file__).parents[2] / "client/relay_client/command"
    read = {name for file in command.glob("*.py") for name in re.findall("RELAY_[A-Z_]+", file.read_text())}
    assert {"RELAY_NODE", "RELAY_INBOX_TOKEN", "RELAY_TASK_ID"} <= read
    assert load(dict.fromkeys(read, "http://127.0.0.1:8000")) == Settings()


@pytest.mark.parametrize("service", ["RELAY", "RELAY_ADMIN", "RELAY_WEB_1"])
def test_what_kubernetes_tells_of_a_service_named_like_us_is_no_setting(service: str) -> None:
    """A Service named relay adds these variables to every container of its namespace. They must not prevent the
    start.
    """
    told = {
        f"{service}_SERVICE_HOST": "10.0.171.239",
        f"{service}_SERVICE_PORT": "8000",
        f"{service}_SERVICE_PORT_HTTP_API": "8000",
        f"{service}_PORT": "tcp://10.0.171.239:8000",
        f"{service}_PORT_8000_TCP": "tcp://10.0.171.239:8000",
        f"{service}_PORT_8000_TCP_PROTO": "tcp",
        f"{service}_PORT_8000_TCP_PORT": "8000",
        f"{service}_PORT_8000_TCP_ADDR": "10.0.171.239",
        f"{service}_PORT_5300_UDP": "udp://10.0.171.239:5300",
    }
    assert load(told) == Settings()


def test_a_real_port_is_a_setting_on_kubernetes_too() -> None:
    told = {"RELAY_SERVICE_HOST": "10.0.171.239", "RELAY_PORT": "9000", "RELAY_ADMIN_PORT": "tcp://10.0.171.240:9100"}
    assert load(told) == Settings(port=9000)
    assert load({"RELAY_REDIS_URL": "tcp://10.0.171.241:6379"}) != Settings(), "of no Service: not left out in silence"
    with pytest.raises(ConfigError, match="RELAY_SERVICE_PROT is not a setting"):
        load({"RELAY_SERVICE_PROT": "8000"})


@pytest.mark.parametrize("text", ["10/60", "1/3600", "0"])
def test_a_limit_is_written_as_it_is_read(text: str) -> None:
    assert str(Limit.parse(text)) == text


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"RELAY_HOST": "::1", "RELAY_PORT": "80"}, "http://[::1]:80"),
        ({"RELAY_BASE_URL": "https://relay.example/"}, "https://relay.example"),
        ({"RELAY_BASE_URL": "https://example.org/relay"}, "https://example.org/relay"),
    ],
)
def test_the_public_url_has_no_trailing_slash(settings: dict[str, str], url: str) -> None:
    assert load(settings).public_url == url
