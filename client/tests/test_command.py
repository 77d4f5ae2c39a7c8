"""The command `relay` against a real node, started the way users start it."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
import tomllib
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.misbehaving import Misbehaving
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, free_port, until

from relay_client import Relay
from relay_client.command import main
from relay_client.signing import KeyFile

PACKAGE = Path(__file__).parents[1]
COMMAND = (os.environ.get("CLIENT_PYTHON", sys.executable), "-m", "relay_client")
"""CLIENT_PYTHON may name a Python of another version, which must have the client's dependencies."""
UPPER = f"""{sys.executable} -c 'import json, sys; print(json.load(sys.stdin)["body"].upper())'"""
ODD = f"""{sys.executable} -c '
import json, os, sys
from relay_client import Relay
message = json.load(sys.stdin)
if message["body"] == "settle":
    address, token = os.environ["RELAY_INBOX"], os.environ["RELAY_INBOX_TOKEN"]
    Relay(os.environ["RELAY_NODE"]).inboxes.settle(address, message["id"], token, reply="Settled by the program.")
print(message["body"] * (100_000 if message["body"] == "shout" else 1))'"""
"""A program that settles one message itself, and for another one prints more than a reply may hold."""
COUNT = f"""{sys.executable} -c 'import json, sys; print(json.dumps(len(json.load(sys.stdin)["title"])))'"""
REJECTION = f"""{sys.executable} -c 'import json, sys; print(json.load(sys.stdin).get("rejection"))'"""
CTRL_C = f"{sys.executable} -c 'import os, signal; os.killpg(0, signal.SIGINT); signal.pause()'"
"""A program that interrupts its whole process group, as a terminal does on Ctrl-C."""

Run = Callable[..., subprocess.CompletedProcess[str]]


