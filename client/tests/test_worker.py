"""Workers, signed requests and key files, tested with a real node where one is needed."""

import asyncio
import gc
import json
from pathlib import Path

import pytest
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE

from relay_client import AsyncRelay, Relay
from relay_client.keyfile import kept_in
from relay_client.signing import KeyFile
from relay_client.steps import Answer, Send
from relay_client.tasks import ClaimedTask, Task
from relay_client.transport import AsyncHttpxTransport
from relay_client.worker import TaskFailed, worker


async def test_a_worker_completes_and_fails(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("relay_client.worker.CLAIM_WAIT", 0.5)

    @worker(name="counter", skills=["count"], publisher_ids=["desk"])
    def count(task: ClaimedTask) -> dict[str, int]:
        if task["title"].startswith("Fail"):
            raise TaskFailed("input.unreadable", "The second page is blank.", retryable=False)
        if task["title"].startswith("Break"):
            raise ValueError("a secret")
        return {"apples": 3}

    async with AsyncRelay(served.url) as relay:
        work = asyncio.create_task(count.serve(relay))
        titles = ("Count the apples in this picture", "Fail at counting the apples", "Break while counting the apples")
        schema = {"type": "object", "required": ["pears"]}
        unfit = await relay.tasks.offer(
            "desk", "Count the pears", skills=["count"], result_schema=schema, max_attempts=1
        )
        offers = [
            await relay.tasks.offer("desk", title, skills=["count"], lease_seconds=30, max_attempts=1)
            for title in titles
        ]
        ends: list[Task] = []
        for offer in (*offers, unfit):
            ends.append(await relay.tasks.result(offer["id"]))
        count.stop()
        await work
    assert [task["status"] for task in ends] == ["completed", "failed", "failed", "failed"]
    assert ends[0].get("result_payload") == {"apples": 3}
    assert "input.unreadable" in json.dumps(ends[1])
    assert "ValueError" in json.dumps(ends[2])
    assert "a secret" not in json.dumps(ends[2])
    assert "result.unfit" in json.dumps(ends[3])
    # The log tells whoever runs the worker what went wrong, including the text that the publisher does not get.
    told = [record for record in caplog.records if record.name == "relay_client.worker"]
    assert {record.levelname: ends[2 if record.exc_info else 3]["id"] in record.getMessage() for record in told} == {
        "ERROR": True,
        "WARNING": True,
    }
    assert "a secret" in caplog.text


async def test_what_the_node_does_not_take_fails_the_attempt_and_not_the_worker(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_client.worker.CLAIM_WAIT", 0.5)

    @worker(name="odd", skills=["odd"], publisher_ids=["odd desk"])
    def answer(task: ClaimedTask) -> object:
        match task["title"]:
            case "Name a set of apples":
                return {"red", "green"}
            case "Write more than the node takes":
                return "an apple " * 200_000
            case "Fail with many words":
                raise TaskFailed("input.long", "There are too many pages. " * 200, retryable=False)
            case "Fail with a code that is none":
                raise TaskFailed("two\nlines", "The second page is blank.", retryable=False)
            case _:
                return {"apples": 3}

    async with AsyncRelay(served.url) as relay:
        work = asyncio.create_task(answer.serve(relay))
        failures: list[tuple[str, str]] = []
        for title in (
            "Name a set of apples",
            "Write more than the node takes",
            "Fail with many words",
            "Fail with a code that is none",
        ):
            offer = await relay.tasks.offer("odd desk", title, skills=["odd"], lease_seconds=30, max_attempts=1)
            ended = await relay.tasks.result(offer["id"], within=60)
            reasons = [each["reason"] for each in ended.get("attempts", [])]
            failures += [(ended["status"], reason["code"]) for reason in reasons if reason]
        offer = await relay.tasks.offer("odd desk", "Count the apples", skills=["odd"])
        assert (await relay.tasks.result(offer["id"], within=60))["status"] == "completed"
        answer.stop()
        await work
    assert failures == [
        ("failed", "result.unfit"),
        ("failed", "result.unfit"),
        ("failed", "input.long"),
        ("failed", "worker.exception"),
    ]


async def test_a_worker_by_meaning_takes_what_matches_as_well_as_it_says(served: NodeProcess) -> None:
    query = "gardening and leaflets"
    async with AsyncRelay(served.url) as relay:
        offer = await relay.tasks.offer("nursery", "Translate a leaflet about tomatoes into French")
        assert await relay.tasks.claim_next("gardener", publisher_ids=["nursery"], query=query) is None

        @worker(name="gardener", publisher_ids=["nursery"], query=query, threshold=0.1)
        def translate(task: ClaimedTask) -> str:
            return "Les tomates"

        work = asyncio.create_task(translate.serve(relay))
        assert (await relay.tasks.result(offer["id"], within=PATIENCE))["status"] == "completed"
        translate.stop()
        await work


def test_what_is_signed_can_be_closed_with_the_key(served: NodeProcess, tmp_path: Path) -> None:
    key = KeyFile(tmp_path / "agent.key")
    assert (tmp_path / "agent.key").stat().st_mode & 0o777 == 0o600
    assert KeyFile(tmp_path / "agent.key").public == key.public
    with Relay(served.url, signer=key) as relay:
        thread = relay.board.post("A signed question", "Who can parse a large CSV file?")
        assert thread["signature"] is not None
        assert thread["signature"]["key"] == key.public
        assert relay.board.close(thread["id"])["status"] == "closed"
        mine = relay.inboxes.open(label="signed desk")
        relay.inboxes.send(mine["address"], "Please count the apples.")
        assert relay.inboxes.read(mine["address"], wait=1)["waiting"] == 1


def test_a_key_file_appears_as_a_whole_and_is_made_once(tmp_path: Path) -> None:
    """Nobody sees an incomplete file. If two processes create it at the same time, the first to finish wins."""
    file = tmp_path / "agent.key"

    def make() -> bytes:
        assert list(tmp_path.iterdir()) == []
        assert kept_in(file, lambda: b"a" * 32) == b"a" * 32
        return b"b" * 32

    assert kept_in(file, make) == b"a" * 32
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    KeyFile(tmp_path / "agent.key")
    (tmp_path / "agent.key").chmod(mode)
    with pytest.raises(PermissionError, match="chmod"):
        KeyFile(tmp_path / "agent.key")


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_file_that_holds_something_else_is_no_key(tmp_path: Path, length: int) -> None:
    file = tmp_path / "agent.key"
    file.write_bytes(b"a" * length)
    file.chmod(0o600)
    with pytest.raises(ValueError, match="does not hold a key of 32 bytes"):
        KeyFile(file)


class Silent(AsyncHttpxTransport):
    """A transport that never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def send(self, request: Send) -> Answer:
        self.asked.set()
        return await asyncio.Future()


def test_a_worker_whose_loop_ends_while_it_gives_back_leaves_no_complaint() -> None:
    """Regression: asyncio logged that an exception was never retrieved."""
    complaints: list[str] = []

    @worker(name="idle")
    def idle(task: ClaimedTask) -> None: ...

    async def leave() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said["message"]))
        transport = Silent()
        work = asyncio.create_task(idle.serve(AsyncRelay("http://node.example", transport=transport)))
        await transport.asked.wait()
        work.cancel()
        transport.asked.clear()
        await transport.asked.wait()  # the worker repeats its claim, in order to give it back

    asyncio.run(leave())
    gc.collect()
    assert complaints == []
