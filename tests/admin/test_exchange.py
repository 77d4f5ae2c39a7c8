"""What one node exports, another imports under its own secret, and only once however often the import is run."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.cli import main
from node.config import Limit, Limits
from node.retention.rules import retention_of
from node.run import exchange
from node.run.exchange import ExportedRecord, records
from node.store import RedisReply, Store, StoreUnavailable, ids, keys
from node.store.steps import Step
from node.store.store import Wanted
from tests.admin.conftest import Admin
from tests.board.calls import BOARD, QUESTION
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, act, claimed, offered

OTHER_SECRET = "Zb4kQ9w2Lr7xVn1sTj6yHf8cMg3dPa5eUoRiBqWtXkE="


async def filled(node: NodeUnderTest, admin: Admin) -> dict[str, Any]:
    """Create one of everything that is exported. Returns how each is shown."""
    thread = (await node.client.post(BOARD, json=QUESTION)).json()["id"]
    for body in ("I can help you", "So can I, tomorrow"):
        await node.client.post(f"{BOARD}/{thread}/replies", json={"body": body})
    sent = {"message": "Who can summarise a long report?", "details": "It is about solar panels."}
    message = (await node.client.post("/api/v1/relay", json=sent)).json()["reference_id"]
    hidden = (await node.client.post(BOARD, json=QUESTION)).json()["id"]
    await admin("threads", "hide", hidden, f"{thread}:2")
    words = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello, is anybody there?"}]}
    await node.client.post("/api/v1/message:send", json={"message": words})  # an A2A task that is no contract
    offer, taken, done = await offered(node), await claimed(node), await claimed(node)
    await act(node, done, "complete", claim_token=done["claim_token"], result_payload=1)
    paths = [f"{BOARD}/{thread}", f"/api/v1/relay/{message}", f"{TASKS}/{offer['id']}", f"{TASKS}/{done['id']}"]
    return {
        "reads": {path: (await node.client.get(path)).json() for path in paths},
        "hidden": hidden,
        "claimed": taken["id"],
    }


async def test_another_node_shows_what_this_one_did(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await filled(node, admin)

    async def is_listed() -> bool:
        return (await node.client.get(BOARD)).json()["total"] == 2

    async with node.worker():
        await until(is_listed)
    file = tmp_path / "export.jsonl"
    ran = await admin("export", str(file), "--json")
    assert (ran.status, ran.data) == (0, {"reply": 2, "task": 3, "thread": 3})
    header, *lines = file.read_text().splitlines()
    assert (json.loads(header)["format"], json.loads(header)["version"]) == ("relay-node-export", 1)
    assert file.stat().st_mode & 0o777 == 0o600
    half = tmp_path / "half.jsonl"
    half.write_text("\n".join([header, *lines[:2]]) + "\n")
    with RedisServer(tmp_path / "redis") as server:
        monkey = pytest.MonkeyPatch()
        monkey.setenv("RELAY_REDIS_URL", server.url)
        free = Limits(search=Limit(0, 1), search_characters=Limit(0, 1))
        settings = settings_for(server.url, data_dir=tmp_path / "other", limits=free)

        async with running(msgspec.structs.replace(settings, secret=OTHER_SECRET)) as other, other.worker():
            assert await asyncio.to_thread(main, ["admin", "import", str(half)]) == 0
            for _ in range(2):
                assert await asyncio.to_thread(main, ["admin", "import", str(file)]) == 0
            _, _, said, counts = capsys.readouterr().out.splitlines()[-4:]
            assert said.startswith(f"from {node.settings.node_id}, exported at ")
            assert counts == "reply known 2, task known 3, thread known 3"
            for path, record in found["reads"].items():
                assert (await other.client.get(path)).json() == record
            assert (await other.client.get(f"{BOARD}/{found['hidden']}")).status_code == 404
            again = (await other.client.get(f"{TASKS}/{found['claimed']}")).json()
            assert (again["status"], again["assignee_id"]) == ("offered", None)

            async def is_listed_and_found() -> bool:
                board = (await other.client.get(BOARD)).json()["total"]
                tasks = (await other.client.get(f"{TASKS}?status=offered")).json()["total"]
                hits = [
                    len((await other.client.post(f"{path}/search", json={"query": query})).json()["hits"])
                    for path, query in ((BOARD, "CSV parser"), (TASKS, "solar panels"))
                ]
                return (board, tasks, *hits) == (2, 2, 1, 2)

            await until(is_listed_and_found)
            answer = await other.client.post(f"{TASKS}/{found['claimed']}/claim", json={"assignee_id": "bob"})
            assert answer.status_code == 200
            compacting = retention_of(
                msgspec.structs.replace(settings, idempotency_ttl=0, task_hot_days=1e-7), other.store
            )
            await until(lambda: compacting.look(5))
            before = await other.names("*task:*"), await other.names("packed:*")
            [thread, *_] = found["reads"]
            assert await asyncio.to_thread(main, ["admin", "threads", "hide", thread.rpartition("/")[2]]) == 0
            assert await asyncio.to_thread(main, ["admin", "import", str(file)]) == 0
            assert (await other.names("*task:*"), await other.names("packed:*")) == before
            assert (await other.client.get(thread)).status_code == 404, "what has changed here stays so"
            assert (await other.client.get(f"{TASKS}/{found['claimed']}")).json()["assignee_id"] == "bob"
        monkey.undo()


@pytest.mark.parametrize("removed", [[3], [1, 2, 3]])
async def test_the_number_of_a_removed_reply_is_not_given_again(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, removed: list[int]
) -> None:
    """A new reply with the number of a removed one would be acknowledged but hidden."""
    thread_id = await with_replies(node, 3)
    await admin("threads", "purge", *(f"{thread_id}:{seq}" for seq in removed))
    await admin("export", str(tmp_path / "export"))
    await node.store.run_all([("DEL", keys.thread(thread_id)), ("DEL", keys.replies(thread_id))])
    assert (await admin("import", str(tmp_path / "export"))).status == 0
    added = await node.client.post(f"{BOARD}/{thread_id}/replies", json={"body": "I can do that as well."})
    assert added.json()["seq"] == 4
    shown = (await node.client.get(f"{BOARD}/{thread_id}")).json()
    assert [reply["seq"] for reply in shown["replies"]] == [seq for seq in range(1, 5) if seq not in removed]
    assert shown["reply_count"] == 4 - len(removed)


async def test_a_reply_that_came_during_the_export_counts(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "AT_ONCE", 1)
    thread_id = await with_replies(node, 2)
    exported = records(node.store)
    first = await anext(exported)
    await node.client.post(f"{BOARD}/{thread_id}/replies", json={"body": "I came meanwhile, as the third."})
    lines = [exchange.header_of("n"), first, *[record async for record in exported]]
    (tmp_path / "export").write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    await node.store.run_all([("DEL", keys.thread(thread_id)), ("DEL", keys.replies(thread_id))])
    assert (await admin("import", str(tmp_path / "export"))).status == 0
    shown = (await node.client.get(f"{BOARD}/{thread_id}")).json()
    assert ([reply["seq"] for reply in shown["replies"]], shown["reply_count"]) == ([1, 2, 3], 3)


async def with_replies(node: NodeUnderTest, count: int) -> str:
    """Return the id of a thread with this many replies."""
    question = {"title": "Who can summarise a report?", "body": "It is about solar panels."}
    thread_id: str = (await node.client.post(BOARD, json=question)).json()["id"]
    for number in range(count):
        await node.client.post(f"{BOARD}/{thread_id}/replies", json={"body": f"I can do that, says number {number}."})
    return thread_id


async def test_a_thread_that_is_here_gets_no_replies_of_another_node(
    node: NodeUnderTest, admin: Admin, tmp_path: Path
) -> None:
    thread_id = await with_replies(node, 2)
    file, later = tmp_path / "export", tmp_path / "later"
    await admin("export", str(file))
    later.write_text(file.read_text().replace('"seq":', '"seq":1'))  # now numbered 11 and 12
    assert (await admin("import", str(later))).status == 0
    shown = (await node.client.get(f"{BOARD}/{thread_id}")).json()
    assert [reply["seq"] for reply in shown["replies"]] == [1, 2]


async def test_what_is_no_export_is_refused_in_one_sentence(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content, sentence in (
        ("{}", "not a header"),
        ('{"format":"\udcff"}', "not a header"),
        (json.dumps(HEADER | {"version": 9}), "this version"),
        (json.dumps(HEADER | {"format": "other"}), "this is other 1"),
        (f'{json.dumps(HEADER)}\n{{"kind":"artifact","id":"x","fields":{{}}}}', "line 2 has no valid id"),
    ):
        file.write_text(content, errors="surrogateescape")
        ran = await admin("import", str(file))
        assert (ran.status, sentence in ran.out) == (1, True)
    assert (await admin("import", str(tmp_path / "nothing"))).status == 1


HEADER = {"format": "relay-node-export", "version": 1, "node_id": "n", "relay_node": "1", "created_at": "x"}
FOREIGN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
TEXTS = {"title": "Look at this", "body": "It is here.", "source": "board", "created_at": "1795416370997"}
UNUSABLE_SCHEMAS = (
    "[1]",
    "false",
    '{"pattern":"(?i)a"}',
    '{"a":' * 1000 + "1" + "}" * 1000,
    f'{{"description":"{"x" * 17_000}"}}',
)
CONTRACT = {"kind": "contract", "publisher_id": "p", "title": "Count", "attempt": "0", "created_at": "1795416370997"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("thread", TEXTS),
        ("thread", TEXTS | {"status": "odd"}),
        ("thread", TEXTS | {"status": "open", "created_at": "soon"}),
        ("thread", TEXTS | {"status": "open", "body": {"base64": "/w=="}}),
        ("thread", TEXTS | {"status": "open", "body": {"other": "x"}}),
        ("thread", TEXTS | {"status": "open", "signature": "{"}),
        ("thread", TEXTS | {"status": "open", "signature": "[1]"}),
        ("thread", TEXTS | {"status": "open", "signature": '{"key":5}'}),
        ("thread", TEXTS | {"status": "open", "reply_count": "-1"}),
        ("thread", TEXTS | {"status": "open", "reply_count": str(2**64)}),
        ("reply", {"id": FOREIGN, "body": "Hello", "at": "1"}),
        ("task", CONTRACT | {"status": "offered", "signature": "[1]"}),
        ("task", CONTRACT | {"status": "odd"}),
        ("task", CONTRACT | {"status": "offered", "kind": "message"}),
        ("task", CONTRACT | {"status": "offered", "deadline": "never"}),
        ("task", CONTRACT | {"status": "offered", "failures": "many"}),
        ("task", CONTRACT | {"status": "offered", "failures": "1_0"}),
        ("task", CONTRACT | {"status": "offered", "attempt": str(2**63 - 1)}),
        ("task", CONTRACT | {"status": "offered", "lease_ms": str(10**16)}),
        ("task", CONTRACT | {"status": "offered", "review_ms": "-5"}),
        ("task", CONTRACT | {"status": "offered", "changes": f"{10**20} offered@1795416370997"}),
        ("task", CONTRACT | {"status": "offered", "changes": "many"}),
        ("task", CONTRACT | {"status": "offered", "changes": "1 offered"}),
        ("task", CONTRACT | {"status": "completed", "completed_at": "1795416370998", "result_payload": "{"}),
        *(
            ("task", CONTRACT | {"status": status, "result_schema": schema, "more": "1"})
            for status in ("offered", "failed")
            for schema in UNUSABLE_SCHEMAS
        ),
    ],
)
async def test_what_could_not_be_shown_or_changed_is_not_imported(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, kind: str, fields: dict[str, Any]
) -> None:
    file = tmp_path / "file"
    file.write_text("\n".join(json.dumps(line) for line in (HEADER, {"kind": kind, "id": FOREIGN, "fields": fields})))
    ran = await admin("import", str(file))
    assert (ran.status, "line 2 is not a valid record" in ran.out) == (1, True)
    assert not await node.names(f"*{FOREIGN}*")


async def test_what_changes_while_it_is_exported_is_in_the_file(node: NodeUnderTest) -> None:
    tasks = [await claimed(node) for _ in range(3)]
    await offered(node)
    found: list[str] = []
    async for record in records(node.store):
        found.append(record.id)
        for task in tasks if len(found) == 1 else ():
            assert (await act(node, task, "release", claim_token=task["claim_token"])).status_code == 200
    assert {task["id"] for task in tasks} <= {*found}


async def test_a_result_that_was_not_accepted_yet_is_not_accepted_here_by_silence(
    node: NodeUnderTest, admin: Admin, tmp_path: Path
) -> None:
    task = await claimed(node, review_seconds=60)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)
    file = tmp_path / "file"
    assert (await admin("export", str(file))).status == 0
    await node.store.command("DEL", keys.task(task["id"]))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # As if the review period had ended long ago.
    lines[1]["fields"]["review_ends_at"] = lines[1]["fields"]["submitted_at"]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (await admin("import", str(file))).status == 0
    again = (await node.client.get(f"{TASKS}/{task['id']}")).json()
    assert (again["status"], "submitted_at" in again, "review_ends_at" in again) == ("offered", False, False)


@pytest.mark.parametrize(
    ("times", "planned"),
    [({}, None), ({"deadline": 9}, 9), ({"retry_at": 8}, 8), ({"deadline": 9, "retry_at": 8}, 8)],
)
@pytest.mark.parametrize("status", ["offered", "claimed"])
async def test_what_time_will_change_is_planned(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, status: str, times: dict[str, int], planned: int | None
) -> None:
    at = {name: f"409541637099{last}" for name, last in times.items()}
    fields = CONTRACT | {"status": status, "assignee_id": "a", "claimed_at": "1795416370998"} | at
    file = tmp_path / "file"
    file.write_text("\n".join(json.dumps(line) for line in (HEADER, {"kind": "task", "id": FOREIGN, "fields": fields})))
    assert (await admin("import", str(file))).status == 0
    score = await node.store.command("ZSCORE", keys.leases(ids.partition_of_id(FOREIGN)), FOREIGN)
    assert score == (None if planned is None else f"409541637099{planned}".encode())


async def test_nobody_is_called_because_a_file_says_so(node: NodeUnderTest, admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "file"
    fields = CONTRACT | {"status": "offered", "callback_url": "http://127.0.0.1/", "callback_by": "x"}
    lines = (HEADER, {"kind": "task", "id": FOREIGN, "fields": fields})
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert (await admin("import", str(file))).status == 0
    assert (await node.client.get(f"{TASKS}/{FOREIGN}")).status_code == 200
    assert await node.store.command("HMGET", keys.task(FOREIGN), "callback_url", "callback_by") == [None, None]


async def test_what_was_reported_here_stays_here(node: NodeUnderTest, admin: Admin, tmp_path: Path) -> None:
    """In a file of unknown origin, the list of a thread's reported posts could be so long that the thread could not be
    removed.
    """
    thread_id = (await node.client.post(BOARD, json=QUESTION)).json()["id"]
    await node.client.post(f"{BOARD}/{thread_id}/report", json={"reason": "Advertising, and nothing else"})
    file = tmp_path / "file"
    await admin("export", str(file))
    thread = next(record for record in map(json.loads, file.read_text().splitlines()) if record.get("id") == thread_id)
    assert "reported" not in thread["fields"]
    thread |= {"id": FOREIGN, "fields": thread["fields"] | {"reported": ",1" * 10_000}}
    file.write_text("\n".join(map(json.dumps, (HEADER, thread))))
    assert (await admin("import", str(file))).status == 0
    assert await node.store.command("HGET", keys.thread(FOREIGN), "reported") is None


async def test_an_export_that_fails_leaves_no_file(
    admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an export looks like a whole one of a smaller node. A file that was already there is left alone."""

    async def torn(_store: Store) -> AsyncGenerator[ExportedRecord]:
        yield ExportedRecord("thread", FOREIGN, {})
        raise StoreUnavailable("gone")

    monkeypatch.setattr("node.admin.console.exchange.records", torn)
    file = tmp_path / "export"
    assert (await admin("export", str(file))).status == os.EX_TEMPFAIL
    assert not file.exists()
    file.write_text("mine")
    assert (await admin("export", str(file))).status == 1
    assert file.read_text() == "mine"


