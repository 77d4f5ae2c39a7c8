"""When memory or the node's totals run out, new sessions and threads are refused first, and everything else goes on."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from node.config import Limit, Limits
from node.observe.memory import MemoryAlarm, memory_of
from node.share.capacity import Capacity
from node.share.cost import Alarm, refused_from
from node.share.site import SITE_SHARE
from node.store import CommandFailed, StoreUnavailable, keys
from tests.inbox.calls import opened, sent, settled
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.tasks.calls import act, offered

FREE = every_limit(100_000, 1)
MAXMEMORY = 96 * 2**20
GIB = 2**30
THREAD = {"title": "Looking for a parser", "body": "Who can parse a large table in a sandbox?"}
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}}
ARTIFACT = {"publisher_id": "p", "media_type": "text/csv", "text": "name,size\nrelay,1\n"}


@pytest.fixture
def small(tmp_path: Path) -> Any:
    """A separate server with little memory."""
    with RedisServer(tmp_path / "redis", "--maxmemory", str(MAXMEMORY), "--maxmemory-policy", "noeviction") as server:
        yield server


@pytest_asyncio.fixture
async def full_node(small: RedisServer) -> AsyncGenerator[NodeUnderTest]:
    async with running(settings_for(small.url, limits=FREE)) as node:
        yield node


def fill(server: RedisServer, share: float) -> None:
    """Fill the memory up to this share."""
    server.do("SET", "filling", "")
    used = memory_of(_info(server)).used
    missing = int(MAXMEMORY * share) - used
    server.do("SETRANGE", "filling", missing, "x")


def _info(server: RedisServer) -> bytes:
    facts = server.info("memory")
    return "\r\n".join(f"{name}:{value}" for name, value in facts.items()).encode()


async def post(node: NodeUnderTest, path: str, body: Any) -> tuple[int, str | None]:
    response = await node.client.post(path, json=body)
    if response.status_code == 503:
        assert int(response.headers["retry-after"]) > 0
    return response.status_code, response.headers.get("x-error-code")


async def is_refused(node: NodeUnderTest, path: str, body: Any) -> bool:
    """Send a request, and return whether it was refused for lack of memory."""
    status, code = await post(node, f"/api/v1/{path}", body)
    assert status < 300 or (status, code) == (503, "memory.low"), path
    return status == 503


async def health(node: NodeUnderTest) -> str:
    return (await node.client.get("/health")).json()["memory"]


async def test_what_begins_something_is_refused_first_and_taken_again(
    full_node: NodeUnderTest, small: RedisServer
) -> None:
    """Follows the table in docs/operations.md row by row. The first request of each row is repeated until it is
    refused.
    """
    node, relay = full_node, {"message": "Who can read a long report?"}
    session = (await node.client.post("/api/v1/sessions", json={})).json()
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    inbox, task = await opened(node), await offered(node)
    message = await sent(node, inbox)
    rows: list[tuple[float, list[tuple[str, dict[str, Any]]]]] = [
        (0.82, [("relay", relay), ("sessions", {}), ("inboxes", {}), ("board", THREAD)]),
        (
            0.92,
            [
                ("message:send", MESSAGE),
                ("tasks", {"publisher_id": "p", "title": "Read a report"}),
                ("artifacts/inline", ARTIFACT),
                ("agents", {"url": "https://agents.example/card.json"}),
                ("relay", relay | {"public": False}),
                (f"inboxes/{inbox['address']}/messages", {"body": "Hello"}),
            ],
        ),
        (
            0.96,
            [
                (f"sessions/{session['session_id']}/messages", {"body": "a line"}),
                (f"board/{thread['id']}/replies", {"body": "I can do that for you"}),
                ("feedback", {"feedback_text": "The search finds my threads quickly."}),
                (f"board/{thread['id']}/report", {"reason": "spam"}),
            ],
        ),
    ]
    assert await health(node) == "ok"
    for share, row in rows:
        fill(small, share)
        await until(partial(is_refused, node, *row[0]))
        assert await health(node) == "low"
        for first_share, requests in rows:
            for path, body in requests:
                assert await is_refused(node, path, body) == (first_share <= share), (path, share)
    claim = (await act(node, task, "claim", assignee_id="ann")).json()
    assert (await act(node, task, "complete", claim_token=claim["claim_token"])).status_code == 200
    assert (await settled(node, inbox, message)).status_code == 200

    small.do("DEL", "filling")

    async def is_ok() -> bool:
        return await health(node) == "ok"

    await until(is_ok)
    for _, requests in rows:
        assert not [path for path, body in requests if await is_refused(node, path, body)]


async def test_the_alarm_does_not_flutter(full_node: NodeUnderTest, small: RedisServer) -> None:
    capacity = Capacity()
    watch = MemoryAlarm(full_node.store, full_node.settings, capacity)
    for share, stage in (
        (0.78, Alarm.NEVER),
        (0.82, Alarm.FIRST),
        (0.77, Alarm.FIRST),
        (0.92, Alarm.SECOND),
        (0.87, Alarm.SECOND),
        (0.96, Alarm.THIRD),
        (0.92, Alarm.THIRD),
        (0.72, Alarm.NEVER),
    ):
        small.do("DEL", "filling")
        fill(small, share)
        await watch.look()
        assert set(capacity.refused) == set(refused_from(stage)), share


@pytest.mark.parametrize(
    ("info", "limit", "share"),
    [
        (b"used_memory:50\r\nmaxmemory:100\r\n", 0, 0.5),
        (b"used_memory:50\r\n", 0, 0.0),
        (b"used_memory:50\r\n", 100, 0.5),
        (b"used_memory:50\r\nmaxmemory:0\r\n", 0, 0.0),
        (b"used_memory:50\r\nmaxmemory:0\r\n", 200, 0.25),
        (b"used_memory:50\r\nmaxmemory:100\r\nmem_not_counted_for_evict:30\r\n", 200, 0.2),
        (b"used_memory:50\r\nmaxmemory:100\r\nmem_not_counted_for_evict:60\r\n", 0, 0.0),
    ],
)
def test_a_share_is_of_maxmemory_or_of_the_setting(info: bytes, limit: int, share: float) -> None:
    assert memory_of(info, limit).share == share


async def test_the_fullest_primary_counts(full_node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    async def everywhere(*_command: object) -> list[bytes]:
        return [b"used_memory:1\r\nmaxmemory:100\r\n", b"used_memory:85\r\nmaxmemory:100\r\n"]

    monkeypatch.setattr(full_node.store, "everywhere", everywhere)
    capacity = Capacity()
    await MemoryAlarm(full_node.store, full_node.settings, capacity).look()
    assert set(capacity.refused) == set(refused_from(Alarm.FIRST))


def told(monkeypatch: pytest.MonkeyPatch, node: NodeUnderTest, *percents: float) -> None:
    """Make Redis report primaries of one GiB, with these percentages in use."""

    async def everywhere(*_command: object) -> list[bytes]:
        return [b"used_memory:%d\r\nmaxmemory:%d\r\n" % (share * GIB // 100, GIB) for share in percents]

    monkeypatch.setattr(node.store, "everywhere", everywhere)


async def test_without_an_alarm_nothing_is_refused(full_node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, full_node, 99)
    capacity = Capacity()
    settings = msgspec.structs.replace(full_node.settings, memory_alarm=0)
    await MemoryAlarm(full_node.store, settings, capacity).look()
    assert capacity.refused == {}


async def test_a_client_gets_a_share_of_what_is_free_below_the_alarm_on_the_fullest_primary(
    full_node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, full_node, 10, 70)
    capacity = Capacity()
    settings = msgspec.structs.replace(full_node.settings, memory_alarm=80, client_share=50, client_bytes=GIB)
    await MemoryAlarm(full_node.store, settings, capacity).look()
    assert capacity.allowance == pytest.approx(GIB * 0.05, rel=0.001)
    without_alarm = msgspec.structs.replace(settings, memory_alarm=0)
    await MemoryAlarm(full_node.store, without_alarm, capacity).look()
    assert capacity.allowance == pytest.approx(GIB * 0.15, rel=0.001)


async def test_a_change_is_logged_once(full_node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    alarm = MemoryAlarm(full_node.store, full_node.settings, Capacity(), logs=True)
    with capture_logs() as logs:
        for share in (10, 85, 85, 10, 10):
            told(monkeypatch, full_node, share)
            await alarm.look()
    assert [line["log_level"] for line in logs if line["event"] == "capacity"] == ["warning", "info"]


async def test_while_redis_tells_nothing_the_last_decision_holds(
    full_node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity, stop = Capacity(), asyncio.Event()
    alarm = MemoryAlarm(full_node.store, full_node.settings, capacity, logs=True)
    told(monkeypatch, full_node, 85)
    await alarm.look()
    refused = capacity.refused
    gone, denied = StoreUnavailable("gone"), CommandFailed("NOPERM")
    failures = iter((gone, denied, denied, None, denied, gone))
    tells = full_node.store.everywhere

    def times_said() -> int:
        return [line["event"] for line in logs].count("memory is not watched: redis refuses to tell it")

    async def everywhere(*command: str) -> object:
        failure = next(failures)
        if failure is None:
            return await tells(*command)
        if failure is gone and times_said() == 2:
            stop.set()
        raise failure

    monkeypatch.setattr(full_node.store, "everywhere", everywhere)
    monkeypatch.setattr("node.observe.memory.LOOK_SECONDS", 0)
    with capture_logs() as logs:
        await alarm.run(stop)
    assert refused
    assert capacity.refused == refused
    # One warning, and none until the next change.
    assert times_said() == 2


async def test_totals_of_the_node_are_held(empty_redis: RedisServer) -> None:
    settings = settings_for(empty_redis.url, limits=FREE, max_sessions=2, max_inboxes=1, max_threads=1, max_tasks=1)
    async with running(settings) as node:
        ended = keys.places_of_all(3, "session"), keys.places_of_all(3, "inbox")
        for place in ended:
            await node.store.command("ZADD", place, 1, "one that ended long ago")
            await node.store.command("EXPIRE", place, 600)
        await post(node, "/api/v1/sessions", {})
        capacity = Capacity()
        await MemoryAlarm(node.store, settings, capacity).look()
        assert capacity.refused == {}
        assert capacity.taken == {"session": 0.5, "inbox": 0, "thread": 0, "task": 0}
        assert (await post(node, "/api/v1/sessions", {}))[0] == 201
        assert (await post(node, "/api/v1/inboxes", {}))[0] == 201
        assert (await post(node, "/api/v1/board", THREAD))[0] == 201
        await offered(node)
        await MemoryAlarm(node.store, settings, capacity).look()
        assert capacity.refused == dict.fromkeys(("session", "inbox", "thread", "task"), "node.full")
        assert not capacity.is_memory_low


@pytest.mark.settings(limits=FREE, client_sessions=2)
async def test_a_client_may_hold_so_many_sessions(node: NodeUnderTest) -> None:
    first = (await node.client.post("/api/v1/sessions", json={"ttl_seconds": 600})).json()
    key = {"idempotency-key": "k"}
    assert (await node.client.post("/api/v1/sessions", json={}, headers=key)).status_code == 201
    response = await node.client.post("/api/v1/sessions", json={})
    assert (response.status_code, response.headers["x-error-code"]) == (429, "quota.session")
    assert 300 <= int(response.headers["retry-after"]) <= 600
    assert (await node.client_at("203.0.113.8").post("/api/v1/sessions", json={})).status_code == 201
    destroyed = {"destroy_token": first["destroy_token"]}
    assert (await post(node, f"/api/v1/sessions/{first['session_id']}/destroy", destroyed))[0] == 200
    assert (await post(node, "/api/v1/sessions", {}))[0] == 201


@pytest.mark.settings(limits=FREE, client_sessions=1)
async def test_a_session_that_is_not_opened_does_not_count(node: NodeUnderTest) -> None:
    for _ in range(2):
        assert (await post(node, "/api/v1/sessions", {"label": "two\nlines"}))[0] == 422
    assert (await post(node, "/api/v1/sessions", {}))[0] == 201


@pytest.mark.settings(limits=FREE, client_threads=1, client_tasks=1)
async def test_a_client_may_post_and_offer_so_much_a_day(node: NodeUnderTest) -> None:
    assert (await post(node, "/api/v1/board", THREAD))[0] == 201
    assert await post(node, "/api/v1/board", THREAD) == (429, "quota.board")
    await offered(node)
    assert await post(node, "/api/v1/tasks", {"publisher_id": "p", "title": "Read"}) == (429, "quota.task")


@pytest.mark.settings(limits=FREE, client_threads=1)
async def test_clients_of_one_site_may_post_so_much_a_day_together(node: NodeUnderTest) -> None:
    clients = [node.client_at(f"2001:db8:1:{number:x}::1") for number in range(SITE_SHARE + 1)]
    posted = [await client.post("/api/v1/board", json=THREAD) for client in (*clients, node.client)]
    assert [answer.status_code for answer in posted] == [201] * SITE_SHARE + [429, 201]
    assert posted[SITE_SHARE].headers["x-error-code"] == "quota.board"


@pytest.mark.settings(limits=Limits(board=Limit(3, 600)), client_threads=1)
async def test_nobody_tries_the_gate_for_free_with_threads_that_there_is_no_room_for(node: NodeUnderTest) -> None:
    sent = [await post(node, "/api/v1/board", THREAD) for _ in range(4)]
    assert sent[0][0] == 201
    assert sent[1:] == [(429, "quota.board"), (429, "quota.board"), (429, "limit.exceeded")]


@pytest.mark.settings(limits=FREE, client_threads=2)
@pytest.mark.parametrize(
    ("refused", "headers"),
    [
        ({"body": " "}, {}),
        ({"body": "¿Quién puede ayudarme?"}, {}),
        ({}, {"idempotency-key": ""}),
        ({}, {"signature-input": "nonsense"}),
        ({"body": "Is this another one?"}, {"idempotency-key": "first"}),
        ({"callback_url": "http://127.0.0.1/"}, {}),
    ],
)
async def test_a_thread_that_is_not_posted_does_not_count(
    node: NodeUnderTest, refused: dict[str, str], headers: dict[str, str]
) -> None:
    key = {"idempotency-key": "first"}
    assert (await node.client.post("/api/v1/board", json=THREAD, headers=key)).status_code == 201
    for _ in range(2):
        response = await node.client.post("/api/v1/board", json=THREAD | refused, headers=headers)
        assert response.status_code in {400, 422}, response.text
    assert (await post(node, "/api/v1/board", THREAD))[0] == 201
    assert await post(node, "/api/v1/board", THREAD) == (429, "quota.board")


@pytest.mark.settings(limits=FREE, client_sessions=2, client_threads=2)
@pytest.mark.parametrize(
    ("path", "body", "name"), [("/api/v1/sessions", {}, "session_id"), ("/api/v1/board", THREAD, "id")]
)
async def test_what_is_asked_for_again_counts_once(
    node: NodeUnderTest, path: str, body: dict[str, str], name: str
) -> None:
    key = {"idempotency-key": "k"}
    ids = [(await node.client.post(path, json=body, headers=key)).json()[name] for _ in "123"]
    assert len(set(ids)) == 1
    assert (await post(node, path, body))[0] == 201
