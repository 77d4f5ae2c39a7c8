"""The intake, which stands between Granian's threads and the event loop."""

import asyncio
from contextvars import copy_context
from importlib import import_module
from typing import Any

import pytest

from node.common import counters
from node.common.pauses import paused
from node.overload import intake
from node.overload.admission import MAX_NORMAL_REQUESTS, MAX_QUEUE_SECONDS, Admission
from node.overload.intake import (
    AGE_GROUP_SECONDS,
    BEGUN_PER_TURN,
    BODY_SECONDS,
    MAX_STORE_CALLS,
    Intake,
)
from node.web.errors import CLOSE, HELP
from node.web.http import FIRST_MESSAGE, JSON_TYPE, Header, Response
from tests.overload.door import Door, Watcher, refused
from tests.support.lone_request import lone_request
from tests.support.servers import eventually


async def test_a_request_is_served_and_counts_until_it_ends(door: Door) -> None:
    await door.has_observed()
    [watcher] = door.come()
    assert door.intake.working == 1
    await eventually(lambda: door.begun == [watcher])
    assert door.intake.working == 1
    assert watcher.ends == []
    door.end.set()
    await eventually(lambda: door.intake.working == 0)
    assert watcher.ends == [None]
    assert watcher.proto.sent == []


@pytest.mark.parametrize("failure", [OSError("nobody expected it"), asyncio.CancelledError()], ids=repr)
async def test_granian_is_told_why_an_application_has_failed(door: Door, failure: BaseException) -> None:
    door.failure = failure
    [watcher] = door.come()
    door.end.set()
    await eventually(lambda: door.intake.working == 0)
    assert watcher.ends == [failure]


async def test_beyond_the_limit_it_is_refused_before_anything_is_begun(door: Door) -> None:
    door.overload(limit=2)
    let_in = door.come(2)
    [watcher] = door.come()
    assert watcher.refused
    start, body = watcher.proto.sent
    assert body["body"] == b'{"error":"The node has more requests than it can take; wait as long as Retry-After says."}'
    headers = watcher.proto.headers
    assert len(start["headers"]) == len(headers)
    assert headers.pop(b"x-request-id")
    assert headers == {
        b"content-type": b"application/json",
        b"x-error-code": b"node.overloaded",
        b"link": HELP.header[1],
        b"retry-after": b"1",
        b"x-content-type-options": b"nosniff",
        b"access-control-allow-origin": b"*",
        b"content-length": str(len(body["body"])).encode(),
    }
    await eventually(lambda: door.begun == let_in)
    assert (door.admission.refused_early, door.admission.refused_late) == (1, 0)
    await eventually(lambda: counters.REFUSALS["node.overloaded"] == 1)


async def test_a_refusal_tells_pages_only_what_the_node_tells_them() -> None:
    door = Intake(Admission(), lambda: (0, 0), cors=((b"vary", b"Origin"),))
    door.admission.limit = 0
    watcher = Watcher()
    door.scheduler(asyncio.get_running_loop(), copy_context(), None)(watcher)
    assert watcher.refused
    assert watcher.proto.headers[b"vary"] == b"Origin"
    assert b"access-control-allow-origin" not in watcher.proto.headers


async def test_each_refusal_has_an_id_of_its_own(door: Door) -> None:
    door.overload(limit=0)
    watchers = door.come(3)
    assert len({watcher.proto.headers[b"x-request-id"] for watcher in watchers}) == 3


async def test_health_is_always_answered(door: Door) -> None:
    door.overload(limit=0)
    watchers = door.come(3, "/health")
    assert door.intake.working == 3
    assert door.come()[0].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: len(door.begun) == 3)
    assert set(door.begun) == set(watchers)
    door.end.set()
    await eventually(lambda: door.intake.working == 0)


async def test_a_protocol_has_errors_of_its_own(door: Door) -> None:
    door.intake.answer_as({"/api/v1/mcp": Response(503, b"busy", (JSON_TYPE, (b"retry-after", b"1")))})
    door.overload(limit=0)
    [mcp], [relay] = door.come(1, "/api/v1/mcp"), door.come()
    assert mcp.proto.sent[1]["body"] == b"busy"
    assert b"node.overloaded" not in mcp.proto.headers.values()
    assert b"node.overloaded" in relay.proto.headers.values()


async def test_a_body_is_asked_for_at_once_and_let_go_with_its_request(door: Door) -> None:
    [post] = door.come(body_is_late=True)
    assert post.scope[FIRST_MESSAGE] is post.proto.body
    await door.has_observed()
    await asyncio.sleep(0)  # the request would be begun here
    await asyncio.sleep(0)  # and take its first step here
    assert door.begun == []
    door.now += BODY_SECONDS
    await eventually(lambda: door.begun == [post])
    assert post.proto.body is not None
    assert not post.proto.body.done()
    door.end.set()
    await eventually(post.proto.body.cancelled)


