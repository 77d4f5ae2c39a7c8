"""The client against a real node, and against connections that break."""

import asyncio
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.nodes import NodeProcess
from tests.support.servers import free_port

from relay_client import AsyncRelay, Conflict, InvalidRequest, NotFound, Relay, Unreachable
from relay_client.agents import card

QUESTION = "Who can summarise a long report about solar panels?"


@pytest.fixture
def relay(served: NodeProcess) -> Generator[Relay]:
    with Relay(served.url) as relay:
        yield relay


def test_a_contract_from_offer_to_result(relay: Relay) -> None:
    offered = relay.tasks.offer("desk", "Count the apples in this picture", skills=["count"], lease_seconds=60)
    claimed = relay.tasks.claim_next("worker", skills=["count"], publisher_ids=["desk"])
    assert claimed is not None
    assert claimed["id"] == offered["id"]
    assert relay.tasks.extend(claimed["id"], claimed["claim_token"])["status"] == "claimed"
    assert relay.tasks.complete(claimed["id"], claimed["claim_token"], {"apples": 3})["status"] == "completed"
    assert relay.tasks.get(offered["id"]).get("result_payload") == {"apples": 3}
    with pytest.raises(Conflict) as refused:
        relay.tasks.cancel(offered["id"], offered["publisher_token"])
    assert refused.value.code == "task.state"
    assert relay.tasks.claim_next("worker", skills=["count"], publisher_ids=["desk"]) is None


def test_the_board_the_relay_and_sessions(relay: Relay) -> None:
    sent = relay.messages.send(QUESTION)
    assert sent is not None
    assert relay.messages.get(sent["reference_id"])["payload"] == {"message": QUESTION}
    thread = relay.board.post("A question", QUESTION)
    relay.board.reply(thread["id"], "I can do that for you today.")
    assert [reply["seq"] for reply in relay.board.get(thread["id"]).get("replies", [])] == [1]
    session = relay.sessions.open(label="planning")
    relay.sessions.send(session["session_id"], "Step 1 is done.")
    assert len(relay.sessions.read(session["session_id"])["lines"]) == 1
    relay.sessions.destroy(session["session_id"], session["destroy_token"])
    with pytest.raises(NotFound):
        relay.sessions.read(session["session_id"])
    with pytest.raises(InvalidRequest, match="title"):
        relay.board.post("", QUESTION)


def test_an_agent_whose_card_cannot_be_had_is_rejected(relay: Relay) -> None:
    made = relay.agents.register(url=f"http://127.0.0.1:{free_port()}/")
    entry = relay.agents.checked(made["id"])
    assert entry["status"] == "rejected"
    assert entry["reason"]


def test_a_minimal_card_is_good_for_an_inbox_and_for_the_directory(relay: Relay) -> None:
    minimal = card(
        "Paint desk", "Paints doors and windows.", {"Paint doors": "In any colour.", "Wash windows": "Daily."}
    )
    mine = relay.inboxes.open(card=minimal)
    again = relay.agents.register(minimal, token=mine["inbox_token"])
    assert again["id"] == mine.get("agent_id")


def test_bytes_come_back_as_they_went(relay: Relay, tmp_path: Path) -> None:
    source, target = tmp_path / "people.csv", tmp_path / "copy.csv"
    source.write_text("id,name\n1,Ada\n2,Grace\n")
    size = source.stat().st_size
    moved: list[tuple[int, int]] = []

    def progress(done: int, of: int) -> None:
        moved.append((done, of))

    manifest = relay.artifacts.upload(source, "desk", media_type="text/plain", filename="all.csv", progress=progress)
    assert (manifest["media_type"], manifest["filename"]) == ("text/plain", "all.csv")
    assert moved[-1] == (size, size)
    moved.clear()
    relay.artifacts.download(manifest["id"], target, progress=progress)
    assert target.read_bytes() == source.read_bytes()
    assert moved[-1] == (size, size)
    again = relay.artifacts.upload(str(source), "desk")
    assert (again["media_type"], again["filename"]) == ("text/csv", "people.csv")
    assert relay.artifacts.download(again["id"], f"{target}2")["byte_size"] == size
    nameless = relay.artifacts.upload(b"\0\1", "desk")
    assert (nameless["media_type"], nameless["filename"]) == ("application/octet-stream", None)


