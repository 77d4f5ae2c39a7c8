"""A single event stream: what it sends while nothing happens, and when it ends (NETWORK 3)."""

import asyncio
import json
import weakref
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from node.events import stream
from node.events.feed import FeedEntry, FeedStore
from node.events.model import EventQuery
from node.events.service import Events, Topic
from node.events.source import START, CursorTooOld, EventBatch, Position, SourceEvent, cursor_of
from node.events.stream import READ_FIRST, EventStream
from node.inbox.model import InboxProof
from node.web.http import ASGIMessage
from node.web.streams import PIECE_BYTES, BodySender
from tests.events.test_events_api import ENGLISH, page, post
from tests.support.http_scope import HOST, http_scope
from tests.support.node_under_test import PATIENCE, NodeUnderTest
from tests.support.servers import eventually

STREAM: dict[str, Any] = {"params": {"topic": "board"}, "headers": {"accept": "text/event-stream"}}
"""Query and headers of a request for a stream."""


class Client:
    """Stands in for a connection: it accepts what is sent, unless it is `stalled`."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.stalled = False

    def begin(self, piece: bytes) -> asyncio.Future[None] | None:
        self.pieces.append(piece)
        return asyncio.get_running_loop().create_future() if self.stalled else None

    async def __call__(self, piece: bytes) -> None:
        if sending := self.begin(piece):
            await sending

    @property
    def notices(self) -> list[dict[str, Any]]:
        """Return the received lines of JSON."""
        return [json.loads(piece) for piece in self.pieces]


@asynccontextmanager
async def followed(events: Events, client: Any, topic: str, types: str = "") -> AsyncGenerator["asyncio.Task[None]"]:
    """Run a stream of lines to a client. It has begun when the block begins, and must have left when the block has
    ended.
    """
    following = events.topic(EventQuery(topic, types), InboxProof())
    running = asyncio.create_task(EventStream(following, "ndjson", await following.begin("now", 1)).run(client))

    await eventually(lambda: running.done() or events.followers()["thread"] == 1)
    try:
        async with asyncio.timeout(PATIENCE):
            yield running
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert events.followers()["thread"] == 0


async def session_of(node: NodeUnderTest, lines: int) -> str:
    """Create a session with lines of 60,000 characters."""
    session = (await post(node, "/api/v1/sessions", {}))["session_id"]
    await add_lines(node, session, lines)
    return session


async def add_lines(node: NodeUnderTest, session: str, lines: int) -> None:
    for _ in range(lines):
        await post(node, f"/api/v1/sessions/{session}/messages", {"body": "x" * 60_000})


@pytest.fixture
def events(node: NodeUnderTest) -> Events:
    return node.services().events


async def test_a_silent_stream_says_how_far_it_has_got(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.02)
    thread = await post(node, "/api/v1/board", ENGLISH)
    topic, client = f"thread:{thread['id']}", Client()
    async with followed(events, client, topic, types="thread.closed"):
        began = (await page(node, topic))["cursor"]
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": "I can do it, says the agent."})
        after = (await page(node, topic))["cursor"]

        await eventually(lambda: client.notices[-1]["id"] == after)
    assert {notice["type"] for notice in client.notices} == {"heartbeat"}
    assert (client.notices[0]["id"], began != after) == (began, True)


async def test_a_silent_stream_ends_with_its_time(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0.2)
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 2 * PATIENCE)
    thread, client = await post(node, "/api/v1/board", ENGLISH), Client()
    async with followed(events, client, f"thread:{thread['id']}") as running:
        await running
    assert len(client.pieces) == 1


async def test_a_client_that_does_not_read_loses_its_stream(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SEND_SECONDS", 0.05)
    thread, client = await post(node, "/api/v1/board", ENGLISH), Client()
    async with followed(events, client, f"thread:{thread['id']}") as running:
        client.stalled = True
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": "I can do it, says the agent."})
        await running
    assert len(client.pieces) == 2


async def test_streams_that_have_ended_take_no_place_of_their_process(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)
    monkeypatch.setattr("node.events.api.MAX_STREAMS", 1)
    for _ in range(2):
        assert (await node.client.get("/api/v1/events", **STREAM)).status_code == 200
    monkeypatch.setattr("node.events.api.MAX_STREAMS", 0)
    full = await node.client.get("/api/v1/events", **STREAM)
    assert (full.status_code, full.headers["x-error-code"]) == (503, "store.busy")
    assert await node.names("held:*") == []


async def test_the_more_streams_are_open_the_fewer_a_client_may_have(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two hundred addresses could take all streams of a process."""
    monkeypatch.setattr("node.events.api.MAX_STREAMS", 20)
    left = asyncio.Event()
    streams: list[asyncio.Task[None]] = []

    async def receive() -> ASGIMessage:
        await left.wait()
        return {"type": "http.disconnect"}

    async def opened(address: str) -> int:
        """Return how many of ten streams a client gets."""
        statuses: list[int] = []
        started = asyncio.Event()

        async def send(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                started.set()

        accept = (b"accept", b"text/event-stream")
        for _ in range(10):
            scope = http_scope("GET", "/api/v1/events", HOST, accept, client=address) | {"query_string": b"topic=board"}
            started.clear()
            streams.append(asyncio.create_task(node.app(scope, receive, send)))
            await started.wait()
        assert set(statuses) <= {200, 429, 503}
        return statuses.count(200)

    try:
        async with asyncio.timeout(PATIENCE):
            assert [await opened(f"203.0.113.{number}") for number in range(1, 9)] == [10, 4, 2, 1, 1, 1, 1, 0]
    finally:
        left.set()
        await asyncio.gather(*streams)
    assert await node.names("held:*") == []


async def test_no_stream_begins_in_a_process_that_is_about_to_stop(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)  # a stream that begins nevertheless ends at once
    monkeypatch.setattr(Topic, "has_ended", True)
    refused = await node.client.get("/api/v1/events", **STREAM)
    assert (refused.status_code, refused.headers["x-error-code"]) == (503, "store.busy")
    assert (await node.client.get("/api/v1/events", params={"topic": "board"})).status_code == 200


async def test_what_is_larger_than_a_piece_is_sent_in_several_whether_it_was_there_or_comes(
    node: NodeUnderTest, events: Events
) -> None:
    session, client = await session_of(node, 3), Client()
    following = events.topic(EventQuery(f"session:{session}"), InboxProof())
    first = await following.begin("earliest", 1)
    running = asyncio.create_task(EventStream(following, "ndjson", first).run(cast("BodySender", client)))

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(client.pieces).splitlines()]

    await eventually(lambda: events.followers()["session"] == 1)
    await add_lines(node, session, 3)
    await eventually(lambda: b"".join(client.pieces).endswith(b"}\n") and len(lines()) == 7)
    assert [line["data"]["seq"] for line in lines() if line["type"] == "session.line"] == [1, 2, 3, 4, 5, 6]
    assert max(map(len, client.pieces)) == PIECE_BYTES
    running.cancel()
    await asyncio.wait({running})