def environment(url: str, **names: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    return kept | {"PYTHONPATH": str(PACKAGE), "RELAY_NODE": url} | names


@pytest.fixture
def process(served: NodeProcess) -> Run:
    """Runs the command in a process of its own. Keyword arguments are environment variables."""

    def run(*words: str, text: str = "", **names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            input=text,
            env=environment(served.url, **names),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    return run


@pytest.fixture
def relay(served: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, which takes a hundredth of the time of `process`."""

    def run(*words: str, **names: str) -> subprocess.CompletedProcess[str]:
        with patch.dict(os.environ, environment(served.url, **names), clear=True):
            try:
                status = main(words)
            except SystemExit as ended:  # argparse ends the process
                status = ended.code
        return subprocess.CompletedProcess(words, cast("int", status), *capsys.readouterr())

    return run


@contextmanager
def started(served: NodeProcess, *words: str, **names: str) -> Generator["subprocess.Popen[str]"]:
    """Run the command beside the test. At the end of the block it must end by itself, with status 0."""
    process = subprocess.Popen(
        [*COMMAND, *words], env=environment(served.url, **names), stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


def record(done: "subprocess.CompletedProcess[str]") -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_message_is_sent_and_followed(process: Run, relay: Run, served: NodeProcess) -> None:
    with Relay(served.url) as node:
        cursor = node.events.page("board")["cursor"]
    sent = process("send", "-", text="Who can summarise a long report about solar panels?")
    assert sent.stdout.startswith(f"{served.url}/api/v1/board/threads/")
    thread = sent.stdout.strip().rpartition("/")[2]
    with Relay(served.url) as node:  # events of other tests may precede that of the thread
        for event in node.events.follow("board", cursor=cursor):
            if event.get("data", {}).get("id") == thread:
                break
            cursor = event.get("id", cursor)
    tail = ("tail", "board", "--cursor", cursor, "--number", "1")
    assert "thread.posted" in process(*tail).stdout
    assert record(relay(*tail, "--types", "thread.posted", "--json"))["data"]["id"] == thread


def test_a_question_is_answered_by_a_program(relay: Run, served: NodeProcess) -> None:
    opened = record(relay("inbox", "open", "--label", "shouter", "--json"))
    mine = {"RELAY_INBOX": opened["address"], "RELAY_INBOX_TOKEN": opened["inbox_token"]}
    with started(served, "inbox", "watch", "--exec", UPPER, "--number", "1", **mine):
        asked = relay("ask", opened["address"], "please count the apples", "--wait", "30")
    assert (asked.returncode, asked.stdout) == (0, "PLEASE COUNT THE APPLES\n")
    with started(served, "inbox", "watch", "--exec", "false", "--number", "1", **mine):
        asked = relay("ask", opened["address"], "please count the pears", "--json", RELAY_INBOX="")
    assert (asked.returncode, json.loads(asked.stdout)["status"]) == (1, "refused")
    unanswered = relay("ask", opened["address"], "is anybody there?", "--wait", "0.2")
    assert unanswered.returncode == 5
    assert "relay receipt " in unanswered.stderr
    kept = record(relay("inbox", "watch", "--keep", "--json", **mine))
    assert kept["body"] == "is anybody there?"
    assert record(relay("inbox", "close", "--json", **mine))["status"] == "closed"


def test_a_watch_goes_on_after_what_it_cannot_settle(relay: Run, served: NodeProcess) -> None:
    opened = record(relay("inbox", "open", "--json"))
    mine = {"RELAY_INBOX": opened["address"], "RELAY_INBOX_TOKEN": opened["inbox_token"]}
    with Relay(served.url) as node:
        sent = [node.inboxes.send(opened["address"], text) for text in ("settle", "shout", "please count the apples")]
        with started(served, "inbox", "watch", "--exec", ODD, "--number", "3", **mine):
            receipts = [
                node.inboxes.answer(opened["address"], each["id"], each["receipt_token"], within=PATIENCE)
                for each in sent
            ]
    assert [(receipt["status"], receipt["reply"]) for receipt in receipts] == [
        ("done", "Settled by the program."),
        ("refused", None),
        ("done", "please count the apples"),
    ]


def test_a_contract_is_done_by_a_program(relay: Run, served: NodeProcess) -> None:
    with started(served, "task", "work", "--exec", COUNT, "--publisher", "letters", "--number", "1"):
        offered = relay("task", "offer", "Count the letters of this", "--publisher", "letters", "--wait", "30")
    assert (offered.returncode, offered.stdout) == (0, "25\n")
    with started(served, "task", "work", "--exec", "false", "--publisher", "failures", "--number", "1"):
        failed = relay(
            "task", "offer", "Fail at this", "--publisher", "failures", "--attempts", "1", "--wait", "30", "--json"
        )
    assert failed.returncode == 1
    told = relay("task", "result", json.loads(failed.stdout)["id"]).stderr
    assert "attempt 1 failed: exec.status: The worker's program ended with status 1." in told


def test_a_program_is_run_again_for_a_rejected_result(relay: Run, served: NodeProcess) -> None:
    publisher = ("--publisher", "reviewers")
    with started(served, "task", "work", "--exec", REJECTION, *publisher, "--number", "2"), Relay(served.url) as node:
        offered = record(relay("task", "offer", "Count the apples", *publisher, "--review", "600", "--json"))
        node.tasks.result(offered["id"], until=["submitted"], within=PATIENCE)
        node.tasks.reject(offered["id"], "Count them all.", offered["publisher_token"])
        again = node.tasks.result(offered["id"], until=["submitted"], within=PATIENCE)
        assert again.get("result_payload") == "Count them all."


def test_offers_are_found_by_what_they_ask_for(relay: Run, served: NodeProcess) -> None:
    offered = record(relay("task", "offer", "Translate a novel about whales", "--skill", "translate", "--json"))
    found = relay("task", "find", "translate a novel about whales", "--threshold", "0.5")
    assert offered["id"] in found.stdout
    with Relay(served.url) as node:
        node.tasks.cancel(offered["id"], offered["publisher_token"])


def test_a_file_comes_back_as_it_went(relay: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "people.csv", tmp_path / "copy.csv"
    source.write_text("id,name\n1,Ada\n")
    ident = relay("artifact", "put", str(source)).stdout.strip()
    assert relay("artifact", "get", ident, str(target)).returncode == 0
    assert target.read_bytes() == source.read_bytes()
    assert "--force" in relay("artifact", "get", ident, str(target)).stderr


def test_bytes_go_through_pipes(served: NodeProcess) -> None:
    given = bytes(range(256)) * 1000
    env = environment(served.url)
    ident = subprocess.check_output([*COMMAND, "artifact", "put", "-"], input=given, env=env).decode().strip()
    assert subprocess.check_output([*COMMAND, "artifact", "get", ident, "-"], env=env) == given


def test_a_closed_output_is_no_failure(served: NodeProcess) -> None:
    """Regression: the command sent the message but exited with the status of a refusal."""
    words = shlex.join([*COMMAND, "send", "Is anybody there who can count pears?"])
    done = subprocess.run(["sh", "-c", f"{words} >&-"], env=environment(served.url), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_shows_the_progress_of_a_transfer(served: NodeProcess, tmp_path: Path) -> None:
    source = tmp_path / "zeros.bin"
    source.write_bytes(bytes(1_000_000))
    screen, end = os.openpty()
    with os.fdopen(screen, "rb", buffering=0) as seen:
        put = [*COMMAND, "artifact", "put", str(source)]
        subprocess.run(put, env=environment(served.url), stdout=subprocess.DEVNULL, stderr=end, check=True)
        os.close(end)
        assert b"] 100%" in seen.read(65536)


def test_an_agent_is_listed_by_its_key_and_found(relay: Run, served: NodeProcess, tmp_path: Path) -> None:
    key = str(tmp_path / "agent.key")
    address = record(relay("key", "--key", key, "--json"))["address"]
    card = ("--name", "Solar desk", "--description", "Reads reports", "--skill", "summarise=Summarises solar reports")
    listed = record(relay("agents", "register", *card, "--key", key, "--json", RELAY_INBOX_TOKEN=""))
    assert listed["status"] == "listed"
    find = ("agents", "find", "summarises solar reports", "--threshold", "0.5")
    until(lambda: "its key has no inbox" in relay(*find).stdout, "an agent that cannot be reached")
    assert record(relay("inbox", "open", "--key", key, "--json"))["address"] == address
    assert "Solar desk: summarise" in relay(*find).stdout
    missed = relay("agents", "find", "summarises lunar reports", "--threshold", "1")
    assert (missed.stdout, missed.stderr[:14]) == ("", "nothing found;")
    assert relay("agents", "find", "summarises lunar reports", "--threshold", "1", "--json").stderr == ""
    rejected = relay("agents", "register", "--url", f"http://127.0.0.1:{free_port()}/", "--json")
    assert (rejected.returncode, json.loads(rejected.stdout)["status"]) == (1, "rejected")
    with Relay(served.url, signer=KeyFile(key)) as node:
        node.agents.remove(listed["id"])


def test_a_program_that_is_interrupted_fails_no_attempt(served: NodeProcess) -> None:
    """Regression: Ctrl-C failed the attempt under way, and if it was the last attempt, the contract."""
    with Relay(served.url) as node:
        offered = node.tasks.offer("interrupts", "Count the apples in this picture", max_attempts=1)
        work = [*COMMAND, "task", "work", "--publisher", "interrupts", "--exec", CTRL_C]
        done = subprocess.run(work, env=environment(served.url), start_new_session=True, timeout=PATIENCE, check=False)
        left = node.tasks.get(offered["id"])
    assert (done.returncode, left["status"], left.get("attempts", [])) == (0, "offered", [])


async def test_an_interrupted_ask_says_how_to_follow_its_message(relay: Run, served: NodeProcess) -> None:
    opened = record(relay("inbox", "open", "--json"))
    asking: list[asyncio.subprocess.Process] = []

    def interrupted(number: int) -> str:
        if number < 2:
            return "pass"
        asking[0].send_signal(signal.SIGINT)  # by now the message is sent, and its receipt has been read once
        return "break"

    async with Misbehaving(served.port, interrupted) as way, asyncio.timeout(PATIENCE):
        words = (*COMMAND, "ask", opened["address"], "How many pages do you take?")
        asking.append(
            await asyncio.create_subprocess_exec(*words, env=environment(way.url), stderr=asyncio.subprocess.PIPE)
        )
        _, said = await asking[0].communicate()
    assert asking[0].returncode == 130
    assert b"relay receipt " in said


@pytest.mark.parametrize(("program", "status"), [("cat", 0), ("{folder}/without-interpreter", 2)])
def test_what_breaks_the_command_fails_no_attempt(
    served: NodeProcess, tmp_path: Path, program: str, status: int
) -> None:
    """Regression: the command claimed one contract after the other and failed them all."""
    (tmp_path / "without-interpreter").write_text("echo 3\n")
    (tmp_path / "without-interpreter").chmod(0o755)
    unread, output = os.pipe()
    if program == "cat":
        os.close(unread)  # nobody reads the output of the command
    with Relay(served.url) as node:
        offered = node.tasks.offer(program, "Count the apples in this picture", max_attempts=1)
        work = [*COMMAND, "task", "work", "--publisher", program, "--exec", program.format(folder=tmp_path)]
        done = subprocess.run(work, env=environment(served.url), stdout=output, timeout=PATIENCE, check=False)
        left = node.tasks.get(offered["id"])
    assert (done.returncode, left["status"], left.get("attempts", [])) == (status, "offered", [])


async def test_a_service_that_is_no_node_is_told_from_one() -> None:
    async with FixedAnswer(answer("200 OK", b'{"status":"ok"}')) as other:
        doctor = await asyncio.create_subprocess_exec(
            *COMMAND, "doctor", env=environment(other.url), stderr=asyncio.subprocess.PIPE
        )
        _, said = await doctor.communicate()
    assert (doctor.returncode, said) == (1, b"relay: the answer has no 'memory'\n")


def test_all_messages_are_shown_in_any_encoding(
    process: Run, served: NodeProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: only the first page was shown, and an accented letter caused a traceback."""
    monkeypatch.setattr("relay_client.command.inbox.PAGE", 2)
    with Relay(served.url) as node:
        mine = node.inboxes.open()
        for _ in range(3):
            node.inboxes.send(mine["address"], "Who can count the apples?", author="Zoë")
    words = ("inbox", "watch", mine["address"], "--token", mine["inbox_token"], "--keep")
    assert main([*words, "--node", served.url]) == 0
    assert capsys.readouterr().out.count("Zoë") == 3
    shown = process(*words, PYTHONIOENCODING="ascii")
    assert shown.stdout.count("Zo\\xeb") == 3, shown.stderr


def test_the_doctor_finds_a_node_well_and_says_where_there_is_none(process: Run, relay: Run) -> None:
    checks = [json.loads(line) for line in process("doctor", "--json").stdout.splitlines()]
    assert {check["check"] for check in checks} >= {"node", "clock", "versions", "limits"}
    assert all(check["ok"] for check in checks)
    away = relay("doctor", "--node", f"http://127.0.0.1:{free_port()}")
    assert (away.returncode, away.stdout) == (3, "")


def test_an_empty_address_in_the_environment_is_the_default(relay: Run) -> None:
    assert "http://127.0.0.1:8000/api/v1/mcp" in relay("mcp", "config", "cursor", RELAY_NODE="").stdout


def test_exit_codes_tell_what_went_wrong(process: Run, relay: Run) -> None:
    refused = process("send", "Ich kann diesen langen Bericht nicht lesen, wer hilft mir dabei?", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (1, "language.not_english")
    looped = [relay("send", "The same sentence again and again.", "--json") for _ in range(3)]
    assert [one.returncode for one in looped] == [0, 0, 1]
    assert "for a loop" in json.loads(looped[-1].stderr)["error"]
    assert relay("send").returncode == 2
    assert relay("artifact", "put", "/no/such/file").returncode == 2
    assert relay("task", "work", "--exec", "/no/such/program").returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert relay("doctor", "--node", url, "--timeout", "0.3").returncode == 5


def test_what_can_never_succeed_is_wrong_usage(relay: Run, tmp_path: Path) -> None:
    stored = relay("artifact", "put", __file__).stdout.strip()
    for words in (
        ("doctor", "--node", "localhost:8000"),
        ("send", os.fsdecode(b"A file called \x80")),
        ("inbox", "watch", "address", "--token", "two\nlines"),
        ("inbox", "watch", "address", "--exec", ""),
        ("mcp", "config", "cursor", "--node", "localhost:8000"),
        ("tail", "inbox:address", "--token", "tökén"),
        ("artifact", "get", stored, str(tmp_path / "missing" / "copy.py")),
    ):
        done = relay(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert done.stderr.startswith("relay: ")
    assert (
        str(tmp_path)
        in json.loads(relay("artifact", "get", stored, str(tmp_path / "no" / "1"), "--json").stderr)["error"]
    )


@pytest.mark.parametrize("proxy", ["::::", "gopher://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_wrong_usage(relay: Run, proxy: str) -> None:
    done = relay("doctor", all_proxy=proxy, no_proxy="")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert done.stderr.startswith("relay: the connection options (or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, ")


@pytest.mark.parametrize("words", [("send", "-"), ("artifact", "put", "-")])
def test_a_closed_standard_input_is_wrong_usage(served: NodeProcess, words: tuple[str, ...]) -> None:
    line = f"{shlex.join([*COMMAND, *words])} <&-"
    done = subprocess.run(
        line, shell=True, env=environment(served.url), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (2, "relay: standard input is closed\n")


def test_mcp_clients_are_told_where_the_tools_are(relay: Run, served: NodeProcess) -> None:
    url = f"{served.url}/api/v1/mcp"
    assert json.loads(relay("mcp", "config", "claude-code").stdout)["mcpServers"]["relay-node"]["url"] == url
    assert json.loads(relay("mcp", "config", "vscode").stdout)["servers"]["relay-node"]["type"] == "http"
    assert tomllib.loads(relay("mcp", "config", "codex").stdout)["mcp_servers"]["relay-node"]["url"] == url


def test_a_shell_completes_the_command(process: Run, relay: Run) -> None:
    script = process("completion", "bash").stdout
    ask = "COMP_WORDS=(relay --json task o); COMP_CWORD=3; _relay; echo ${COMPREPLY[@]}"
    bash = shutil.which("bash") or "bash"
    done = subprocess.run([bash, "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout == "offer\n"
    assert "complete -c relay" in relay("completion", "fish").stdout
    assert "bashcompinit" in relay("completion", "zsh").stdout


def test_the_package_installs_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    installed = EntryPoint("relay", project["scripts"]["relay"], "console_scripts").load()
    monkeypatch.setattr("sys.argv", ["relay", "completion", "fish"])
    assert installed() == 0
    assert "complete -c relay" in capsys.readouterr().out