def test_what_a_callers_own_function_raises_is_the_callers(served: NodeProcess, relay: Relay, tmp_path: Path) -> None:
    def progress(done: int, of: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        raise TypeError(f"{done} of {of}")

    async def download() -> None:
        async with AsyncRelay(served.url) as relay:
            await relay.artifacts.download(stored["id"], tmp_path / "copy", progress=progress)

    stored = relay.artifacts.upload(b"id,name", "desk")
    with pytest.raises(TypeError, match="7 of 7"):
        relay.artifacts.download(stored["id"], tmp_path / "copy", progress=progress)
    with pytest.raises(TypeError, match="7 of 7"):
        asyncio.run(download())
    assert list(tmp_path.iterdir()) == []


def test_fields_of_an_inbox_are_cleared(relay: Relay) -> None:
    mine = relay.inboxes.open(label="desk", description="Counts apples.", policy="signed")
    relay.inboxes.open(token=mine["inbox_token"], clear=["label", "policy"])
    shown = relay.inboxes.get(mine["address"])
    assert (shown["label"], shown["description"], shown["policy"]) == (None, "Counts apples.", "open")


async def test_a_message_is_settled_after_the_body_of_the_loop(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        mine = await relay.inboxes.open(label="desk")
        sent = await relay.inboxes.send(mine["address"], "Please count the apples.")
        async for message in relay.inboxes.messages(mine["address"], mine["inbox_token"]):
            assert message["body"] in ("Please count the apples.", "And the pears.")
            if message["id"] != sent["id"]:
                break
            await relay.inboxes.send(mine["address"], "And the pears.")
        page = await relay.inboxes.read(mine["address"], mine["inbox_token"])
        assert [message["body"] for message in page["messages"]] == ["And the pears."]
        receipt = await relay.inboxes.receipt(mine["address"], sent["id"], sent["receipt_token"])
        assert receipt["status"] == "done"


async def test_events_go_on_after_a_cursor(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        offered = await relay.tasks.offer("desk", "Sort the list of names")
        first = ""
        async for event in relay.events.follow("tasks", cursor="earliest"):
            if event.get("data", {}).get("id") == offered["id"]:
                first = event.get("id", "")
                break
        await relay.tasks.cancel(offered["id"], offered["publisher_token"])
        # The feed also has events of other contracts, in any order relative to these.
        async for event in relay.events.follow("tasks", cursor=first):
            if event.get("data", {}).get("id") == offered["id"]:
                assert event.get("type") == "task.canceled"
                break


def test_an_offer_whose_answer_was_lost_is_made_once(served: NodeProcess) -> None:
    with _Losing(served.port) as proxy, Relay(f"http://127.0.0.1:{proxy.port}") as relay:
        offered = relay.tasks.offer("loser", "Count the pears in this picture")
    assert proxy.connections >= 2
    with Relay(served.url) as relay:
        page = relay.tasks.list("offered", publisher_id="loser")
        assert [task["id"] for task in page["tasks"]] == [offered["id"]]


def test_a_node_that_is_not_there_is_unreachable() -> None:
    with Relay(f"http://127.0.0.1:{free_port()}", tries=2) as relay, pytest.raises(Unreachable):
        relay.node.health()


class _Losing:
    """A proxy that forwards requests, and drops the answer to the first one."""

    def __init__(self, port: int) -> None:
        self._node = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "_Losing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with client, socket.create_connection(("127.0.0.1", self._node)) as node:
                request = client.recv(65536)
                while b"\r\n\r\n" not in request or not request.endswith(b"}"):
                    request += client.recv(65536)
                node.sendall(request)
                answer = node.recv(65536)
                if self.connections > 1:
                    client.sendall(answer)
