"""A node with too many waiting requests answers without waiting. Followers then pause by themselves."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.support.prepared import Clock, Prepared

from relay_client import AsyncRelay, DeadlineExceeded, Relay
from relay_client.steps import Answer, Send
from relay_client.tasks import ClaimedTask
from relay_client.worker import Worker

NODE = "http://node.example"
TAKES = 0.01  # seconds until an answer
DOUBLING = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]

VERIFYING: dict[str, Any] = {"id": "1", "status": "verifying", "upload_url": NODE, "upload_headers": {}}
PAGE: dict[str, Any] = {"next_since_seq": 0, "epoch": "1"}

FOLLOWED: dict[str, tuple[dict[str, Any], Callable[[Relay], Iterable[Any]]]] = {
    "contract": ({"status": "offered"}, lambda relay: [relay.tasks.result("1")]),
    "receipt": ({"status": "queued"}, lambda relay: [relay.inboxes.answer("address", "1", "token")]),
    "offers": ({"tasks": [], "next_since": "1-0"}, lambda relay: relay.tasks.offers()),
    "inbox": ({**PAGE, "messages": []}, lambda relay: relay.inboxes.messages("address", "token")),
    "replies": ({**PAGE, "status": "open"}, lambda relay: relay.board.replies("1")),
    "lines": ({**PAGE, "lines": []}, lambda relay: relay.sessions.lines("1")),
    "agent": ({"status": "checking"}, lambda relay: [relay.agents.checked("1")]),
    "artifact": (VERIFYING, lambda relay: [relay.artifacts.upload(b"name", "desk")]),
}


class Over(Exception):
    """Raised to end a test that has seen enough."""


class LimitedClock(Clock):
    """A clock that raises Over after as many pauses as DOUBLING has."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if len(self.pauses) == len(DOUBLING):
            raise Over


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = LimitedClock()
    monkeypatch.setattr("relay_client.client.time", clock)
    return clock


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_follower_that_learns_nothing_asks_less_and_less(clock: Clock, name: str) -> None:
    answer, follow = FOLLOWED[name]
    node = Prepared(*[answer] * 20, takes=TAKES, clock=clock)
    with Relay(NODE, transport=node) as relay, pytest.raises(Over):
        relay.carrier.clock = clock.time
        list(follow(relay))
    assert clock.pauses == DOUBLING


def test_news_and_a_read_that_waited_reset_the_pauses(clock: Clock) -> None:
    nothing: dict[str, Any] = {**PAGE, "lines": []}
    news = {"next_since_seq": 1, "epoch": "1", "lines": [{"seq": 1}]}
    at_first = nothing  # this read does not ask the node to wait
    answers = (at_first, nothing, nothing, news, nothing, nothing, nothing, nothing, nothing)
    node = Prepared(*answers, takes=TAKES, clock=clock)
    with Relay(NODE, transport=node) as relay:
        relay.carrier.clock = clock.time
        lines = relay.sessions.lines("1")
        assert next(lines)["seq"] == 1
        assert clock.pauses == [0.2, 0.4]
        node.takes = 25
        with pytest.raises(StopIteration):  # the prepared answers are used up
            next(lines)
    assert clock.pauses == [0.2, 0.4]


def test_pauses_end_with_the_time_to_wait(clock: Clock) -> None:
    node = Prepared(*[{"status": "offered"}] * 20, takes=TAKES, clock=clock)
    with Relay(NODE, transport=node) as relay, pytest.raises(DeadlineExceeded):
        relay.carrier.clock = clock.time
        relay.tasks.result("1", within=1)
    assert clock.now < 1.1


class Hasty:
    """A node that has no work and says so without waiting."""

    async def send(self, request: Send) -> Answer:
        return Answer(200, {}, b"null")

    async def open(self, request: Send) -> Any:
        raise AssertionError(request.url)

    async def close(self) -> None:
        pass


async def test_a_worker_without_work_asks_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def rest(worker: Worker, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == len(DOUBLING):
            worker.stop()
            await asyncio.sleep(0)  # let the loop run what `stop` has scheduled

    async def work(task: ClaimedTask) -> None:
        raise AssertionError(task)

    monkeypatch.setattr(Worker, "_rest", rest)
    async with AsyncRelay(NODE, transport=Hasty()) as relay:
        await Worker(work, "idle", ()).serve(relay)
    assert pauses == DOUBLING
