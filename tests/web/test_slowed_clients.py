"""While others use a process, a client that has moved much, or is refused repeatedly, is slowed down."""

import asyncio
import itertools
import math
from contextlib import AbstractContextManager

import pytest

from node.common.refusal import Refused
from node.share.site import SITE_SHARE
from node.web import refusal_pacing, throughput, turn
from node.web.http import Receive, Request, Response, Scope, Send
from node.web.throughput import FREE_BYTES, REQUEST_COST, Throughput
from node.web.turn import REQUESTS_AT_ONCE, ClientTurns
from tests.support.one_route import client_of, front_of
from tests.support.servers import PATIENCE
from tests.support.shared_process import (
    EAGER,
    HOME,
    MODEST,
    answer,
    cancelled,
    route,
    served_meanwhile,
    shared_with_others,
)

pytestmark = pytest.mark.usefixtures("other_clients")

MORE = 6
"""More requests than a process works on for one client, and more than `few_refusals` allows."""


async def limited(_request: Request) -> Response:
    raise Refused("limit.exceeded", retry_after=1.0, count=1, seconds=1)


@pytest.fixture
def few_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer two refusals of a client at once, and make the third one wait for ten minutes."""
    monkeypatch.setattr(refusal_pacing, "REFUSALS_AT_ONCE", 2)
    monkeypatch.setattr(refusal_pacing, "REFUSALS_A_SECOND", 1 / 600)
    monkeypatch.setattr(refusal_pacing, "MAX_REFUSAL_DELAY_SECONDS", 3600.0)


REFUSED = [("GET", "/nothing", 404), ("GET", "//", 404), ("PUT", "/work", 405), ("POST", "/limited", 429)]


@pytest.mark.usefixtures("few_refusals")
@pytest.mark.parametrize(("method", "path", "status"), REFUSED)
async def test_who_is_refused_again_and_again_waits_for_its_refusals_alone(method: str, path: str, status: int) -> None:
    app = await front_of(HOME, route(limited, "/limited"), others=[route(answer)])
    url = f"http://node.example{path}"
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        for _ in range(2):
            assert (await eager.request(method, url)).status_code == status
        waiting = [asyncio.create_task(eager.request(method, url)) for _ in range(MORE)]
        await served_meanwhile(modest, waiting[:2], method, url, status)
        assert (await eager.post("/work")).status_code == 200
        assert not any(task.done() for task in waiting)
        await cancelled(waiting)


@pytest.mark.usefixtures("few_refusals")
async def test_who_has_the_process_to_itself_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = await front_of(HOME)
    async with shared_with_others(app) as eager:
        monkeypatch.setattr(turn, "SHARED_SECONDS", 0.0)
        assert {(await eager.get("/nothing")).status_code for _ in range(MORE)} == {404}


@pytest.mark.usefixtures("few_refusals")
@pytest.mark.parametrize(("path", "size"), [("/nothing", FREE_BYTES), ("//", 1)])
async def test_no_refusal_waits_with_a_large_or_unread_body(path: str, size: int) -> None:
    app = await front_of(HOME)
    async with shared_with_others(app) as eager:
        for _ in range(MORE):
            assert (await eager.post(f"http://node.example{path}", content=b"x" * size)).status_code == 404


@pytest.mark.usefixtures("few_refusals")
async def test_no_more_refusals_wait_than_a_process_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_pacing, "MAX_DELAYED_REFUSALS", 1)
    app = await front_of(HOME)
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        for _ in range(2):
            await eager.get("/nothing")
        for _ in range(2):  # the second time, the request that is gone must hold no place
            waiting = {asyncio.create_task(eager.get("/nothing")) for _ in range(MORE)}
            while len(waiting) > 1:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                assert {task.result().status_code for task in done} == {404}
            assert waiting
            await served_meanwhile(modest, [*waiting])
            await cancelled([*waiting])


@pytest.mark.usefixtures("few_refusals")
async def test_refusals_of_no_more_clients_are_counted_than_a_process_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusal_pacing, "MAX_REMEMBERED", 2)
    app = await front_of(HOME)
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        for client in (modest, eager, eager):
            assert (await client.get("/nothing")).status_code == 404
        waiting = asyncio.create_task(eager.get("/nothing"))
        await served_meanwhile(modest, [waiting], url="/nothing", status=404)
        async with client_of(app, "203.0.113.9") as one_more:
            assert (await one_more.get("/nothing")).status_code == 404
        assert (await eager.get("/nothing")).status_code == 404, "all were forgotten"
        await cancelled([waiting])


@pytest.mark.usefixtures("few_refusals")
async def test_clients_of_one_site_share_the_refusals_that_it_gets_at_once() -> None:
    app = await front_of(HOME)
    async with shared_with_others(app):
        for number in range(2 * SITE_SHARE):
            async with client_of(app, f"2001:db8:1:{number:x}::1") as client:
                assert (await client.get("/nothing")).status_code == 404
        async with client_of(app, "2001:db8:1:ffff::1") as one_more, client_of(app, "2001:db8:2::1") as other:
            waiting = asyncio.create_task(one_more.get("/nothing"))
            await served_meanwhile(other, [waiting], url="/nothing", status=404)
            await cancelled([waiting])


def no_pause(_throughput: Throughput, _client: str) -> float:
    return 0.0


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the unpaced allowance last for an hour, and pauses last longer than a test."""
    monkeypatch.setattr(throughput, "UNPACED_SECONDS", 3600.0)
    monkeypatch.setattr(throughput, "MAX_PAUSE_SECONDS", 7200.0)
    monkeypatch.setattr(throughput, "BURST_SECONDS", 36_000.0)


