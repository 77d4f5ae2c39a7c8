"""What every `relay-node admin` command does: find its node, write an audit entry, and say why it cannot work."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from node.admin import audit
from node.cli import main
from node.store import keys
from node.store.heartbeats import Heartbeat
from node.store.search_keys import BOARD_KEYS, SearchKeys
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE

THREAD = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


async def test_the_audit_has_who_what_and_how_it_ended(node: NodeUnderTest, admin: Admin) -> None:
    await admin("clients", "block", "192.0.2.1", "--dry-run")
    await admin("threads", "close", THREAD)
    await admin("callbacks", "redrive", "--all")
    await admin("threads", "show", THREAD)
    ran = await admin("audit", "--json")
    assert [(each["who"], each["command"], each["target"], each["outcome"]) for each in ran.data] == [
        ("olivia", "threads show", THREAD, "refused: thread.unknown"),
        ("olivia", "callbacks redrive", "all", "redriven: 0"),
        ("olivia", "threads close", THREAD, "closed: 0 of 1"),
        ("olivia", "clients block", "192.0.2.1/32", "dry run: 1 of 1"),
    ]


async def test_words_that_are_not_utf8_are_in_the_audit_too(node: NodeUnderTest, admin: Admin) -> None:
    """A shell passes on words in other encodings. The audit must record commands with such words, too."""
    question = {"title": "Who can summarise a report?", "body": "It is about solar panels."}
    thread_id = (await node.client.post("/api/v1/board", json=question)).json()["id"]
    ran = await admin("threads", "hide", "--json", thread_id, "caf\udce9")
    assert [each["outcome"] for each in ran.data] == ["hidden", "thread.unknown"]
    assert (await admin("clients", "block", "203.0.113.7", "--reason", "caf\udce9")).status == 0
    assert (await admin("clients", "list", "--json")).data[0]["reason"] == "caf\\udce9"
    await audit.record(node.store, "olivia", "backup", "/backups/caf\udce9", "done")
    noted = [(each["command"], each["target"]) for each in (await admin("audit", "--json")).data]
    assert noted == [
        ("backup", "/backups/caf\\udce9"),
        ("clients list", ""),
        ("clients block", "203.0.113.7/32"),
        ("threads hide", f"{thread_id} caf\\udce9"),
    ]


async def test_the_audit_is_trimmed(node: NodeUnderTest, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.admin.audit.MAX_ENTRIES", 2)
    for _ in range(3):
        await admin("feedback", "list")
    assert await node.store.command("XLEN", keys.AUDIT) == 2
    await audit.record(node.store, "olivia", "threads hide", "x" * 5000, "hidden")
    assert [len(each.target) for each in await audit.entries(node.store, 1)] == [audit.MAX_TARGET]


async def test_status_is_one_screen(node: NodeUnderTest, admin: Admin) -> None:
    for n in range(3):
        question = {"title": f"Question number {n}", "body": "Who can parse 40 MB of CSV in a sandbox?"}
        await node.client.post("/api/v1/board", json=question)
    ran = await admin("status", "--json")
    assert ran.status == 0
    assert ran.data["threads"] == {"open": 3, "closed": 0, "hidden": 0}
    assert ran.data["kinds"]["thread"] > 0
    assert ran.data["events"] == []
    assert (ran.data["callbacks_pending"], ran.data["callbacks_dead"]) == (0, 0)
    assert ran.data["memory_mib"] < 1024
    text = (await admin("status")).out
    assert len(text.splitlines()) <= 24
    for line in ("threads    open 3, closed 0, hidden 0", "writes     taken", "refused    nothing"):
        assert line in text.splitlines()
    assert text.count("by text only") == text.count("no vectors yet") == 3


async def test_status_tells_of_every_search(node: NodeUnderTest, admin: Admin) -> None:
    for name, count in (("board", 3), ("tasks", 2), ("agents", 1)):
        waiting = [part for n in range(count) for part in (n, f"{THREAD}:{n}")]
        await node.store.command("ZADD", SearchKeys(name).pending, *waiting)
    searches = (await admin("status", "--json")).data["searches"]
    assert {name: each["pending"] for name, each in searches.items()} == {"board": 3, "tasks": 2, "agents": 1}
    lines = [line.split() for line in (await admin("status")).out.splitlines()]
    shown = [words[:3] for words in lines if words and words[0] in searches]
    assert shown == [["board", "3", "0"], ["tasks", "2", "0"], ["agents", "1", "0"]]


async def test_status_shows_what_a_group_has_not_done(node: NodeUnderTest, admin: Admin) -> None:
    stream = keys.events(7)
    for _ in range(3):
        await node.store.command("XADD", stream, "*", "type", "thread.posted", "id", THREAD)
    await node.store.command("XGROUP", "CREATE", stream, "lists", "0", key=stream)
    await node.store.command("XREADGROUP", "GROUP", "lists", "me", "COUNT", 1, "STREAMS", stream, ">", key=stream)
    worker = Heartbeat(node.store, "alive", [])
    await worker.beat()
    await node.store.command("ZADD", keys.WORKERS, 1, "dead for long")
    (lag,) = (await admin("status", "--json")).data["events"]
    assert (lag["group"], lag["waiting"], lag["unacknowledged"], lag["consumers"]) == ("lists", 2, 1, 1)


async def test_a_dry_run_of_reindex_asks_nobody(node: NodeUnderTest, admin: Admin) -> None:
    await node.client.post("/api/v1/board", json={"title": "A question", "body": "Who can help me with this?"})
    ran = await admin("reindex", "--dry-run", "--json")
    assert (ran.status, ran.data["asked"]) == (0, False)
    assert ran.data["entities"] == {"board": 1, "tasks": 0, "agents": 0}
    assert ran.data["left"] == dict.fromkeys(("board", "tasks", "agents")), "nothing is being built"
    assert await node.store.command("EXISTS", BOARD_KEYS.epoch) == 0
    assert (await admin("audit", "--json")).data[0]["outcome"] == "dry run: 1"


async def test_reindex_asks_the_workers(node: NodeUnderTest, admin: Admin) -> None:
    assert (await admin("reindex")).status == 0
    for name in ("board", "tasks", "agents"):
        assert await node.store.command("GET", SearchKeys(name).epoch) == b"1"


def test_without_a_node_there_is_one_sentence_and_where_one_is_stopped_it_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("RELAY_REDIS_URL", raising=False)
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    assert main(["admin", "status"]) == 2
    (tmp_path / "redis").mkdir()
    assert main(["admin", "status"]) == os.EX_TEMPFAIL
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith(f"relay-node: no node runs on {tmp_path}")


def test_without_redis_there_is_one_sentence_and_it_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("RELAY_LOG", "error")
    assert main(["admin", "status"]) == os.EX_TEMPFAIL
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("relay-node: Redis is out of reach")
    assert "127.0.0.1:1: " in said


def test_an_invalid_redis_url_is_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_REDIS_URL", "http://127.0.0.1")
    assert main(["admin", "status"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["threads", "purge"],
        ["callbacks", "drop"],
        ["callbacks", "drop", "--all", "msg_1"],
        ["clients", "block", "example.com"],
        ["clients", "block", "0.0.0.0/0"],
        ["clients", "block", "192.0.2.1", "--for", "0"],
        ["clients", "block", "192.0.2.1", "--for", "315360001"],
        ["threads", "list", "--status", "gone"],
        ["threads", "list", "--offset", "-1"],
        ["threads", "list", "--offset", "99999999999999999999"],
        ["tasks", "list", "--offset", "-1"],
        ["agents", "list", "--offset", "-1"],
        ["audit", "--limit", "99999999999999999999"],
        ["feedback", "list", "--category", "complaint"],
        ["feedback", "export", "--category", "complaint"],
    ],
)
def test_arguments_that_cannot_be_used_are_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["admin", *arguments])
    assert ended.value.code == 2


@pytest.mark.parametrize("words", [["verify"], ["--keep", "3", "place"], ["--into", "verify", "place"], ["a", "b"]])
def test_a_backup_without_its_place_is_not_made_elsewhere(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example, `backup verify` without a place must not make a backup in a directory called `verify`."""
    monkeypatch.chdir(tmp_path)
    assert main(["admin", "backup", *words]) == 2
    assert capsys.readouterr().err.startswith("relay-node: write `backup PLACE")


