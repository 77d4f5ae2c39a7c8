"""A body is read no further than announced, beginning with what the server was already asked for."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any

import pytest

from node.common.refusal import Refused
from node.web import http
from node.web.http import FIRST_MESSAGE, ASGIMessage, Disconnected, receive_all
from tests.support.lone_request import lone_request
from tests.support.servers import eventually

GONE: ASGIMessage = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = True) -> ASGIMessage:
    """Return a message as Granian sends it. Granian does not know yet that the last piece is the last one."""
    return {"type": "http.request", "body": body, "more_body": more}


class Client:
    """A request whose body consists of these messages. Asking for one more is an error."""

    def __init__(
        self, *messages: ASGIMessage, length: int | None = None, first: "asyncio.Future[ASGIMessage] | None" = None
    ):
        self._messages: Sequence[ASGIMessage] = messages
        self.received = 0
        headers = [] if length is None else [(b"content-length", b"%d" % length)]
        self.scope: dict[str, Any] = {"method": "POST", "path": "/", "headers": headers}
        if first is not None:
            self.scope[FIRST_MESSAGE] = first
        self.request = lone_request(self.scope, self.receive)

    async def receive(self) -> ASGIMessage:
        message = self._messages[self.received]
        self.received += 1
        return message


def asked(message: ASGIMessage | None = None) -> "asyncio.Future[ASGIMessage]":
    """Return a pending message that the server was asked for; it has arrived if `message` is given."""
    future: asyncio.Future[ASGIMessage] = asyncio.get_running_loop().create_future()
    if message is not None:
        future.set_result(message)
    return future


async def test_an_announced_body_is_read_no_further_than_its_end() -> None:
    client = Client(piece(b"one, "), piece(b"two"), length=8)
    assert await client.request.body() == b"one, two"
    assert client.received == 2


async def test_a_body_of_unknown_length_is_read_until_there_is_no_more() -> None:
    client = Client(piece(b"one"), piece(b", two"), piece(b"", more=False))
    assert await client.request.body() == b"one, two"


async def test_where_no_body_is_announced_none_is_waited_for() -> None:
    assert await Client(length=0).request.body() == b""


async def test_a_body_that_is_there_already_is_not_asked_for_again() -> None:
    client = Client(length=3, first=asked(piece(b"all")))
    assert await client.request.body() == b"all"
    assert await client.request.body() == b"all"


async def test_a_body_that_was_asked_for_is_waited_for() -> None:
    first = asked()
    client = Client(piece(b" and the rest"), length=18, first=first)
    body = asyncio.ensure_future(client.request.body())
    await asyncio.sleep(0)
    assert not body.done()
    first.set_result(piece(b"first"))
    assert await body == b"first and the rest"


async def test_a_body_that_was_asked_for_and_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_STALL_SECONDS", 0.0)
    first = asked()
    with pytest.raises(Refused, match=r"body\.stalled"):
        await Client(length=3, first=first).request.body()
    assert first.cancelled()


@pytest.mark.parametrize(("size", "is_given_up"), [(50_000, True), (150_000, False)])
async def test_a_body_of_which_too_little_has_come_is_given_up_however_often_a_piece_comes(
    monkeypatch: pytest.MonkeyPatch, size: int, is_given_up: bool
) -> None:
    monkeypatch.setattr(http, "MIN_BODY_RATE", 1)
    began = itertools.chain([monotonic() - 100_000 - http.BODY_STALL_SECONDS], iter(monotonic, None))
    monkeypatch.setattr(http, "monotonic", lambda: next(began))

    async def receive() -> ASGIMessage:
        request.deadlines._check()  # pyright: ignore[reportPrivateUsage]  # as its timer does
        await asyncio.sleep(0)
        return piece(b"", more=False)

    first = asked(piece(bytes(size)))
    request = lone_request({"method": "POST", "path": "/", "headers": [], FIRST_MESSAGE: first}, receive)
    with pytest.raises(Refused, match=r"body\.stalled") if is_given_up else nullcontext():
        assert len(await request.body()) == size


@pytest.mark.parametrize("first", [GONE, None])
async def test_a_client_that_leaves_before_its_end_is_refused(first: ASGIMessage | None) -> None:
    client = Client(piece(b"half"), GONE, length=8, first=asked(first) if first else None)
    with pytest.raises(Refused, match=r"body\.incomplete"):
        await client.request.body()


@pytest.mark.parametrize("length", [None, http.MAX_BODY_BYTES])
async def test_a_piece_beyond_the_limit_is_refused(length: int | None) -> None:
    client = Client(length=length, first=asked(piece(bytes(http.MAX_BODY_BYTES + 1))))
    with pytest.raises(Refused, match=r"body\.too_large"):
        await client.request.body()


async def test_an_app_that_reads_by_itself_begins_with_what_was_asked_for() -> None:
    client = Client(piece(b"two"), GONE, first=asked(piece(b"one")))
    receive = receive_all(client.scope, client.receive)
    assert [await receive() for _ in range(3)] == [piece(b"one"), piece(b"two"), GONE]


async def test_an_app_for_which_nothing_was_asked_begins_at_the_beginning() -> None:
    client = Client(piece(b"one"), GONE)
    receive = receive_all(client.scope, client.receive)
    assert [await receive(), await receive()] == [piece(b"one"), GONE]


async def test_a_body_that_nobody_read_is_taken_off_the_connection() -> None:
    client = Client(piece(b"one, "), piece(b"two"), length=8)
    assert client.request.is_unread
    assert await client.request.discard_body()
    assert client.received == 2
    assert not client.request.is_unread


async def test_a_body_that_came_while_its_request_was_held_is_not_waited_for_again() -> None:
    gone: asyncio.Future[ASGIMessage] = asyncio.get_running_loop().create_future()
    messages = [piece(b"half"), piece(b"", more=False)]

    async def receive() -> ASGIMessage:
        return messages.pop(0) if messages else await gone

    request = lone_request({"method": "GET", "path": "/", "headers": [(b"content-length", b"4")]}, receive)
    news: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait() -> str:
        return await news

    held = asyncio.ensure_future(request.while_waiting(30, wait()))
    await eventually(lambda: not messages)
    news.set_result("news")
    assert await held == "news"
    assert not request.is_unread


async def test_a_body_that_was_given_up_is_not_read_on() -> None:
    client = Client(piece(bytes(http.MAX_BODY_BYTES + 1)), piece(b"more"))
    with pytest.raises(Refused, match=r"body\.too_large"):
        await client.request.body()
    assert not await client.request.discard_body()
    assert client.received == 1


async def test_a_compressed_body_is_taken_off_too() -> None:
    client = Client(piece(b"zip"), length=3)
    headers = [*client.scope["headers"], (b"content-encoding", b"gzip")]
    client.request = lone_request({**client.scope, "headers": headers}, client.receive)
    with pytest.raises(Refused, match=r"body\.encoded"):
        await client.request.body()
    assert await client.request.discard_body()


async def test_a_wait_whose_client_is_gone_has_ended_before_its_request_does() -> None:
    waiting, cleaned = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    client = Client(GONE)
    with pytest.raises(Disconnected):
        await client.request.while_waiting(30, wait())
    assert waiting.is_set()
    assert cleaned.is_set()