async def test_a_stream_that_catches_up_reads_a_few_large_events_at_a_time(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, client, asked = await session_of(node, 12), Client(), list[int]()
    following = events.topic(EventQuery(f"session:{session}"), InboxProof())
    read = following.source.read

    async def noted(after: Position, limit: int, types: Collection[str]) -> EventBatch:
        asked.append(limit)
        return await read(after, limit, types)

    monkeypatch.setattr(following.source, "read", noted)
    first = await following.begin("earliest", READ_FIRST)
    running = asyncio.create_task(EventStream(following, "ndjson", first).run(cast("BodySender", client)))

    await eventually(lambda: events.followers()["session"] == 1)
    assert asked[:2] == [READ_FIRST, 4]
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("sent", [1, 3], ids=["in the middle", "with the last event"])
async def test_a_stream_that_catches_up_ends_when_its_process_is_about_to_stop(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    session, client = await session_of(node, 3), Client()
    following = events.topic(EventQuery(f"session:{session}"), InboxProof())
    first = await following.begin("earliest", READ_FIRST)
    begin = client.begin

    def stopped_after(piece: bytes) -> asyncio.Future[None] | None:
        if len(client.pieces) == 2 * sent - 1:  # after the first heartbeat, each event comes in two pieces
            events.end()
        return begin(piece)

    monkeypatch.setattr(client, "begin", stopped_after)
    async with asyncio.timeout(PATIENCE):
        await EventStream(following, "sse", first).run(cast("BodySender", client))
    assert client.pieces[-1].startswith(b"retry: ")
    assert len(client.pieces) == 2 * sent + 2


async def test_a_stream_that_catches_up_ends_with_its_time(
    node: NodeUnderTest, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)
    session, client = await session_of(node, 3), Client()
    following = events.topic(EventQuery(f"session:{session}"), InboxProof())
    first = await following.begin("earliest", READ_FIRST)
    await EventStream(following, "ndjson", first).run(cast("BodySender", client))
    assert [notice["type"] for notice in client.notices] == ["heartbeat"]


class Content(msgspec.Struct, weakref=True):
    """Content of an event."""

    body: str


async def test_a_stream_that_follows_keeps_nothing_of_the_events_that_it_began_with(
    node: NodeUnderTest, events: Events
) -> None:
    thread, client = await post(node, "/api/v1/board", ENGLISH), Client()
    following = events.topic(EventQuery(f"thread:{thread['id']}"), InboxProof())
    now = await following.begin("now", 1)
    content = Content("x" * PIECE_BYTES)
    kept = weakref.ref(content)
    event = SourceEvent(now.position, "thread.closed", "2026-11-21T08:00:00.123Z", content)
    begun = EventStream(following, "ndjson", EventBatch([event], now.position, now.position, has_more=False))
    del content, event
    running = asyncio.create_task(begun.run(cast("BodySender", client)))

    await eventually(lambda: events.followers()["thread"] == 1)
    assert b"x" * PIECE_BYTES in b"".join(client.pieces)
    assert kept() is None
    running.cancel()
    await asyncio.wait({running})


async def test_nothing_is_left_of_a_stream_whose_client_has_gone(
    node: NodeUnderTest, events: Events, without_collector: None
) -> None:
    """Streams last for minutes, and the collector looks at such old objects last of all."""
    thread, client = await post(node, "/api/v1/board", ENGLISH), Client()
    left = weakref.ref(client)
    following = events.topic(EventQuery(f"thread:{thread['id']}"), InboxProof())
    first = await following.begin("now", 1)
    running = asyncio.create_task(EventStream(following, "ndjson", first).run(cast("BodySender", client)))

    await eventually(lambda: events.followers()["thread"] == 1)
    running.cancel()
    await asyncio.wait({running})
    del running, client
    assert left() is None


async def test_what_is_trimmed_again_before_a_stream_begins_is_no_error(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An EventSource gives up on any status but 200. The feed may lose its oldest events between two reads."""
    monkeypatch.setattr(stream, "STREAM_SECONDS", 0)
    oldest = [(1, 0), (2, 0), (3, 0)]

    async def trimmed(_: FeedStore, after: Position, count: int) -> list[FeedEntry]:
        if later := [position for position in oldest if position > after]:
            raise CursorTooOld(later[0])
        return []

    monkeypatch.setattr(FeedStore, "read", trimmed)
    headers = STREAM["headers"] | {"last-event-id": cursor_of("feed", START)}
    answer = await node.client.get("/api/v1/events", params=STREAM["params"], headers=headers)
    assert answer.status_code == 200, answer.text
    first = json.loads(answer.text.partition("data: ")[2].partition("\n")[0])
    assert (first["type"], first["id"]) == ("reset", cursor_of("feed", oldest[-1]))
