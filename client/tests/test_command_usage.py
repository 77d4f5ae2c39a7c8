"""Wrong use of the command `relay`, and answers that no node would give: a clear message, and no traceback."""

import asyncio
import os
import signal
import subprocess
import sys
from math import nan
from pathlib import Path

import pytest
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.servers import PATIENCE, free_port

from relay_client import AsyncRelay, UsageError
from relay_client.command import main
from relay_client.command.tasks import result_of

AWAY = "relay: the request went through the proxy"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run the command, which must be refused as wrong use, and return its message."""
    assert main(words) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.startswith("relay: ")
    return shown.err.removeprefix("relay: ").strip()


@pytest.mark.parametrize("words", [("task", "offer", "Count the pears", "--schema"), ("agents", "register", "--card")])
@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000],
    ids=["half", "no text", "too deep", "long number"],
)
def test_a_file_that_is_no_json_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], content: bytes
) -> None:
    """Regression: JSON that is nested too deeply caused a traceback."""
    file = tmp_path / "given.json"
    file.write_bytes(content)
    assert said(capsys, *words, str(file)).startswith(f"{file} is not JSON: ")
    file.unlink()
    assert said(capsys, *words, str(file)) == f"{file} is not a file"


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
@pytest.mark.parametrize("words", [("ask", "address", "hello"), ("task", "offer", "Count"), ("task", "result", "id")])
def test_what_is_no_time_to_wait_is_said_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], seconds: str
) -> None:
    """Regression: with `nan`, the command waited for ever."""
    with pytest.raises(SystemExit) as ended:
        main([*words, f"--wait={seconds}"])
    assert ended.value.code == 2
    assert f"argument --wait: invalid seconds value: '{seconds}'" in capsys.readouterr().err


async def test_a_time_that_is_no_number_is_wrong_use() -> None:
    async with AsyncRelay(f"http://127.0.0.1:{free_port()}") as relay:
        with pytest.raises(UsageError, match="not nan"):
            await asyncio.wait_for(relay.tasks.result("id", within=nan), PATIENCE)


def test_a_missing_extra_is_named_by_a_package_that_an_index_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Regression: the advice was to install this client from an index, where anybody may take its name."""
    monkeypatch.setitem(sys.modules, "relay_client.signing", None)
    assert said(capsys, "key", "--key", str(tmp_path / "key")) == "signing needs PyNaCl: pip install pynacl"


def test_ctrl_c_while_the_client_is_imported_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "httpx.py").write_text("import signal\nprint('importing', flush=True)\nsignal.pause()\n")
    search = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[1])))
    with subprocess.Popen(
        [sys.executable, "-m", "relay_command"],
        env=os.environ | {"PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        shown = process.communicate(timeout=PATIENCE)[1]
    assert (process.returncode, shown) == (130, "")


def test_a_key_file_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Regression: messages named a temporary file, or asked the user to make a directory unreadable to others."""
    wanted = tmp_path / "missing" / "agent.key"
    assert said(capsys, "key", "--key", str(wanted)) == f"[Errno 2] No such file or directory: '{wanted}'"
    assert said(capsys, "key", "--key", str(tmp_path)) == f"{tmp_path} is a directory"


def test_certificates_that_are_not_there_are_looked_for_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    assert "SSL_CERT_FILE" in said(capsys, "doctor", "--node", "https://node.example")


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_a_node_that_is_not_reached_through_a_proxy_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
    words = ("doctor", "--node", f"http://127.0.0.1:{free_port()}")
    assert main(words) == 3
    assert AWAY not in capsys.readouterr().err
    monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert main(words) == 3
    assert AWAY in capsys.readouterr().err
    assert main([*words, "--json"]) == 3
    assert AWAY not in capsys.readouterr().err
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert main(words) == 3
    assert AWAY not in capsys.readouterr().err


@pytest.mark.parametrize("url", ['http://node.example"', "http://<node>", "http://node\\example"])
def test_an_address_that_breaks_what_it_is_written_into_is_none(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert "the URL of a node must be like" in said(capsys, "mcp", "config", "codex", "--node", url)


@pytest.mark.parametrize(
    ("words", "content", "date"),
    [
        (("task", "find", "pears"), b'{"hits":5}', ""),
        (("agents", "find", "pears"), b'{"hits":[5]}', ""),
        (("inbox", "watch", "address", "--keep"), b'{"messages":[5],"next_since_seq":1}', ""),
        (("artifact", "get", "id"), b'{"filename":5}', ""),
        (("send", "Hello there"), b'{"post_url":5}', ""),
        (("doctor",), b'{"status":"ok","memory":"ok","disk":"ok","version":"1"}', "Date: the day before"),
        (("doctor",), b'{"status":"ok","memory":"ok","disk":"ok","version":"1"}', f"Date: 1 Jan {10**20} 00:00:00"),
    ],
)
async def test_an_answer_that_is_not_like_that_of_a_node_is_no_traceback(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], content: bytes, date: str
) -> None:
    async with FixedAnswer(answer("200 OK", content, *([date] if date else []))) as other:
        assert await asyncio.to_thread(main, [*words, "--node", other.url]) == 1
    assert capsys.readouterr().err.startswith("relay: the answer does not look like a node's: ")


@pytest.mark.parametrize("output", ["NaN", '{"mean":-Infinity}', "[" * 100_000, "9" * 5000, "three pears", ""])
def test_what_a_program_writes_and_is_no_json_is_text(output: str) -> None:
    """Regression: such output failed the attempt, and if nested too deeply also caused a traceback."""
    assert result_of(output) == output
    assert result_of('{"pears":[3,1e9]}') == {"pears": [3, 1e9]}


def test_what_a_node_said_cannot_control_the_terminal_through_the_log() -> None:
    """A worker logs the node's own words about why a claim is lost."""
    program = "from relay_client.command.output import prepare; import logging; prepare(); "
    program += "logging.getLogger('relay_client.worker').warning('lost: %s', 'red \\x1b[31m, \\u202eback')"
    search = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", program], env=search, capture_output=True, check=True)
    assert ran.stderr == b"lost: red [31m, back\n"