@pytest.mark.usefixtures("hours")
async def test_who_has_moved_much_goes_on_only_as_its_rate_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def large(_request: Request) -> Response:
        return Response(200, b"x" * (FREE_BYTES + 8 * REQUEST_COST))

    app = await front_of(HOME, route(large, "/large"), rate=REQUEST_COST // 400)
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        assert (await eager.post("/large")).status_code == 200
        waiting = [asyncio.create_task(eager.get("/")) for _ in range(MORE)]
        await served_meanwhile(modest, waiting)
        monkeypatch.setattr(turn, "SHARED_SECONDS", 0.0)  # the other clients are gone
        assert (await eager.get("/")).status_code == 200
        await cancelled(waiting)
        monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)
        monkeypatch.setattr(Throughput, "pause", no_pause)  # as if its time had come
        assert (await eager.get("/")).status_code == 200, "those that are gone hold no place"


async def mounted(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.usefixtures("hours")
@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/mounted/x", 204)])
async def test_who_sends_many_small_requests_goes_on_only_as_its_rate_allows(
    path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 12
    app = await front_of(HOME, rate=most * REQUEST_COST // 3600, mounted={"/mounted/": mounted})
    async with shared_with_others(app) as eager, client_of(app, MODEST) as modest:
        monkeypatch.setattr(turn, "SHARED_SECONDS", 0.0)  # the other clients are gone
        for _ in range(2 * most):
            assert (await eager.get(path)).status_code == status
        monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)
        for _ in range(most - 1):  # `shared_with_others` has sent one, too
            assert (await eager.get(path)).status_code == status
        waiting = [asyncio.create_task(eager.get(path)) for _ in range(MORE)]
        await served_meanwhile(modest, waiting)
        await cancelled(waiting)


async def test_a_mounted_application_works_on_any_number_of_requests_of_a_client() -> None:
    begun, all_have_begun = itertools.count(1), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if next(begun) == MORE:
            all_have_begun.set()
        await all_have_begun.wait()
        await mounted(scope, receive, send)

    app = await front_of(HOME, mounted={"/mounted/": slow})
    async with shared_with_others(app) as eager:
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*(eager.get("/mounted/x") for _ in range(MORE)))
        assert {answer.status_code for answer in answers} == {204}


async def test_each_request_counts_once_whether_it_waits_for_its_turn_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, may_end, wait = list[str](), asyncio.Event(), ClientTurns.waiting
    left = MORE - REQUESTS_AT_ONCE

    def count(_throughput: Throughput, client: str) -> None:
        counted.append(client)

    def waiting(turns: ClientTurns, place: str) -> AbstractContextManager[None]:
        nonlocal left
        left -= 1
        if not left:
            may_end.set()
        return wait(turns, place)

    async def slow(_request: Request) -> Response:
        await may_end.wait()
        return Response(200, b"{}")

    app = await front_of(HOME, route(slow))
    async with shared_with_others(app) as eager:
        monkeypatch.setattr(Throughput, "add_request", count)
        monkeypatch.setattr(ClientTurns, "waiting", waiting)
        sent = [asyncio.create_task(eager.post("/work")) for _ in range(MORE)]
        assert {response.status_code for response in await asyncio.gather(*sent)} == {200}
    assert counted == [EAGER] * MORE