async def test_a_request_is_begun_when_its_body_comes(door: Door) -> None:
    first, second = door.come(2, body_is_late=True)
    [get] = [Watcher(method="GET")]
    door.schedule(get)
    await eventually(lambda: door.begun == [get])
    assert door.intake.working == 3
    second.proto.bring_body()
    await eventually(lambda: door.begun == [get, second])
    first.proto.bring_body()
    await eventually(lambda: door.begun == [get, second, first])


async def test_a_request_whose_body_is_late_is_begun_once(door: Door) -> None:
    [slow] = door.come(body_is_late=True)
    door.now += BODY_SECONDS
    await eventually(lambda: door.begun == [slow])
    slow.proto.bring_body()
    await asyncio.sleep(0)  # the callback for the body's arrival runs here
    [next_one] = door.come()
    await eventually(lambda: next_one in door.begun)
    assert door.begun == [slow, next_one]


async def test_the_time_that_a_body_takes_is_its_senders(door: Door) -> None:
    [slow], [other] = door.come(body_is_late=True), door.come()
    door.overload(limit=2)
    assert door.come()[0].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: door.begun == [slow])
    assert other.refused


async def test_who_is_refused_late_is_not_waited_for(door: Door) -> None:
    door.store = (MAX_STORE_CALLS, 0)
    [slow] = door.come(body_is_late=True)
    door.now += BODY_SECONDS
    looked = door.asked
    await eventually(lambda: door.asked > looked)  # queued without its body
    door.overload(limit=1)
    assert door.come()[0].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: slow.refused)
    assert slow.proto.body
    assert slow.proto.body.cancelled()
    assert CLOSE in slow.proto.headers.items()  # because its body did not arrive


async def test_no_body_is_requested_where_there_is_none_or_it_is_sent_on_demand_or_refused(door: Door) -> None:
    get, careful = Watcher(method="GET"), Watcher()
    careful.scope["headers"].append((b"expect", b"100-Continue"))
    door.schedule(get)
    door.schedule(careful)
    door.overload(limit=2)
    [beyond] = door.come()
    assert beyond.refused
    assert get.proto.body is careful.proto.body is beyond.proto.body is None
    door.end.set()
    await eventually(lambda: door.intake.working == 0)


@pytest.mark.parametrize(
    ("header", "is_read_off"),
    [
        ((b"content-length", b"8192"), True),
        ((b"content-length", b"8193"), False),
        ((b"transfer-encoding", b"chunked"), False),
        ((b"expect", b"100-continue"), False),
    ],
)
async def test_who_is_refused_is_told_if_an_unread_body_ends_the_connection(
    door: Door, header: Header, *, is_read_off: bool
) -> None:
    door.overload(limit=0)
    watcher = Watcher()
    watcher.scope["headers"].append(header)
    door.schedule(watcher)
    assert watcher.refused
    assert (CLOSE not in watcher.proto.headers.items()) == is_read_off


@pytest.mark.parametrize(
    ("length", "has_more", "is_read_off"),
    [(b"2", True, True), (b"3", True, False), (b"1000000", True, False), (b"1000000", False, True)],
)
async def test_who_is_refused_late_is_told_so_if_there_is_more_of_its_body(
    door: Door, length: bytes, *, has_more: bool, is_read_off: bool
) -> None:
    """Granian reports the end of a body by another, empty message."""
    await door.has_observed()  # otherwise the body could count as late
    door.store = (MAX_STORE_CALLS, 0)
    [waiting] = door.come(body_is_late=True)
    waiting.scope["headers"].append((b"content-length", length))
    waiting.proto.bring_body(has_more=has_more)
    door.overload(limit=1)
    assert door.come()[0].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: waiting.refused)
    assert (CLOSE not in waiting.proto.headers.items()) == is_read_off


async def test_during_overload_queued_requests_that_waited_too_long_are_refused_too(door: Door) -> None:
    waiting = door.come(3)
    door.overload(limit=3)
    assert door.come()[0].refused
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: door.intake.working == 0)
    assert all(watcher.refused for watcher in waiting)
    assert door.begun == []
    assert door.admission.refused_late == 3


