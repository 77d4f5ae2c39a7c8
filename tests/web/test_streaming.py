"""An answer that is created while it is sent arrives complete, whichever way its request reached its handler."""

import asyncio

import pytest

from node.common.refusal import Refused
from node.web.http import ASGIMessage, Request, Response
from node.web.responder import Responder
from node.web.route import Route
from node.web.streams import PIECE_BYTES, Piece, StreamCount, Streaming, send_in_time
from node.web.throughput import FREE_BYTES, Throughput
from tests.support.http_scope import HOST, http_scope
from tests.support.lone_request import lone_request
from tests.support.one_route import client_of, front_of

EVENT_STREAM = ((b"content-type", b"text/event-stream"),)
PIECES = [b"event: one\n\n", b"event: two\n\n"]


async def nothing() -> None:
    """End a stream that took nothing."""


async def stream(request: Request) -> Response:
    async def run(send: Piece) -> None:
        for piece in PIECES:
            await send(piece)

    request.answer_headers.append((b"ratelimit", b"noted"))
    return Streaming(run, (*EVENT_STREAM, (b"cache-control", b"no-cache")), nothing)


ROUTE = Route(method="GET", path="/stream", handler=stream, summary="", tag="")


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_stream_is_sent_by_hot_routes_and_by_all_others(is_hot: bool, method: str) -> None:
    app = await (front_of(ROUTE) if is_hot else front_of(others=[ROUTE]))
    async with client_of(app) as client:
        answer = await client.request(method, "/stream")
    assert answer.status_code == 200
    assert answer.content == (b"".join(PIECES) if method == "GET" else b"")
    assert answer.headers.get_list("content-type") == ["text/event-stream"]
    assert (answer.headers["cache-control"], answer.headers["ratelimit"]) == ("no-cache", "noted")
    assert "content-length" not in answer.headers


@pytest.mark.parametrize("is_hot", [True, False])
async def test_what_a_stream_moves_counts_as_what_an_answer_does(is_hot: bool) -> None:
    async def long(request: Request) -> Response:
        async def run(send: Piece) -> None:
            for _ in range(32):
                await send(bytes(FREE_BYTES))

        return Streaming(run, EVENT_STREAM, nothing)

    route = Route(method="GET", path="/stream", handler=long, summary="", tag="")
    app = await front_of(*([route] if is_hot else []), others=[] if is_hot else [route], rate=FREE_BYTES)
    async with client_of(app) as client:
        first, second = await client.get("/stream"), await client.get("/stream")
    assert (first.status_code, len(first.content)) == (200, 32 * FREE_BYTES)
    assert (second.status_code, second.headers["x-error-code"]) == (429, "limit.throughput")


@pytest.mark.parametrize("is_hot", [True, False])
async def test_the_body_of_a_request_counts_once_in_however_many_pieces_it_is_answered(is_hot: bool) -> None:
    async def answer(request: Request) -> Response:
        await request.body()

        async def run(send: Piece) -> None:
            for _ in range(32):
                await send(PIECES[0])

        return Streaming(run, EVENT_STREAM, nothing)

    route = Route(method="POST", path="/stream", handler=answer, summary="", tag="")
    app = await front_of(*([route] if is_hot else []), others=[] if is_hot else [route], rate=FREE_BYTES)
    async with client_of(app) as client:
        answers = [await client.post("/stream", content=bytes(FREE_BYTES)) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]


async def test_a_stream_keeps_nothing_of_the_body_of_its_request() -> None:
    kept = [True]

    class Body(bytes):
        def __del__(self) -> None:
            kept[0] = False

    async def receive() -> ASGIMessage:
        if request.is_unread:
            return {"type": "http.request", "body": Body(b"body"), "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: ASGIMessage) -> None:
        pass

    async def run(send: Piece) -> None:
        assert not kept[0]
        kept.clear()

    request = lone_request({"method": "POST", "path": "/", "headers": [(b"content-length", b"4")]}, receive)
    assert (await request.body(), kept) == (b"body", [True])
    await Responder(None, Throughput(0)).stream(request, Streaming(run, (), nothing), send)
    assert kept == []


async def test_a_stream_whose_client_is_gone_has_ended_before_its_place_is_given_back() -> None:
    steps: list[str] = []

    async def send_on(_: Piece) -> None:
        try:
            steps.append("sends")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("has ended")

    async def end() -> None:
        steps.append("place is free")

    async def long(_: Request) -> Response:
        return Streaming(send_on, EVENT_STREAM, end)

    async def receive() -> ASGIMessage:
        return {"type": "http.disconnect"}

    async def send(_: ASGIMessage) -> None: ...

    app = await front_of(Route(method="GET", path="/stream", handler=long, summary="", tag=""))
    await app(http_scope("GET", "/stream", HOST), receive, send)
    assert steps == ["sends", "has ended", "place is free"]


async def test_a_large_piece_is_sent_in_parts_each_after_the_one_before_was_taken() -> None:
    sent: list[bytes] = []
    whole = bytes(range(256)) * (PIECE_BYTES // 100)

    async def take(piece: bytes) -> None:
        await asyncio.sleep(0)
        sent.append(piece)

    await send_in_time(whole, take)
    assert b"".join(sent) == whole
    assert [len(part) for part in sent[:-1]] == [PIECE_BYTES] * (len(whole) // PIECE_BYTES)


async def test_a_stream_that_has_ended_leaves_its_place_among_those_of_the_process() -> None:
    streams = StreamCount()
    async with streams.opening(2):
        assert streams.taken(2) == 0, "there is no other"
        for _ in range(2):
            async with streams.opening(2):
                assert streams.taken(2) == 0.5
                with pytest.raises(Refused, match=r"store\.busy"):
                    streams.opening(2)