@pytest.mark.parametrize(
    ("uid", "account", "sudo_user", "who"),
    [
        (0, "root", None, "root"),
        (0, "root", "olivia", "olivia"),
        (0, "root", "root", "root"),
        (998, "relay", None, "relay"),
        (998, "relay", "olivia", "relay (olivia by sudo)"),
        (998, "relay", "caf\udce9", "relay (caf\\udce9 by sudo)"),
        (12345, None, None, "12345"),
    ],
)
def test_the_audit_names_the_account_that_the_system_knows(
    uid: int, account: str | None, sudo_user: str | None, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOGNAME is not used, because anybody may set it."""

    def found(number: int) -> SimpleNamespace:
        if number != uid or account is None:
            raise KeyError(number)
        return SimpleNamespace(pw_name=account)

    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(pwd, "getpwuid", found)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    monkeypatch.delenv("SUDO_USER", raising=False)
    if sudo_user is not None:
        monkeypatch.setenv("SUDO_USER", sudo_user)
    assert audit.who() == who


def test_it_finds_the_embedded_redis_of_a_running_node(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", [sys.executable, "-m", "tests.support.small_node", "serve"]) as node:
        node.start().line("child started", child="web")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RELAY_", "SUDO_"))}
        ran = subprocess.run(
            [sys.executable, "-m", "node", "admin", "clients", "block", "192.0.2.1", "--json"],
            cwd=ROOT,
            env=environment | {"RELAY_DATA_DIR": str(node.folder), "LOGNAME": "mallory"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert json.loads(ran.stdout) == [{"network": "192.0.2.1/32", "outcome": "blocked"}]
    (line,) = [json.loads(line) for line in ran.stderr.splitlines() if '"admin"' in line]
    said = {name: line[name] for name in ("event", "who", "command", "target", "outcome")}
    assert said == {
        "event": "admin",
        "who": pwd.getpwuid(os.getuid()).pw_name,
        "command": "clients block",
        "target": "192.0.2.1/32",
        "outcome": "blocked: 1 of 1",
    }
