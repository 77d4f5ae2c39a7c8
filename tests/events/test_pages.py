"""What a page of events says about those that follow, and what remains of a page after it was answered."""

import asyncio
from typing import Any, cast

import pytest

from node.board.store import BoardStore
from node.events.feed import FeedCopier
from node.events.source import cursor_of
from node.store import ids, keys
from node.store.decoding import entry_id, fields_of
from node.store.outbox import Event
from tests.events.test_events_api import ENGLISH, page, post
from tests.support.node_under_test import NodeUnderTest, until

OFFER = {"publisher_id": "desk", "title": "Count the apples in this picture"}


async def copy(node: NodeUnderTest) -> None:
    """Copy everything that has happened to the feed in one step, as a worker that was away does."""
    found: list[Event] = []
    for partition in range(ids.PARTITIONS):
        entries = await node.store.command("XRANGE", keys.events(partition), "-", "+")
        for entry, flat in cast("list[tuple[bytes, list[bytes]]]", entries):
            fields = fields_of(flat)
            found.append(Event(entry.decode(), partition, fields[b"type"].decode(), fields[b"id"].decode(), {}))
    await FeedCopier(node.store, 1000).handle([max(found, key=lambda event: entry_id(event.id))])


async def oldest_cursor(node: NodeUnderTest, topic: str, cursor: str) -> str:
    """Return where a reader continues whose cursor is refused because events after it are gone."""
    answer = await node.client.get("/api/v1/events", params={"topic": topic, "cursor": cursor})
    assert (answer.status_code, answer.headers["x-error-code"]) == (410, "cursor.too_old")
    return answer.headers["oldest-cursor"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_who_waits_gets_as_many_as_it_wants_of_those_that_come_together(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("node.events.broadcast.POLL_SECONDS", 1000.0)
    # An unused channel is unsubscribed after a few of these intervals.
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)
    threads = [(await post(node, "/api/v1/board", ENGLISH))["id"] for _ in range(2)]
    waiting = asyncio.create_task(page(node, "board", wait=20, limit=limit))
    await node.listened_to(keys.FEED)
    await copy(node)
    first = await waiting
    rest = await page(node, "board", cursor=first["cursor"])
    assert (len(first["events"]), first["has_more"]) == (limit, limit < 2)
    assert [event["data"]["id"] for event in first["events"] + rest["events"]] == threads

    async def nobody_listens() -> bool:
        return await node.store.command("PUBSUB", "SHARDNUMSUB", keys.FEED) == [keys.FEED.encode(), 0]

    await until(nobody_listens)


async def test_who_would_wait_gets_what_is_there_already(node: NodeUnderTest) -> None:
    thread = await post(node, "/api/v1/board", ENGLISH)
    await copy(node)
    for topic in ("board", f"thread:{thread['id']}"):
        got = await page(node, topic, cursor="earliest", wait=1)
        assert [event["data"]["id"] for event in got["events"]] == [thread["id"]], topic


async def test_a_page_of_some_types_says_that_more_of_them_follow(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, thread = [await post(node, "/api/v1/board", ENGLISH) for _ in range(2)]
    for number in range(2):
        await post(node, f"/api/v1/board/{thread['id']}/replies", {"body": f"I can do it, says agent {number}."})
    await copy(node)
    wanted: dict[str, Any] = {"types": "reply.added", "limit": 1}
    first = await page(node, "board", cursor="earliest", **wanted)
    second = await page(node, "board", cursor=first["cursor"], **wanted)
    assert [got["events"][0]["data"]["seq"] for got in (first, second)] == [1, 2]
    assert (first["has_more"], second["has_more"]) == (True, False)
    task = await post(node, "/api/v1/tasks", OFFER)
    await post(node, f"/api/v1/tasks/{task['id']}/claim", {"assignee_id": "agent"})
    await BoardStore(node.store, idempotency_ttl=60).close(thread["id"])
    await copy(node)
    for topic, types in (
        ("board", "reply.added"),
        ("tasks", "task.offered"),
        (f"task:{task['id']}", "task.offered"),
        (f"thread:{thread['id']}", "thread.posted"),
    ):
        cursor = first["cursor"] if topic == "board" else "earliest"
        last = await page(node, topic, cursor=cursor, types=types, limit=1)
        assert (len(last["events"]), last["has_more"]) == (1, False), f"only others follow in {topic}"
    monkeypatch.setattr("node.events.sources.SCANNED_AT_ONCE", 1)
    looked = await page(node, "board", cursor="earliest", **wanted)
    assert (looked["events"], looked["has_more"]) == ([], True)


async def test_who_waits_for_what_ends_is_told_so_as_by_every_other_read(node: NodeUnderTest) -> None:
    """The answer must not be a page without events, so that the reader learns of the end only with its next request."""
    session, inbox = await post(node, "/api/v1/sessions", {}), await post(node, "/api/v1/inboxes", {})
    owner = {"Authorization": f"Bearer {inbox['inbox_token']}"}

    async def follow(topic: str) -> Any:
        return await node.client.get("/api/v1/events", params={"topic": topic, "wait": 20}, headers=owner, timeout=40)

    of_session = asyncio.create_task(follow(f"session:{session['session_id']}"))
    of_inbox = asyncio.create_task(follow(f"inbox:{inbox['address']}"))
    await node.listened_to(keys.session(session["session_id"]))
    await node.listened_to(keys.inbox(inbox["address"]))
    token = {"destroy_token": session["destroy_token"]}
    await post(node, f"/api/v1/sessions/{session['session_id']}/destroy", token)
    await node.client.delete(f"/api/v1/inboxes/{inbox['address']}", headers=owner)
    codes = [(each.status_code, each.headers["x-error-code"]) for each in (await of_session, await of_inbox)]
    assert codes == [(404, "session.gone"), (404, "inbox.unknown")]


@pytest.mark.parametrize("kind", ["board", "thread", "closed thread", "session", "inbox"])
async def test_a_page_that_is_full_says_that_more_follow_only_if_they_do(node: NodeUnderTest, kind: str) -> None:
    topic, headers = "board", {}
    if "session" in kind:
        session = (await post(node, "/api/v1/sessions", {}))["session_id"]
        topic = f"session:{session}"
        for number in range(4):
            await post(node, f"/api/v1/sessions/{session}/messages", {"body": f"Line {number}"})
    elif "inbox" in kind:
        inbox = await post(node, "/api/v1/inboxes", {})
        topic, headers = f"inbox:{inbox['address']}", {"Authorization": f"Bearer {inbox['inbox_token']}"}
        for number in range(4):
            await post(node, f"/api/v1/inboxes/{inbox['address']}/messages", {"body": f"Message {number}"})
    else:
        thread = (await post(node, "/api/v1/board", ENGLISH))["id"]
        topic = f"thread:{thread}" if "thread" in kind else topic
        for number in range(2 if "closed" in kind else 3):
            await post(node, f"/api/v1/board/{thread}/replies", {"body": f"I can do it, says agent {number}."})
        if "closed" in kind:
            await BoardStore(node.store, idempotency_ttl=60).close(thread)
        await copy(node)
    for limit in (1, 2, 4):
        pages: list[tuple[int, bool]] = []
        cursor = "earliest"
        while len(pages) < 4 // limit:
            query = {"topic": topic, "cursor": cursor, "limit": limit}
            got = (await node.client.get("/api/v1/events", params=query, headers=headers)).json()
            pages.append((len(got["events"]), got["has_more"]))
            cursor = got["cursor"]
        assert pages == [(limit, True)] * (4 // limit - 1) + [(limit, False)]  # the last page says that no more follow


async def test_a_page_of_an_inbox_marks_only_what_it_shows_as_read(node: NodeUnderTest) -> None:
    inbox = await post(node, "/api/v1/inboxes", {})
    path = f"/api/v1/inboxes/{inbox['address']}/messages"
    sent = [await post(node, path, {"body": f"Message {number}"}) for number in range(2)]
    query = {"topic": f"inbox:{inbox['address']}", "cursor": "earliest", "limit": 1}
    await node.client.get("/api/v1/events", params=query, headers={"Authorization": f"Bearer {inbox['inbox_token']}"})
    receipts = [
        await node.client.get(f"{path}/{each['id']}", headers={"Authorization": f"Bearer {each['receipt_token']}"})
        for each in sent
    ]
    assert [receipt.json()["status"] for receipt in receipts] == ["read", "queued"]


async def test_a_page_of_a_contract_says_that_more_changes_follow(node: NodeUnderTest) -> None:
    task = await post(node, "/api/v1/tasks", OFFER)
    await post(node, f"/api/v1/tasks/{task['id']}/claim", {"assignee_id": "agent"})
    topic = f"task:{task['id']}"
    first = await page(node, topic, cursor="earliest", limit=1)
    rest = await page(node, topic, cursor=first["cursor"], limit=1)
    assert [got["events"][0]["type"] for got in (first, rest)] == ["task.offered", "task.claimed"]
    assert (first["has_more"], rest["has_more"]) == (True, False)


async def test_who_has_seen_more_changes_than_a_contract_has_begins_at_the_oldest(node: NodeUnderTest) -> None:
    topic = f"task:{(await post(node, '/api/v1/tasks', OFFER))['id']}"
    assert await oldest_cursor(node, topic, cursor_of(topic, (0, 2))) == cursor_of(topic, (0, 0))


async def test_who_has_seen_lines_that_a_failover_lost_goes_on_from_those_that_are_there(node: NodeUnderTest) -> None:
    session = (await post(node, "/api/v1/sessions", {}))["session_id"]
    topic, path = f"session:{session}", f"/api/v1/sessions/{session}/messages"
    for number in range(2):
        await post(node, path, {"body": f"line {number}"})
    seen = await page(node, topic)
    await node.store.command("DEL", keys.lines(session))
    there = await oldest_cursor(node, topic, seen["cursor"])
    await post(node, path, {"body": "line again"})
    assert [event["data"]["seq"] for event in (await page(node, topic, cursor=there))["events"]] == [1]


async def test_a_client_has_so_many_places_to_wait_for_events(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.web.waiting_places.MAX_WAITING_PER_CLIENT", 1)
    query = {"topic": "board", "wait": 30}
    waiting = asyncio.create_task(node.client.get("/api/v1/events", params=query, timeout=40))
    await node.listened_to(keys.FEED)
    another = await node.client.get("/api/v1/events", params=query, timeout=40)
    assert (another.status_code, another.headers["x-error-code"]) == (429, "limit.waiting")
    waiting.cancel()
