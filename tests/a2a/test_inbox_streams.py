"""Streams of an inbox's tasks: served by any process, while idle, to slow readers, and when the process stops (NETWORK
1).
"""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, NoReturn

import httpx2
import pytest

from node.a2a.inboxes import calls, stream
from node.a2a.inboxes.service import InboxAgents
from node.inbox.model import InboxTask, InboxTurn
from node.inbox.tasks import InboxTasks
from node.store import keys
from node.store.errors import OutcomeUnknown
from tests.a2a.inbox_calls import answered, begun, kind_of, message
from tests.inbox.calls import Json, bearer, opened, path_of, read, settled
from tests.support.living import living
from tests.support.node_under_test import NodeUnderTest
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.two_processes import process_of, two_processes


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with two_processes(tmp_path_factory.mktemp("node")) as node:
        yield node


@asynccontextmanager
async def streamed(node: NodeProcess, url: str, body: Json | None = None) -> AsyncGenerator[tuple[str, Any]]:
    """Open a stream; yield the process that sends it, and its events."""
    async with (
        httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE) as client,
        client.stream("POST", url, json=body) as response,
    ):
        yield process_of(response.headers["x-request-id"]), events_of(response)


async def events_of(response: httpx2.Response) -> AsyncIterator[Json]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def kinds_in(streamed: httpx2.Response) -> list[str]:
    """Return the events of a stream that has ended, each as its kind and state."""
    lines = streamed.text.splitlines()
    return [kind_of(json.loads(line.removeprefix("data: "))) for line in lines if line.startswith("data: ")]


async def opened_at(node: NodeProcess) -> Json:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        return (await client.post(f"{node.url}/api/v1/inboxes", json={})).json()


async def test_who_comes_back_to_another_process_is_told_how_the_task_stands_and_ends(served: NodeProcess) -> None:
    async with asyncio.timeout(PATIENCE):
        inbox = await opened_at(served)
        async with streamed(served, f"{inbox['a2a_url']}/message:stream", {"message": message()}) as (first, events):
            task = (await anext(events))["task"]
        other, rest, subscribe = first, list[Json](), f"{inbox['a2a_url']}/tasks/{task['id']}:subscribe"
        while other == first:
            async with streamed(served, subscribe) as (other, events):
                assert (await anext(events))["task"]["id"] == task["id"]
                if other != first:
                    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
                        settling = f"{inbox['url']}/messages/{task['id']}/settle"
                        done = {"status": "done", "reply": "Yes."}
                        await client.post(settling, json=done, headers=bearer(inbox["inbox_token"]))
                    rest = [event async for event in events]
    assert [kind for event in rest for kind in event] == ["artifactUpdate", "statusUpdate"]


ASKED = ["task SUBMITTED", "statusUpdate WORKING", "statusUpdate INPUT_REQUIRED"]
"""The events of a message that its owner reads and answers with a question."""

MORE = ["statusUpdate SUBMITTED", "statusUpdate WORKING", "artifactUpdate", "statusUpdate COMPLETED"]
"""The events of a message that follows INPUT_REQUIRED and that its owner reads and answers."""


@pytest.mark.parametrize("ends", [MORE, ["statusUpdate CANCELED"]])
async def test_a_subscription_goes_on_while_the_task_waits_for_its_sender(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, ends: list[str]
) -> None:
    # At a heartbeat, the stream would read the task, too.
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 2 * PATIENCE)
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    following = asyncio.create_task(node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:subscribe")))
    await node.listened_to(keys.inbox_receipt(inbox["address"], task["id"]))
    if ends == MORE:
        await begun(node, inbox, message("That one", taskId=task["id"]))
        await answered(node, inbox, reply="Yes.")
    else:
        await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))
    async with asyncio.timeout(PATIENCE):
        assert kinds_in(await following) == ["task INPUT_REQUIRED", *ends]


@pytest.mark.parametrize(
    ("asks", "follows_on", "expected"),
    [
        ("never", True, ["task SUBMITTED", *MORE[1:]]),
        ("before", True, ["task INPUT_REQUIRED", *MORE]),
        ("meanwhile", True, [*ASKED, *MORE]),
        ("meanwhile", False, ASKED),
        ("in vain", True, [*ASKED, "statusUpdate CANCELED"]),
    ],
)
async def test_a_stream_that_looks_late_leaves_no_event_out(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, asks: str, follows_on: bool, expected: list[str]
) -> None:
    """Two streams of one task must get the same events, even if the owner reads and settles at once (so that WORKING
    could be missed) or the sender answers or cancels at once (so that INPUT_REQUIRED could be missed).
    """
    follows, looks = asyncio.Event(), asyncio.Event()
    until_changed = InboxAgents.until_changed

    async def late(self: InboxAgents, address: str, task: InboxTask, seconds: float) -> InboxTask:
        follows.set()
        await looks.wait()
        return await until_changed(self, address, task, seconds)

    monkeypatch.setattr(InboxAgents, "until_changed", late)
    inbox, task = await opened(node), Json()
    if follows_on:
        task = await begun(node, inbox)
        if asks == "before":
            await answered(node, inbox, status="input_required", reply="Which?")
        path, said = f"/a2a/tasks/{task['id']}:subscribe", None
    else:
        path, said = "/a2a/message:stream", {"message": message()}
    following = asyncio.create_task(node.client.post(path_of(inbox, path), json=said))
    async with asyncio.timeout(PATIENCE):
        await follows.wait()
        if asks in {"meanwhile", "in vain"}:
            task = await answered(node, inbox, status="input_required", reply="Which?")
        if asks in {"before", "meanwhile"}:
            await begun(node, inbox, message("That one", taskId=task["id"]))
        if asks == "in vain":
            await node.client.post(path_of(inbox, f"/a2a/tasks/{task['id']}:cancel"))
        else:
            await answered(node, inbox, reply="Yes.")
        looks.set()
        assert kinds_in(await following) == expected


