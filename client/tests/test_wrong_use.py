"""What can never succeed is raised at once and not retried: wrong addresses, texts and answers."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.support.fixed_answer import FixedAnswer, answer

from relay_client import AsyncRelay, InvalidAnswer, Refused, Relay, UsageError
from relay_client.events import Events
from relay_client.fast import AiohttpTransport
from relay_client.steps import Send
from relay_client.transport import AsyncHttpxTransport, AsyncTransport

NODE = "http://node.example"
PATIENCE = 20.0  # s anything here may take on a busy machine
PORTAL = answer("200 OK", b"<html>Please log in</html>", "Content-Type: text/html")
MOVED = answer("301 Moved Permanently", b"", "Location: https://node.example/moved")


@pytest.fixture(params=[AsyncHttpxTransport, AiohttpTransport], ids=["httpx", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> AsyncTransport:
    return request.param()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://node.example",
        "http://",
        "http://[bad",
        "http://localhost:99999",
        "http://node.example/?a=b",
        "http://node.example\n",
    ],
)
def test_what_cannot_be_the_address_of_a_node_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Relay(url)


NO_TEXT: Any = UUID(int=1)
UNFIT: list[Callable[[Relay], object]] = [
    lambda relay: relay.inboxes.read("address", "token\n"),
    lambda relay: relay.inboxes.read("address", "tökén"),
    lambda relay: relay.messages.send("\udc80"),
    lambda relay: relay.messages.send("Hello", key="é"),
    lambda relay: relay.messages.send("Hello", key=NO_TEXT),
    lambda relay: relay.tasks.get("1", wait=float("inf")),
    lambda relay: relay.tasks.get("1", wait=float("nan")),
    lambda relay: relay.tasks.get("\udc80"),
    lambda relay: relay.tasks.result("\udc80"),
    lambda relay: relay.tasks.get(""),
    lambda relay: relay.tasks.cancel(".", "token"),
    lambda relay: relay.inboxes.close("..", "token"),
    lambda relay: relay.messages.stream("Hello", media_type="text/plain\r\nx: y"),
    lambda relay: relay.tasks.complete("1", "token", {"a set"}),
    lambda relay: relay.tasks.complete("1", "token", {"due": datetime(2026, 1, 1)}),
    lambda relay: relay.artifacts.register("desk", "text/csv", 1, "no hex"),
    lambda relay: relay.with_options(deadline=0),
    lambda relay: relay.with_options(deadline=float("nan")),
    lambda relay: relay.with_options(tries=0),
]


@pytest.mark.parametrize("call", UNFIT)
def test_what_cannot_be_sent_is_refused(call: Callable[[Relay], object]) -> None:
    with Relay(NODE) as relay, pytest.raises(UsageError):
        call(relay)


def test_unknown_parameters_raise_type_error() -> None:
    with Relay(NODE) as relay, pytest.raises(TypeError, match="status_code"):
        relay.tasks.get("1", status_code=1)  # pyright: ignore[reportCallIssue]


def test_one_type_of_events_may_be_given_as_text() -> None:
    assert Events.page.call("board", types="thread.posted") == Events.page.call("board", types=["thread.posted"])


def test_a_closed_client_says_so() -> None:
    with Relay(NODE) as relay:
        pass
    with pytest.raises(UsageError, match="closed"):
        relay.node.health()
    with pytest.raises(UsageError, match="closed"):
        next(relay.events.follow("board"))


async def test_a_closed_client_for_asyncio_says_so(transport: AsyncTransport) -> None:
    async with AsyncRelay(NODE, transport=transport) as relay:
        pass
    with pytest.raises(UsageError, match="closed"):
        await relay.node.health()
    with pytest.raises(UsageError, match="closed"):
        await followed(relay)


async def test_an_address_that_the_node_gives_may_be_wrong_too(transport: AsyncTransport) -> None:
    with pytest.raises(UsageError):
        await transport.send(Send("GET", "nowhere://s3.example/1", {}))
    with pytest.raises(UsageError):
        await transport.open(Send("GET", "nowhere://s3.example/1", {}, is_stream=True))
    await transport.close()


async def test_a_redirect_is_no_success(transport: AsyncTransport) -> None:
    async with FixedAnswer(MOVED) as other, AsyncRelay(other.url, transport=transport) as relay:
        for asking in (relay.node.health(), relay.board.post("A question", "Who can count apples?"), followed(relay)):
            with pytest.raises(Refused, match=r"https://node\.example/moved") as refused:
                await asyncio.wait_for(asking, PATIENCE)
            assert refused.value.status == 301
        assert await relay.artifacts.content("1") is None  # its Location says where the bytes are


async def test_an_answer_of_something_else_is_no_success(transport: AsyncTransport) -> None:
    async with FixedAnswer(PORTAL) as other, AsyncRelay(other.url, transport=transport) as relay:
        for asking in (relay.node.health(), relay.tasks.result("1"), followed(relay)):
            with pytest.raises(InvalidAnswer):
                await asyncio.wait_for(asking, PATIENCE)


async def test_lines_that_are_no_events_raise(transport: AsyncTransport) -> None:
    lines = answer("200 OK", b"no event\n", "Content-Type: application/x-ndjson")
    async with FixedAnswer(lines) as other, AsyncRelay(other.url, transport=transport) as relay:
        with pytest.raises(InvalidAnswer):
            await asyncio.wait_for(followed(relay), PATIENCE)


async def followed(relay: AsyncRelay) -> None:
    async for _ in relay.events.follow("board"):
        raise AssertionError
