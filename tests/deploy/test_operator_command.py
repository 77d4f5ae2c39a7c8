"""deploy/systemd/relay-node.sh runs a command with the settings of the service, read from its files as systemd reads
them.
"""

import subprocess
from pathlib import Path

import pytest

from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE

SCRIPT = ROOT / "deploy" / "systemd" / "relay-node.sh"
SETTINGS, OPERATOR = "/etc/relay-node.env", "/etc/relay-node-operator.env"

RUNUSER = """#!/bin/sh
# In place of the real one: says what it was asked to run, and with which environment.
echo "$@"
exec env --null
"""


class Ran:
    """The script, run on files in a folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / "runuser").write_text(RUNUSER)
        (folder / "bin" / "runuser").chmod(0o755)
        text = SCRIPT.read_text().replace("/var/lib/relay-node", str(folder))
        for path in (SETTINGS, OPERATOR):
            assert path in text
            text = text.replace(path, str(folder / Path(path).name))
        ran = subprocess.run(
            ["sh", "-c", text, "relay-node", *words],
            env={"PATH": f"{folder / 'bin'}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        self.command, _, told = ran.stdout.partition("\n")
        self.environment = dict(pair.split("=", 1) for pair in told.split("\0") if pair)


def settings(folder: Path, name: str, text: str) -> None:
    (folder / Path(name).name).write_text(text)


URL = "rediss://relay:p$ss&w;rd@10.0.0.1:6379/0?ssl_cert_reqs=required&ssl_ca_certs=/etc/ca.pem"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (f"A={URL}", URL),
        (f"A='{URL}'", URL),
        ("A=$HOME `id` $(id)", "$HOME `id` $(id)"),
        ("A=a node of mine", "a node of mine"),
        ("  A =  a node of mine \t", "a node of mine"),
        ('A=" kept blanks "', " kept blanks "),
        (r'A="say \"so\" for \$5, \\ and \n"', r'say "so" for $5, \ and \n'),
        (r"A='say \"so\" for $5'", r"say \"so\" for $5"),
        (r"A=a\b\\c", r"ab\c"),
        ("A=a # no comment", "a # no comment"),
        ("A=a=b=c", "a=b=c"),
        ('A=a"b"c', 'a"b"c'),
        ("A=", ""),
        ("A=first\nA=second", "second"),
    ],
)
def test_a_value_is_read_as_systemd_reads_it(line: str, value: str, tmp_path: Path) -> None:
    """Each case was compared with the result of systemd 252 (load_env_file)."""
    settings(tmp_path, SETTINGS, f"# before\n{line}\n")
    assert Ran(tmp_path, "check").environment["A"] == value
    settings(tmp_path, SETTINGS, line)  # without a line break at the end
    assert Ran(tmp_path, "check").environment["A"] == value


@pytest.mark.parametrize("line", ["#A=1", "  # A=1", ";A=1", "A", "", "1A=1", "export A=1", "A B=1"])
def test_what_is_no_setting_is_passed_over(line: str, tmp_path: Path) -> None:
    without = Ran(tmp_path, "check").environment
    settings(tmp_path, SETTINGS, f"{line}\nB=2\n")
    assert Ran(tmp_path, "check").environment == {**without, "B": "2"}


def test_nothing_in_a_file_is_carried_out(tmp_path: Path) -> None:
    made = tmp_path / "made"
    settings(tmp_path, SETTINGS, f"A=$(touch {made})`touch {made}`; touch {made} & touch {made}\ntouch {made}\n")
    Ran(tmp_path, "check")
    assert not made.exists()


def test_a_command_runs_as_the_user_of_the_service_with_its_words_as_they_are(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "admin", "threads", "list")
    assert ran.command == "--user relay -- /opt/relay-node/bin/relay-node admin threads list"
    assert ran.environment["RELAY_DATA_DIR"] == str(tmp_path)


@pytest.mark.parametrize(
    ("words", "user"), [("admin status", "relay-operator"), ("restore here", "relay-operator"), ("check", "relay")]
)
def test_the_operator_has_a_user_of_redis_of_their_own(words: str, user: str, tmp_path: Path) -> None:
    """`check`, however, examines the rights of the node's user."""
    settings(tmp_path, SETTINGS, "RELAY_REDIS_URL=redis://relay:a@10.0.0.1\nRELAY_NODE_ID=here\n")
    settings(tmp_path, OPERATOR, "RELAY_REDIS_URL=redis://relay-operator:b@10.0.0.1\n")
    environment = Ran(tmp_path, *words.split()).environment
    assert environment["RELAY_REDIS_URL"].startswith(f"redis://{user}:")
    assert environment["RELAY_NODE_ID"] == "here"


def test_the_backup_of_each_night_is_made_by_that_user_too() -> None:
    unit = SCRIPT.with_name("relay-node-backup.service").read_text().splitlines()
    files = [line.partition("=")[2] for line in unit if line.startswith("EnvironmentFile=")]
    assert files == [f"-{SETTINGS}", f"-{OPERATOR}"]  # the later file takes precedence