async def test_the_stream_of_a_message_ends_when_the_task_needs_its_sender(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    sending = node.client.post(path_of(inbox, "/a2a/message:stream"), json={"message": message()})
    following = asyncio.create_task(sending)
    await answered(node, inbox, status="input_required", reply="Which?")
    async with asyncio.timeout(PATIENCE):
        *_, last = (line for line in (await following).text.splitlines() if line.startswith("data: "))
    # If the owner was fast enough, the first event, which is the whole task, is also the last one.
    [happened] = json.loads(last.removeprefix("data: ")).values()
    status = happened["status"]
    assert (status["state"], status["message"]["parts"][0]["text"]) == ("TASK_STATE_INPUT_REQUIRED", "Which?")


async def test_a_client_has_one_stream_while_most_of_all_are_taken(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(_: object, most: int) -> float:
        assert most == calls.MAX_TASK_STREAMS
        return 0.95

    monkeypatch.setattr(calls.StreamCount, "taken", taken)
    inbox = await opened(node)
    send, sent = path_of(inbox, "/a2a/message:stream"), {"message": message()}
    following = asyncio.create_task(node.client.post(send, json=sent))
    [held] = (await read(node, inbox, wait=20))["messages"]
    async with asyncio.timeout(PATIENCE):
        subscribed = await node.client.get(path_of(inbox, f"/a2a/tasks/{held['id']}:subscribe"))
        another = await node.client.post(send, json=sent)
    assert [answer.headers["x-error-code"] for answer in (subscribed, another)] == ["quota.stream"] * 2
    assert (await settled(node, inbox, held)).status_code == 200
    assert (await following).status_code == 200


async def test_a_stream_that_does_not_begin_since_nobody_knows_whether_its_message_was_sent_takes_no_place(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> NoReturn:
        raise OutcomeUnknown("the connection broke")

    monkeypatch.setattr(calls.InboxAgents, "send", lost)
    inbox = await opened(node)
    failed = await node.client.post(path_of(inbox, "/a2a/message:stream"), json={"message": message()})
    assert failed.status_code == 503
    assert await node.names("held:*:stream*") == []


async def test_streams_end_when_their_process_stops(served: NodeProcess) -> None:
    inbox = await opened_at(served)
    async with streamed(served, f"{inbox['a2a_url']}/message:stream", {"message": message()}) as (_, events):
        await anext(events)
        served.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert [event async for event in events] == []
    assert await asyncio.to_thread(served.wait) == 0


async def test_a_crowd_that_comes_at_once_gets_no_more_streams_than_there_are(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_TASK_STREAMS", 2)
    inbox = await opened(node)

    async def follow(task: Json, method: str = "GET") -> int:
        path = path_of(inbox, f"/a2a/tasks/{task['id']}:subscribe")
        return (await node.client.request(method, path)).status_code

    async def send(text: str) -> int:
        said = {"message": message(text, messageId=text)}
        return (await node.client.post(path_of(inbox, "/a2a/message:stream"), json=said)).status_code

    async def answers(*crowd: Coroutine[Any, Any, int]) -> list[int]:
        """Return the status of each answer. The owner settles the messages, which ends the streams, once all other
        requests have been answered.
        """
        following = [asyncio.create_task(each) for each in crowd]
        async with asyncio.timeout(PATIENCE):
            for refused in islice(asyncio.as_completed(following), len(crowd) - 2):
                await refused
            for held in (await read(node, inbox, wait=20))["messages"]:
                assert (await settled(node, inbox, held)).status_code == 200
            return sorted(await asyncio.gather(*following))

    task = await begun(node, inbox)
    assert await answers(*(follow(task) for _ in range(6))) == [200] * 2 + [503] * 4
    assert await answers(*(send(f"m{number}") for number in range(6))) == [200] * 2 + [503] * 4
    task = await begun(node, inbox)
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)  # each ends as soon as it has begun
    for _ in range(3):  # streams give back their places however they end
        assert await send("") == 400
        assert await follow(task, "HEAD") == 200
    assert await follow(task) == 200


async def stream_of(node: NodeUnderTest) -> stream.TaskStream:
    """Return a stream of a task that does not change."""
    inbox = await opened(node)
    task = await begun(node, inbox)
    agents = node.services().inbox_agents
    return stream.TaskStream(
        agents, inbox["address"], await agents.get(inbox["address"], task["id"]), bytes, is_whole=True
    )


async def test_a_silent_stream_says_that_it_is_there(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.05)
    heard = asyncio.Event()
    pieces: list[bytes] = []

    async def send(piece: bytes) -> None:
        pieces.append(piece)
        if pieces[1:] == [stream.COMMENT] * 2:
            heard.set()

    running = asyncio.create_task((await stream_of(node)).run(send))
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
    assert not running.done()
    running.cancel()


async def test_a_stream_ends_with_its_time(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0.1)
    pieces: list[bytes] = []

    async def send(piece: bytes) -> None:
        pieces.append(piece)

    async with asyncio.timeout(PATIENCE):
        await (await stream_of(node)).run(send)
    assert [json.loads(piece.removeprefix(b"data: ")).keys() for piece in pieces if piece != stream.COMMENT] == [
        {"task"}
    ]


async def test_no_stream_begins_where_nobody_may_wait(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = await opened(node)
    subscribe = f"{path_of(inbox, '/a2a/tasks/')}{(await begun(node, inbox))['id']}:subscribe"
    monkeypatch.setattr("node.a2a.inboxes.service.InboxAgents.may_wait", False)
    refused = await node.client.get(subscribe)
    assert (refused.status_code, refused.headers["x-error-code"]) == (503, "store.busy")


async def test_what_its_sender_indented_does_not_end_an_event(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    said = message(metadata={"pages": {"first": [1, 2]}})
    body = json.dumps({"message": said, "configuration": {"returnImmediately": True}}, indent=1).replace("\n", "\r\n\n")
    path = path_of(inbox, "/a2a/message:send")
    sent = await node.client.post(path, content=body, headers={"content-type": "application/json"})
    task_id = sent.json()["task"]["id"]
    await node.client.post(path_of(inbox, f"/a2a/tasks/{task_id}:cancel"))
    agents = node.services().inbox_agents
    task = await agents.get(inbox["address"], task_id)
    pieces: list[bytes] = []

    async def send(piece: bytes) -> None:
        pieces.append(piece)

    await stream.TaskStream(agents, inbox["address"], task, bytes, is_whole=True).run(send)
    [event] = b"".join(pieces).split(b"\n\n")[:-1]
    assert json.loads(event.removeprefix(b"data: "))["task"]["history"][0]["metadata"] == said["metadata"]


async def test_a_client_that_does_not_read_loses_its_stream(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.web.streams.SEND_SECONDS", 0.05)

    async def send(_: bytes) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE):
        await (await stream_of(node)).run(send)


async def gone_on(node: NodeUnderTest, inbox: Json) -> Json:
    """Return a task of two messages, the first of which its owner has answered."""
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    return await begun(node, inbox, message(messageId="second", taskId=task["id"]))


def kept_of(task: Json) -> list[InboxTurn]:
    """Return the objects that the process keeps for the first message of a task."""
    return [each for each in living(InboxTurn) if each.id == task["id"]]


async def test_of_the_messages_of_a_task_a_stream_keeps_only_the_last(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    task = await gone_on(node, inbox)
    agents = node.services().inbox_agents
    pieces: list[bytes] = []
    has_begun = asyncio.Event()

    async def send(piece: bytes) -> None:
        pieces.append(piece)
        has_begun.set()

    follows = stream.TaskStream(
        agents, inbox["address"], await agents.get(inbox["address"], task["id"]), bytes, is_whole=True
    )
    running = asyncio.create_task(follows.run(send))
    async with asyncio.timeout(PATIENCE):
        await has_begun.wait()
    assert len(json.loads(pieces[0].removeprefix(b"data: "))["task"]["history"]) == 3
    assert kept_of(task) == []
    running.cancel()


async def test_of_the_messages_of_a_task_a_request_that_waits_keeps_only_the_last(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    task = await begun(node, inbox)
    await answered(node, inbox, status="input_required", reply="Which?")
    waits = asyncio.Event()
    wait = InboxTasks.wait

    async def noted(*args: Any) -> InboxTask:
        waits.set()
        return await wait(*args)

    monkeypatch.setattr(InboxTasks, "wait", noted)
    said = {"message": message(messageId="second", taskId=task["id"])}
    blocking = asyncio.create_task(node.client.post(path_of(inbox, "/a2a/message:send"), json=said))
    async with asyncio.timeout(PATIENCE):
        await waits.wait()
        assert kept_of(task) == []
        await answered(node, inbox, status="done", reply="Yes.")
        assert len((await blocking).json()["task"]["history"]) == 3