async def test_contracts_are_read_a_few_at_a_time(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise two hundred results of a megabyte could be in memory at a time."""
    held: list[int] = []
    run_all = Store.run_all

    def reading(store: Store, many: Iterable[Wanted]) -> Awaitable[list[RedisReply]]:
        wanted = list(many)
        held.append(sum(not isinstance(each, Step) and each[0] == "HGETALL" for each in wanted))
        return run_all(store, wanted)

    monkeypatch.setattr(Store, "run_all", reading)
    made = {(await offered(node))["id"] for _ in range(3 * exchange.CONTRACTS_AT_ONCE)}
    assert {record.id async for record in records(node.store)} == made
    assert max(held) == exchange.CONTRACTS_AT_ONCE


@pytest.mark.parametrize("status", ["completed", "canceled", "expired", "failed"])
async def test_what_is_over_there_is_not_changed_by_a_time_in_the_file(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, status: str
) -> None:
    """Otherwise an imported lease of an ended contract could put it on offer again, or make it unreadable."""
    times = {"lease_expires_at": "1", "retry_at": "1", "review_ends_at": "1", "claimed_at": "1795416370998"}
    fields = CONTRACT | times | {"status": status, "max_attempts": "2", "retry_ms": "1000"}
    file = tmp_path / "file"
    file.write_text("\n".join(json.dumps(line) for line in (HEADER, {"kind": "task", "id": FOREIGN, "fields": fields})))
    assert (await admin("import", str(file))).status == 0
    found = await node.client.get(f"{TASKS}/{FOREIGN}")
    assert (found.status_code, found.json()["status"]) == (200, status)


@pytest.mark.parametrize("packed", [b"\x07what", b"\x01what", b"\x00what"], ids=["a later format", "torn", "no list"])
async def test_a_damaged_contract_is_named_and_leaves_no_file(
    node: NodeUnderTest, admin: Admin, tmp_path: Path, packed: bytes
) -> None:
    """The command must not end in a traceback."""
    await node.store.command("SET", keys.packed(FOREIGN), packed)
    ran = await admin("export", str(tmp_path / "export"))
    assert (ran.status, f"purge {FOREIGN}" in ran.out, (tmp_path / "export").exists()) == (1, True, False)
    assert (await admin("tasks", "purge", FOREIGN)).status == 0
    assert (await admin("export", str(tmp_path / "export"))).status == 0