async def test_who_came_just_now_is_not_refused_with_those_that_waited_too_long(door: Door) -> None:
    waiting = door.come(2)
    door.overload(limit=3)
    door.now += 2 * MAX_QUEUE_SECONDS
    [fresh], [beyond] = door.come(), door.come()
    assert beyond.refused
    await eventually(lambda: door.begun == [fresh])
    assert refused([*waiting, fresh]) == [True, True, False]


async def test_who_waited_too_long_is_served_if_nobody_else_comes(door: Door) -> None:
    waiting = door.come(3)
    door.overload(limit=3)
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: door.begun == waiting[::-1])
    assert door.admission.refused == 0


async def test_a_burst_is_served_whole_newest_first_once_it_is_late(door: Door) -> None:
    burst = door.come(MAX_NORMAL_REQUESTS + 1)
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: len(door.begun) == MAX_NORMAL_REQUESTS + 1)
    assert door.begun == burst[::-1]
    assert door.admission.refused == 0


async def test_few_are_served_in_their_order_however_late(door: Door) -> None:
    few = door.come(MAX_NORMAL_REQUESTS)
    door.now += 2 * MAX_QUEUE_SECONDS
    await eventually(lambda: len(door.begun) == MAX_NORMAL_REQUESTS)
    assert door.begun == few


async def test_no_turn_of_the_loop_begins_more_than_a_few(door: Door) -> None:
    door.come(2 * BEGUN_PER_TURN)
    await asyncio.sleep(0)  # the requests are begun
    await asyncio.sleep(0)  # and take their first steps
    assert len(door.begun) == BEGUN_PER_TURN


async def test_while_the_store_is_busy_requests_wait_at_the_door(door: Door) -> None:
    door.store = (MAX_STORE_CALLS, 0)
    door.come(3)
    await eventually(lambda: door.asked > 5)
    assert door.begun == []
    assert door.intake.working == 3
    door.store = (0, MAX_STORE_CALLS)
    await eventually(lambda: len(door.begun) == 3)


async def test_health_does_not_wait_for_a_store_that_stalls(door: Door) -> None:
    """Otherwise health checks get no answer when the store stalls, unless requests are already being refused."""
    door.store = (MAX_STORE_CALLS, 0)
    door.come(3)
    watchers = [*door.come(1, "/health"), *door.come(1, "/ready")]
    await eventually(lambda: len(door.begun) == 2)
    assert door.begun == watchers


async def test_old_requests_do_not_count_as_work(door: Door) -> None:
    await door.has_observed()  # from now on, age groups end by the clock that the test sets
    door.come(5)
    await eventually(lambda: len(door.begun) == 5)
    await door.next_group()
    assert door.intake.working == 5
    door.now += AGE_GROUP_SECONDS
    await eventually(lambda: door.intake.working == 0)
    door.end.set()
    await eventually(lambda: all(watcher.task and watcher.task.done() for watcher in door.begun))
    assert door.intake.working == 0


async def test_a_request_that_ends_a_while_after_it_came_no_longer_counts(door: Door) -> None:
    await door.has_observed()
    door.come(2)
    await eventually(lambda: len(door.begun) == 2)
    await door.next_group()
    assert door.intake.working == 2
    door.end.set()
    await eventually(lambda: door.intake.working == 0)


def test_granian_has_the_scheduler_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    futures = import_module("granian._futures")
    monkeypatch.setattr(futures, intake.SCHEDULER, getattr(futures, intake.SCHEDULER))
    door = Intake(Admission(), lambda: (0, 0))
    assert intake.install(door)
    assert getattr(futures, intake.SCHEDULER) == door.scheduler


def test_a_granian_built_otherwise_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(import_module("granian._futures"), intake.SCHEDULER)
    assert not intake.install(Intake(Admission(), lambda: (0, 0)))


async def test_requests_that_wait_for_a_change_or_for_their_client_do_not_count_as_work(door: Door) -> None:
    [watcher] = door.come()
    await eventually(lambda: door.begun == [watcher])
    news = asyncio.Event()
    more: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope: dict[str, Any] = {**watcher.scope, "headers": []}
    del scope[FIRST_MESSAGE]
    request = lone_request(scope, more.get)
    body = asyncio.ensure_future(request.body())
    more.put_nowait({"type": "http.request", "body": b"a", "more_body": True})
    await eventually(lambda: door.intake.working == 0)
    more.put_nowait({"type": "http.request", "body": b"b", "more_body": False})
    assert await body == b"ab"
    assert door.intake.working == 1

    async def wait() -> bool:
        async with paused():
            return await news.wait()

    held = asyncio.ensure_future(request.while_waiting(30.0, wait()))
    await eventually(lambda: door.intake.working == 0)
    news.set()
    assert await held
    assert door.intake.working == 1
