"""An intake without Granian: it holds requests for as long as a test wants, and keeps what is sent back."""

import asyncio
from contextvars import copy_context
from operator import itemgetter
from typing import Any

from node.overload.admission import INTERVAL_SECONDS, MAX_NORMAL_REQUESTS, Admission
from node.overload.intake import AGE_GROUP_SECONDS, Intake, Schedule
from node.web.http import Receive, Scope, Send
from tests.support.servers import eventually

RELAY = "/api/v1/relay"
EAGER, MODEST = "203.0.113.7", "203.0.113.8"


class Protocol:
    """Granian's side of one request: what was sent, as if it took effect at once."""

    def __init__(self, *, body_is_late: bool) -> None:
        self.sent: list[dict[str, Any]] = []
        self.body: asyncio.Future[dict[str, Any]] | None = None
        self._body_is_late = body_is_late

    def receive(self) -> "asyncio.Future[dict[str, Any]]":
        assert self.body is None, "asked twice"
        self.body = asyncio.get_running_loop().create_future()
        if not self._body_is_late:
            self.bring_body()
        return self.body

    def bring_body(self, *, has_more: bool = False) -> None:
        assert self.body is not None
        self.body.set_result({"type": "http.request", "body": b"{}", "more_body": has_more})

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


class Watcher:
    """A request as Granian hands it over."""

    def __init__(self, path: str = RELAY, method: str = "POST", *, body_is_late: bool = False) -> None:
        headers = [(b"host", b"node.example")]
        self.scope: dict[str, Any] = {"path": path, "method": method, "headers": headers, "watcher": self}
        self.proto = Protocol(body_is_late=body_is_late)
        self.task: asyncio.Task[None] | None = None
        self.ends: list[BaseException | None] = []
        """The outcome of the application: None, or its failure."""

    def taskref(self, task: asyncio.Task[None]) -> None:
        self.task = task

    def done(self) -> None:
        self.ends.append(None)

    def err(self, failure: BaseException) -> None:
        self.ends.append(failure)

    @property
    def refused(self) -> bool:
        return [message.get("status") for message in self.proto.sent] == [503, None]


class Steady(Admission):
    """An admission whose limit a test can fix, although the intake continues to observe in real time."""

    __slots__ = ("delays", "is_set")

    def __init__(self) -> None:
        super().__init__()
        self.is_set = False
        self.delays: list[float] = []
        """The observed delays, except 0."""

    def observe(self, now: float, delay: float, working: int) -> None:
        if delay:
            self.delays.append(delay)
        if not self.is_set:
            super().observe(now, delay, working)


class Door:
    """An intake with a clock that a test sets, and requests that end when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.store: tuple[int, int] = (0, 0)
        self.admission = Steady()
        self.asked = 0
        self.intake = Intake(self.admission, self.store_load, lambda: self.now)
        self._first_group = self.intake.age_group
        self.end = asyncio.Event()
        self.intake.application = self.serve
        self.begun: list[Watcher] = []
        self.failure: BaseException | None = None
        """The failure with which every request ends, if any."""
        self.schedule: Schedule = self.intake.scheduler(asyncio.get_running_loop(), copy_context(), None)

    def store_load(self) -> tuple[int, int]:
        self.asked += 1
        return self.store

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        watcher: Watcher = scope["watcher"]
        assert (receive, send) == (watcher.proto.receive, watcher.proto.send)
        self.begun.append(watcher)
        await self.end.wait()
        if self.failure:
            raise self.failure

    def come(
        self, count: int = 1, path: str = RELAY, *, client: str = EAGER, body_is_late: bool = False
    ) -> list[Watcher]:
        watchers = [Watcher(path, body_is_late=body_is_late) for _ in range(count)]
        for watcher in watchers:
            watcher.scope["client"] = client
            self.schedule(watcher)
        return watchers

    async def has_observed(self) -> None:
        """Return once the intake has observed for the first time. Later requests are in an age group of their own."""
        await eventually(lambda: self.intake.age_group is not self._first_group)

    async def next_group(self) -> None:
        """Let time pass until new requests are counted in another age group."""
        group = self.intake.age_group
        self.now += AGE_GROUP_SECONDS
        await eventually(lambda: self.intake.age_group is not group)

    def knows_clients(self) -> None:
        """Make the intake distinguish clients, as a web process does."""
        self.intake.client_of = itemgetter("client")

    def overload(self, limit: int) -> None:
        """Make the admission find a lasting delay, and fix its limit."""
        self.admission.observe(0.0, 1.0, 10 * MAX_NORMAL_REQUESTS)
        self.admission.observe(INTERVAL_SECONDS, 1.0, 10 * MAX_NORMAL_REQUESTS)
        self.admission.limit = limit
        self.admission.is_set = True


def refused(watchers: list[Watcher]) -> list[bool]:
    return [watcher.refused for watcher in watchers]
