"""One client's large bodies and answers do not take a process's time from the others."""

from collections.abc import AsyncIterator, Iterable
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from node.board.api import REPLY_WEIGHT
from node.config import Limit, Limits
from node.events.api import THREAD_BYTES
from node.share.site import SITE_SHARE
from node.store import keys
from node.tasks.offers.feed import PAGE
from node.tasks.offers.list import LOOK_BYTES
from node.web.document import MADE_WEIGHT
from node.web.http import PIECE_COST, ASGIMessage
from node.web.responder import FAILED_UPLOAD_BYTES, MOUNTED_BYTES, SMALL_PIECE_BYTES
from node.web.throughput import (
    BODY_WEIGHT,
    BURST_SECONDS,
    FREE_BYTES,
    MAX_CLIENTS,
    MAX_PAUSE_SECONDS,
    REQUEST_COST,
    UNPACED_SECONDS,
    Throughput,
)
from tests.artifacts.calls import available, registered
from tests.support.http_scope import HOST, http_scope
from tests.support.node_under_test import NodeUnderTest

T = TypeVar("T")

A, B = "203.0.113.7", "203.0.113.8"
MIB = 1024 * 1024
UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
RATE = MIB // 2
"""An eighth of the default rate, so that a bucket is soon empty."""
SLOW_RATE = RATE // 8
"""For answers so small that it takes many to empty a bucket."""


