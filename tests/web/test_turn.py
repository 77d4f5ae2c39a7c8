"""A process works on a few requests of each client at a time, however many other clients send (DESIGN 13.3)."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from node.common.pauses import paused
from node.common.refusal import Refused
from node.overload.intake import AgeGroup
from node.share.site import SITE_SHARE
from node.web import turn
from node.web.http import Receive, Request, Response, Scope, Send
from node.web.throughput import Throughput
from node.web.turn import AGE_GROUP, REQUESTS_AT_ONCE, SITE_REQUESTS_AT_ONCE, ClientTurns
from tests.support.http_scope import HOST, http_scope
from tests.support.one_route import client_of, front_of
from tests.support.servers import PATIENCE, eventually
from tests.support.shared_process import EAGER, HOME, MODEST, route, served_meanwhile, shared_with_others

pytestmark = pytest.mark.usefixtures("other_clients")

MORE = 3 * REQUESTS_AT_ONCE


class Work:
    """Handlers that work until they are told that they are done."""

    def __init__(self) -> None:
        self.waiting = 0
        self.under_way = Counter[str]()
        self.most = Counter[str]()
        self.done = asyncio.Event()

    async def reaches(self, client: str, count: int) -> None:
        """Return once this many requests of a client are under way."""
        await eventually(lambda: self.under_way[client] == count)

    async def handle(self, request: Request) -> Response:
        """Work on a request."""
        await request.body()
        return await self._work(request)

    async def wait_first(self, request: Request) -> Response:
        """Wait for a change, as a read with `wait=` does, and then work."""

        async def wait() -> None:
            async with paused():
                self.waiting += 1
                await self.done.wait()

        await request.while_waiting(30, wait())
        return await self._work(request)

    async def work_and_wait(self, request: Request) -> Response:
        """Work like a read with `wait=` that finds at once what it wanted."""
        return await request.while_waiting(30, self._work(request))

    async def _work(self, request: Request) -> Response:
        self.under_way[request.client] += 1
        self.most[request.client] = max(self.most[request.client], self.under_way[request.client])
        await self.done.wait()
        await asyncio.sleep(0)
        self.under_way[request.client] -= 1
        return Response(200, b"{}")


@pytest.mark.parametrize("is_hot", [True, False])
async def test_who_sends_many_requests_waits_for_its_own(is_hot: bool) -> None:
    work = Work()
    app = await (front_of(HOME, route(work.handle)) if is_hot else front_of(HOME, others=[route(work.handle)]))
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        sent = [asyncio.create_task(eager.post("/work")) for _ in range(MORE)]
        await work.reaches(EAGER, REQUESTS_AT_ONCE)
        one = asyncio.create_task(modest.post("/work"))
        await work.reaches(MODEST, 1)
        assert work.under_way[EAGER] == REQUESTS_AT_ONCE
        work.done.set()
        answers = await asyncio.gather(one, *sent)
    assert [answer.status_code for answer in answers] == [200] * (1 + MORE)
    assert work.most == {EAGER: REQUESTS_AT_ONCE, MODEST: 1}


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("GET", "//work"), ("PUT", "/work")])
async def test_a_request_that_is_only_refused_waits_for_its_turn_as_well(method: str, path: str) -> None:
    """Otherwise hundreds of them at a time would cause the requests of others to be refused for overload."""
    work = Work()
    app = await front_of(HOME, route(work.handle))
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        sent = [asyncio.create_task(eager.post("/work")) for _ in range(REQUESTS_AT_ONCE)]
        await work.reaches(EAGER, REQUESTS_AT_ONCE)
        waits = asyncio.create_task(eager.request(method, f"http://node.example{path}"))
        await served_meanwhile(modest, [waits], method, f"http://node.example{path}", 404)
        work.done.set()
        assert (await waits).status_code == 404
        await asyncio.gather(*sent)


@pytest.mark.parametrize("path", ["/work", "/nothing", "//work"])
async def test_who_finds_too_many_waiting_is_told_so_whatever_it_asks_for(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(turn, "MAX_WAITING_TURNS", 0)
    work = Work()
    app = await front_of(HOME, route(work.handle))
    async with shared_with_others(app) as eager:
        sent = [asyncio.create_task(eager.post("/work")) for _ in range(REQUESTS_AT_ONCE)]
        await work.reaches(EAGER, REQUESTS_AT_ONCE)
        refused = await eager.post(f"http://node.example{path}")
        assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
        work.done.set()
        await asyncio.gather(*sent)


async def test_who_has_the_process_to_itself_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    app = await front_of(HOME, route(work.handle))
    async with shared_with_others(app) as client:
        monkeypatch.setattr(turn, "SHARED_SECONDS", 0.0)  # the other clients are gone
        sent = [asyncio.create_task(client.post("/work")) for _ in range(MORE)]
        await work.reaches(EAGER, MORE)
        monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)  # one is back, and is served as ever
        async with client_of(app, MODEST) as other:
            one = asyncio.create_task(other.post("/work"))
            await work.reaches(MODEST, 1)
            one_more = asyncio.create_task(client.post("/work"))
            work.done.set()
            answers = await asyncio.gather(one, one_more, *sent)
    assert {answer.status_code for answer in answers} == {200}
    assert work.most[EAGER] == MORE


async def test_requests_that_wait_for_a_change_hold_up_no_other_and_are_answered_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "MAX_WAITING_TURNS", 1)  # these requests have waited already, so they do not count
    waiting, work = Work(), Work()
    app = await front_of(HOME, route(waiting.wait_first), route(work.handle, "/other"))
    async with shared_with_others(app) as client:
        held: list[asyncio.Task[httpx2.Response]] = []
        for number in range(1, 1 + MORE):
            held.append(asyncio.create_task(client.post("/work")))
            await eventually(lambda number=number: waiting.waiting == number)
        other = asyncio.create_task(client.post("/other"))
        await work.reaches(EAGER, 1)
        work.done.set()
        assert (await other).status_code == 200
        waiting.done.set()
        answers = await asyncio.gather(*held, client.post("/other"))
        assert {answer.status_code for answer in answers} == {200}
    assert waiting.most[EAGER] <= REQUESTS_AT_ONCE


async def test_a_wait_takes_no_work_out_of_its_clients_turn() -> None:
    work = Work()
    app = await front_of(HOME, route(work.work_and_wait))
    async with shared_with_others(app) as client:
        sent = [asyncio.create_task(client.post("/work")) for _ in range(MORE)]
        await work.reaches(EAGER, REQUESTS_AT_ONCE)
        work.done.set()
        assert {answer.status_code for answer in await asyncio.gather(*sent)} == {200}
    assert work.most[EAGER] == REQUESTS_AT_ONCE


async def test_requests_whose_body_does_not_come_hold_up_no_other_and_gain_nothing_by_it() -> None:
    work, come = Work(), asyncio.Event()
    app = await front_of(HOME, route(work.handle))

    async def late() -> AsyncGenerator[bytes]:
        yield b"{"
        await come.wait()
        yield b"}"

    async with shared_with_others(app) as client:
        # The test's transport reads a whole body before it calls the application, so the application is called
        # directly.
        sent = [asyncio.create_task(called(app, late())) for _ in range(MORE)]
        other = asyncio.create_task(client.post("/work"))
        await work.reaches(EAGER, 1)
        come.set()
        await work.reaches(EAGER, REQUESTS_AT_ONCE)
        work.done.set()
        assert await asyncio.gather(*sent) == [200] * MORE
        assert (await other).status_code == 200
    assert work.most[EAGER] == REQUESTS_AT_ONCE


async def test_the_clients_of_a_site_have_so_many_together() -> None:
    work = Work()
    app = await front_of(route(work.handle))
    async with AsyncExitStack() as entered:
        inside = [
            await entered.enter_async_context(client_of(app, f"2001:db8:0:{number:x}::1"))
            for number in range(2 * SITE_REQUESTS_AT_ONCE)
        ]
        outside = await entered.enter_async_context(client_of(app, "2001:db8:1::1"))
        for _ in range(2):  # the second time, requests that waited for their site must hold no place
            work.done.clear()
            sent = [asyncio.create_task(client.post("/work")) for client in inside for _ in range(REQUESTS_AT_ONCE)]
            other = asyncio.create_task(outside.post("/work"))
            await work.reaches("2001:db8:1::/64", 1)
            await eventually(lambda: work.under_way.total() == 1 + SITE_REQUESTS_AT_ONCE)
            work.done.set()
            async with asyncio.timeout(PATIENCE):
                assert {answer.status_code for answer in await asyncio.gather(other, *sent)} == {200}
    assert max(work.most.values()) == REQUESTS_AT_ONCE


@pytest.mark.parametrize(
    ("limit", "address", "most"),
    [
        ("MAX_WAITING_TURNS", EAGER, 3),
        ("MAX_WAITING_TURNS", "2001:db8::1", 3 * SITE_SHARE),
        ("MAX_WAITING_TURNS_IN_ALL", EAGER, 3),
    ],
)
async def test_only_so_many_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch, limit: str, address: str, most: int
) -> None:
    monkeypatch.setattr(turn, limit, 3)
    work = Work()
    app = await front_of(HOME, route(work.handle))
    async with shared_with_others(app, address) as client:
        for more in (MORE, 0):  # the second time, those that have waited must hold no place
            work.done.clear()
            sent = [asyncio.create_task(client.post("/work")) for _ in range(REQUESTS_AT_ONCE + most + more)]
            await eventually(lambda: work.under_way.total() == REQUESTS_AT_ONCE)
            await eventually(lambda sent=sent, more=more: sum(each.done() for each in sent) == more)
            refused = [each.result() for each in sent if each.done()]
            assert [(each.status_code, each.headers["x-error-code"]) for each in refused] == [
                (429, "limit.waiting")
            ] * more
            async with client_of(app, MODEST) as other:
                assert (await other.get("/")).status_code == 200
            work.done.set()
            answers = await asyncio.gather(*sent)
            assert [answer.status_code for answer in answers].count(200) == REQUESTS_AT_ONCE + most


async def test_a_request_that_waits_for_its_turn_is_work_for_the_process_only_once_it_is_begun() -> None:
    """Otherwise admission control could take a busy process for an idle one, or the other way round."""
    before, work, group = Work(), Work(), AgeGroup()
    app = await front_of(HOME, route(before.handle), route(work.handle, "/counted"))

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, AGE_GROUP: group}, receive, send)

    async with shared_with_others(app) as client, client_of(counted, EAGER) as same:
        sent = [asyncio.create_task(client.post("/work")) for _ in range(REQUESTS_AT_ONCE)]
        await before.reaches(EAGER, REQUESTS_AT_ONCE)
        waits = asyncio.create_task(same.post("/counted"))
        await eventually(lambda: group.inactive == 1)
        before.done.set()
        await work.reaches(EAGER, 1)
        assert group.inactive == 0
        work.done.set()
        assert {answer.status_code for answer in await asyncio.gather(waits, *sent)} == {200}


def test_a_client_has_the_process_to_itself_a_second_after_the_last_request_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(turn, "SHARED_SECONDS", 1.0)
    monkeypatch.setattr(turn, "monotonic", lambda: now)
    turns = ClientTurns(Throughput(0))
    assert turns.is_alone(EAGER)
    assert turns.is_alone(EAGER)
    assert not turns.is_alone(MODEST)
    now = 1000.875
    assert not turns.is_alone(MODEST)
    now = 1001.0
    assert turns.is_alone(MODEST)
    assert not turns.is_alone(EAGER)


@pytest.mark.parametrize("failure", [Refused("thread.unknown"), RuntimeError("a fault of the node")])
async def test_the_turn_ends_with_the_request_however_it_ends(failure: Exception) -> None:
    async def fail(_request: Request) -> Response:
        raise failure

    app = await front_of(HOME, route(fail))
    async with shared_with_others(app) as client:
        # The body is not read by the handler. It is read before the answer, after the handler's turn.
        answers = [await client.post("/work", content=b"unread") for _ in range(MORE)]
    assert {answer.status_code for answer in answers} == {404 if isinstance(failure, Refused) else 500}


async def called(app: Any, body: AsyncGenerator[bytes]) -> int:
    """Return the status of the answer to a request of the eager client, whose body arrives piece by piece."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        piece = await anext(body, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(http_scope("POST", "/work", HOST, (b"transfer-encoding", b"chunked"), client=EAGER), receive, send)
    return statuses[0]