class Clock:
    """A clock that stands still until a test sets it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def _each(messages: Iterable[T]) -> AsyncIterator[T]:
    for message in messages:
        yield message


@pytest.fixture
def clock() -> Clock:
    return Clock()


def moved(throughput: Throughput, client: str, size: int, weight: int = 1) -> int:
    """Return how many bytes a client could move before it was refused."""
    total = 0
    while throughput.refusal(client) is None:
        throughput.add(client, size, weight)
        total += size
    return total


@pytest.mark.parametrize("size", [FREE_BYTES, MIB])
def test_a_client_may_move_so_much_at_once_and_then_what_the_rate_gives(clock: Clock, size: int) -> None:
    throughput = Throughput(RATE, clock)
    assert BURST_SECONDS * RATE < moved(throughput, A, size) <= BURST_SECONDS * RATE + size
    refused = throughput.refusal(A)
    assert refused is not None and refused.retry_after is not None
    assert throughput.refusal(B) is None
    clock.now += refused.retry_after
    assert 0 < moved(throughput, A, size) <= 2 * size
    clock.now += 1000 * BURST_SECONDS
    assert moved(throughput, A, size) <= BURST_SECONDS * RATE + size, "who is quiet saves up nothing"


def test_clients_of_one_site_share_what_some_of_them_may_move(clock: Clock) -> None:
    throughput = Throughput(RATE, clock)
    each = [moved(throughput, f"2001:db8:1:{number:x}::/64", MIB) for number in range(3 * SITE_SHARE)]
    assert each[0] == moved(throughput, A, MIB), "its own share, while the site has one"
    assert SITE_SHARE * BURST_SECONDS * RATE < sum(each) <= SITE_SHARE * BURST_SECONDS * RATE + MIB
    refused = throughput.refusal("2001:db8:1:ffff::/64")
    assert refused is not None and refused.retry_after is not None
    assert throughput.refusal("2001:db8:2::/64") is None
    clock.now += refused.retry_after
    assert throughput.refusal("2001:db8:1:ffff::/64") is None


@pytest.mark.parametrize("client", [A, "2001:db8:1:2::/64"])
def test_who_has_moved_much_pauses_for_as_long_as_its_rate_asks(clock: Clock, client: str) -> None:
    throughput = Throughput(RATE, clock)
    throughput.add(client, int(UNPACED_SECONDS * RATE))
    assert throughput.pause(client) == 0
    throughput.add(client, RATE // 4)
    throughput.add(client, RATE // 8)
    assert throughput.pause(client) == pytest.approx(0.375)  # pyright: ignore[reportUnknownMemberType]
    assert throughput.pause(B) == 0
    clock.now += 0.375
    assert throughput.pause(client) == 0
    throughput.add(client, 64 * MIB)
    assert throughput.pause(client) == MAX_PAUSE_SECONDS
    clock.now += 1000
    throughput.add(client, int(UNPACED_SECONDS * RATE))
    throughput.add(client, RATE // 4)
    assert throughput.pause(client) == 0.25
    clock.now += 1000
    assert throughput.pause(client) == 0


def test_a_site_pauses_once_its_clients_have_moved_its_share(clock: Clock) -> None:
    throughput = Throughput(RATE, clock)
    for number in range(2 * SITE_SHARE):
        throughput.add(f"2001:db8:1:{number:x}::/64", int(UNPACED_SECONDS * RATE / 2))
    assert throughput.pause("2001:db8:1:ffff::/64") == 0
    throughput.add("2001:db8:1:fffe::/64", RATE)
    assert throughput.pause("2001:db8:1:ffff::/64") == pytest.approx(1 / SITE_SHARE)  # pyright: ignore[reportUnknownMemberType]
    assert throughput.pause("2001:db8:2::/64") == 0


def test_small_requests_pause_as_their_number_asks_and_are_not_refused(clock: Clock) -> None:
    throughput = Throughput(RATE, clock)
    for _ in range(int(UNPACED_SECONDS * RATE / REQUEST_COST)):
        throughput.add_request(A)
    assert throughput.pause(A) == 0
    began, more = clock.now, 10 * int(BURST_SECONDS * RATE / REQUEST_COST)
    for _ in range(more):
        throughput.add_request(A)
        clock.now += throughput.pause(A)
    assert clock.now - began == pytest.approx(more * REQUEST_COST / RATE)  # pyright: ignore[reportUnknownMemberType]
    assert throughput.refusal(A) is None
    assert throughput.pause(B) == 0


def test_requests_of_a_site_count_whichever_of_its_clients_sends_them(clock: Clock) -> None:
    throughput = Throughput(RATE, clock)
    number = 0
    while not throughput.pause("2001:db8:1:ffff::/64"):
        throughput.add_request(f"2001:db8:1:{number:x}::/64")
        number += 1
    assert number == SITE_SHARE * UNPACED_SECONDS * RATE / REQUEST_COST + 1
    assert throughput.pause("2001:db8:2::/64") == 0


def test_a_body_counts_more_than_an_answer(clock: Clock) -> None:
    throughput = Throughput(RATE, clock)
    assert moved(throughput, A, MIB, BODY_WEIGHT) * BODY_WEIGHT <= BURST_SECONDS * RATE + BODY_WEIGHT * MIB


@pytest.mark.parametrize(("rate", "size"), [(RATE, FREE_BYTES - 1), (0, MIB)], ids=["small", "any number"])
def test_what_is_small_is_not_counted(clock: Clock, rate: int, size: int) -> None:
    throughput = Throughput(rate, clock)
    for _ in range(100_000):
        throughput.add(A, size)
    assert throughput.refusal(A) is None


@pytest.mark.parametrize("size", [FREE_BYTES, 64 * MIB])
def test_many_clients_take_no_more_memory_than_some(clock: Clock, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    throughput, forgets = Throughput(RATE, clock), list[None]()
    forget = throughput._forget  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(throughput, "_forget", lambda: forgets.append(forget()))
    moved(throughput, A, 64 * MIB)
    throughput.add(A, 64 * MIB)
    for number in range(30_000):
        clock.now += 0.0001
        throughput.add(f"2001:db8:{number:x}::/64", size)
        assert len(throughput._full_at) <= MAX_CLIENTS  # pyright: ignore[reportPrivateUsage]
    assert len(throughput._over) <= MAX_CLIENTS  # pyright: ignore[reportPrivateUsage]
    assert len(throughput._next_at) <= MAX_CLIENTS  # pyright: ignore[reportPrivateUsage]
    names = 2 * 30_000  # each client belongs to another site
    assert len(forgets) <= 2 * names / MAX_CLIENTS, "not for each new client"
    assert throughput.refusal(A) is not None


@pytest.mark.usefixtures("no_refill")
class TestNode:
    @pytest.fixture
    def overrides(self, tmp_path: Path) -> dict[str, Any]:
        return {
            "limits": Limits(reply=Limit(1000, 1), task=Limit(1000, 1), board=Limit(1000, 1)),
            "client_bytes": 0,
            "client_throughput": RATE,
            "data_dir": tmp_path,
            "blob_reserve": 0,
        }

    async def test_who_reads_large_threads_again_and_again_is_refused_and_others_are_not(
        self, node: NodeUnderTest
    ) -> None:
        new = {"title": "A long thread", "body": "This is a long report about solar panels. " * 400}
        thread = (await node.client_at(B).post("/api/v1/board", json=new)).json()
        for _ in range(40):
            reply = await node.client_at(B).post(f"/api/v1/board/{thread['id']}/replies", json={"body": new["body"]})
            assert reply.status_code == 201
        size = 0
        while (response := await node.client.get(f"/api/v1/board/{thread['id']}")).status_code == 200:
            size += len(response.content) + REQUEST_COST
        assert size > BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"
        assert int(response.headers["retry-after"]) >= 1
        assert (await node.client.get("/board")).status_code == 429
        assert (await node.client.get("/health")).status_code == 200
        assert (await node.client_at("198.51.100.1").get(f"/api/v1/board/{thread['id']}")).status_code == 200

    async def test_replies_count_by_what_judging_them_costs(self, node: NodeUnderTest) -> None:
        thread = (
            await node.client_at(B).post("/api/v1/board", json={"title": "A short thread", "body": "Hello."})
        ).json()
        path, reply = f"/api/v1/board/{thread['id']}/replies", {"body": "This is a report about solar panels. " * 100}
        size = 0
        while (response := await node.client.post(path, json=reply)).status_code == 201:
            size += FREE_BYTES + REPLY_WEIGHT * len(response.request.content) + len(response.content) + REQUEST_COST
        assert size > BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"
        assert (await node.client_at(B).post(path, json=reply)).status_code == 201

    async def test_of_a_download_what_waits_in_memory_for_its_reader_counts(self, node: NodeUnderTest) -> None:
        artifact = await available(node, bytes(MIB), media_type="application/octet-stream")
        place = (await node.client_at(B).get(artifact["content_url"])).headers["location"]
        times = 0
        while (response := await node.client.get(place)).status_code == 200:
            times += 1
        assert times * (MOUNTED_BYTES + REQUEST_COST) > BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"
        assert (await node.client_at(B).get(place)).status_code == 200

    @pytest.mark.parametrize(("pieces", "last"), [(7, "http.request"), (7, "http.disconnect"), (0, "http.disconnect")])
    async def test_what_is_uploaded_for_nothing_counts(self, node: NodeUnderTest, pieces: int, last: str) -> None:
        size = 7 * MIB  # a bucket has room for one of these, but not for two
        artifact = await registered(node, byte_size=size, media_type="application/octet-stream")
        path = urlsplit(str(artifact["upload_url"])).path
        piece: ASGIMessage = {"type": "http.request", "body": bytes(MIB), "more_body": True}
        answers: list[int] = []

        async def send(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                answers.append(message["status"])

        uploads = int(BURST_SECONDS * RATE // max(pieces * MIB, FAILED_UPLOAD_BYTES) + 2)
        while 429 not in answers and uploads:
            uploads -= 1
            messages = chain(repeat(piece, pieces), [{"type": last}])
            scope = http_scope("PUT", path, (b"content-length", b"%d" % size), client=A)
            await node.app(scope, partial(anext, _each(messages)), send)
        assert answers == ([400, 400, 429] if last == "http.request" else [429])
        assert (await node.client_at(B).get(artifact["url"])).status_code == 200

    async def test_a_thread_that_is_read_for_none_of_its_events_counts(self, node: NodeUnderTest) -> None:
        new = {"title": "A long thread", "body": "This is a long report about solar panels. " * 400}
        thread = (await node.client_at(B).post("/api/v1/board", json=new)).json()["id"]
        query, times = {"topic": f"thread:{thread}"}, 0
        while (response := await node.client.get("/api/v1/events", params=query)).status_code == 200:
            times += 1
            assert (times - 1) * THREAD_BYTES < BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"

    @pytest.mark.parametrize(("path", "texts"), [("/sitemap.xml", 25), ("/board", 20), ("/tasks", 20), ("/", 10)])
    async def test_texts_of_which_a_page_shows_little_count_as_a_whole(
        self, node: NodeUnderTest, path: str, texts: int
    ) -> None:
        long = "This is a long report about solar panels. " * 400
        for _ in range(25):
            thread = {"title": "A long thread", "body": long}
            offer = {"publisher_id": "p", "title": "A long offer", "description": long}
            for where, new in (("/api/v1/board", thread), ("/api/v1/tasks", offer)):
                assert (await node.client_at(B).post(where, json=new)).status_code == 201
        times = 0
        while (response := await node.client.get(path)).status_code == 200:
            times += 1
            assert (times - 1) * texts * len(long.strip()) < BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"
        assert (await node.client_at("198.51.100.1").get(path)).status_code == 200

    async def test_replies_that_a_page_leaves_to_the_next_ones_count_as_well(self, node: NodeUnderTest) -> None:
        long = "This is a long report about solar panels. " * 400
        thread = (await node.client_at(B).post("/api/v1/board", json={"title": "A long thread", "body": long})).json()
        for _ in range(20):
            reply = await node.client_at(B).post(f"/api/v1/board/{thread['id']}/replies", json={"body": long})
            assert reply.status_code == 201
        times = 0
        while (response := await node.client.get(f"/board/{thread['id']}")).status_code == 200:
            times += 1
            assert (times - 1) * 20 * len(long.strip()) < BURST_SECONDS * RATE
        assert response.headers["x-error-code"] == "limit.throughput"

    async def test_offers_that_are_looked_at_for_who_waits_count_by_their_number(self, node: NodeUnderTest) -> None:
        fits_nobody = ("publisher_id", "nobody", "skills", "[]")
        await node.store.run_all([("XADD", keys.OFFERS, "*", "id", UNKNOWN, *fits_nobody) for _ in range(2 * PAGE)])
        query = {"status": "offered", "since": "0-1", "skill": "law", "wait": 0.001}
        most = int(BURST_SECONDS * RATE / (PAGE * LOOK_BYTES))
        answers = [await node.client.get("/api/v1/tasks", params=query) for _ in range(most + 2)]
        assert (answers[0].status_code, answers[0].json()["tasks"]) == (200, [])
        assert answers[-1].headers["x-error-code"] == "limit.throughput"
        assert (await node.client_at(B).get("/api/v1/tasks", params=query)).status_code == 200

    @pytest.mark.parametrize("piece_bytes", [1, SMALL_PIECE_BYTES - 1, SMALL_PIECE_BYTES])
    async def test_an_upload_in_tiny_pieces_counts_by_their_number_while_it_comes(
        self, node: NodeUnderTest, piece_bytes: int
    ) -> None:
        most = BURST_SECONDS * RATE // PIECE_COST
        size = 2 * most * piece_bytes
        artifact = await registered(node, byte_size=size, media_type="application/octet-stream")
        pieces, answers = 0, list[int]()

        async def receive() -> ASGIMessage:
            nonlocal pieces
            pieces += 1
            return {"type": "http.request", "body": bytes(piece_bytes), "more_body": pieces * piece_bytes < size}

        async def send(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                answers.append(message["status"])

        path = urlsplit(str(artifact["upload_url"])).path
        await node.app(http_scope("PUT", path, (b"content-length", b"%d" % size), client=A), receive, send)
        if piece_bytes < SMALL_PIECE_BYTES:
            assert (answers, most < pieces <= most + FREE_BYTES // PIECE_COST + 2) == ([429], True)
        else:
            assert (answers, pieces) == ([400], 2 * most)

    async def test_bodies_that_are_refused_count_too(self, node: NodeUnderTest) -> None:
        body = b"[" + b"{}," * 300_000 + b"{}]"
        codes: set[str] = set()
        for _ in range(60):
            response = await node.client.post(
                "/api/v1/tasks", content=body, headers={"content-type": "application/json"}
            )
            codes.add(response.headers["x-error-code"])
        assert "limit.throughput" in codes
        assert (await node.client_at(B).get("/api/v1/board")).status_code == 200

    @pytest.mark.parametrize(
        ("method", "path"), [("POST", "/nowhere"), ("GET", "/api/v1/tasks"), ("OPTIONS", "/blobs/none")]
    )
    async def test_bodies_that_no_handler_reads_count_too(self, node: NodeUnderTest, method: str, path: str) -> None:
        codes: list[str] = []
        while "limit.throughput" not in codes:
            assert len(codes) < 30
            response = await node.client.request(method, path, content=bytes(MIB))
            codes.append(response.headers.get("x-error-code", ""))
        health = await node.client.request("GET", "/health", content=bytes(MIB))
        assert (health.status_code, health.headers["connection"]) == (200, "close"), "answered, and its body not read"

    @pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/tasks/{}"])
    async def test_bodies_of_clients_that_do_not_wait_for_the_answer_count_too(
        self, node: NodeUnderTest, path: str
    ) -> None:
        offered = await node.client_at(B).post("/api/v1/tasks", json={"publisher_id": "p", "title": "A long report"})
        path, length, answers = path.format(offered.json()["id"]), (b"content-length", b"%d" % MIB), list[int]()

        async def send(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                answers.append(message["status"])

        for _ in range(30):
            messages: list[ASGIMessage] = [{"type": "http.request", "body": bytes(MIB)}, {"type": "http.disconnect"}]
            scope = http_scope("GET", path, HOST, length, client=A)
            scope["query_string"] = b"topic=board&wait=30"
            await node.app(scope, partial(anext, _each(messages)), send)
            if answers:
                break
        assert answers == [429]


@pytest.mark.settings(client_throughput=SLOW_RATE)
@pytest.mark.usefixtures("no_refill")
class TestNodeOfALowRate:
    @pytest.mark.parametrize(("condition", "status"), [("if-none-match", 304), ("if-match", 412)])
    async def test_a_page_that_the_client_has_counts_as_if_it_were_sent(
        self, node: NodeUnderTest, condition: str, status: int
    ) -> None:
        new = {"title": "A long thread", "body": "This is a long report about solar panels. " * 400}
        thread = (await node.client_at(B).post("/api/v1/board", json=new)).json()
        page = await node.client_at(B).get(f"/board/{thread['id']}")
        assert len(page.content) > FREE_BYTES
        known = {condition: page.headers["etag"] if status == 304 else '"another"'}
        times = 0
        while (response := await node.client.get(f"/board/{thread['id']}", headers=known)).status_code == status:
            times += 1
            assert (times - 1) * MADE_WEIGHT * len(page.content) <= BURST_SECONDS * SLOW_RATE
        assert response.headers["x-error-code"] == "limit.throughput"

    @pytest.mark.parametrize("path", ["/nowhere", "/api/v1/feedback", f"/api/v1/tasks/{UNKNOWN}?wait=1"])
    async def test_a_body_in_tiny_pieces_counts_by_their_number(self, node: NodeUnderTest, path: str) -> None:
        pieces = BURST_SECONDS * SLOW_RATE / PIECE_COST
        method = "GET" if "wait" in path else "POST"
        await node.client.request(method, path, content=_each([b" "] * int(pieces + 1)))
        refused = await node.client.get("/api/v1/board")
        assert refused.headers.get("x-error-code") == "limit.throughput"
