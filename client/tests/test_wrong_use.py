"""Calls that can never succeed raise at once and are not retried: wrong addresses, texts and answers."""

import asyncio
import pickle
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.servers import PATIENCE

from relay_client import AsyncRelay, InvalidAnswer, InvalidRequest, NotFound, Refused, Relay, Unreachable, UsageError
from relay_client.events import Events
from relay_client.fast import AiohttpTransport
from relay_client.steps import Send
from relay_client.transport import AsyncHttpxTransport, AsyncTransport

NODE = "http://node.example"
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


@pytest.mark.parametrize("url", ["https://desk:opensesame@node.example", "http://opensesame@node.example:0"])
def test_an_address_with_a_password_is_refused_without_repeating_it(url: str) -> None:
    """Regression: httpx sent the password in place of every token, errors showed it, and aiohttp raised ValueError."""
    with pytest.raises(UsageError) as refused:
        Relay(url)
    assert "opensesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("HTTPS://Node.Example:443/Root/", "https://node.example/Root"),
        ("http://node.example:/", "http://node.example"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://node.example:443//", "http://node.example:443"),
    ],
)
def test_an_address_is_signed_as_libraries_send_it(url: str, base: str) -> None:
    assert Relay(url).carrier.base_url == base


def test_a_client_is_of_one_event_loop(transport: AsyncTransport) -> None:
    """Regression: in a second event loop, the client occasionally raised RuntimeError."""
    relay = AsyncRelay("http://127.0.0.1:1", transport=transport, tries=1)
    with asyncio.Runner() as first:
        with pytest.raises(Unreachable):
            first.run(relay.node.health())
        with pytest.raises(UsageError, match="another event loop"):
            asyncio.run(relay.node.health())
        first.run(relay.aclose())


NO_TEXT: Any = UUID(int=1)
UNFIT: list[Callable[[Relay], object]] = [
    lambda relay: relay.inboxes.read("address", "token\n"),
    lambda relay: relay.inboxes.read("address", "tökén"),
    lambda relay: relay.messages.send("\udc80"),
    lambda relay: relay.messages.send("Hello", key="é"),
    lambda relay: relay.messages.send("Hello", key=NO_TEXT),
    lambda relay: relay.tasks.get("1", wait=float("inf")),
    lambda relay: relay.tasks.get("1", wait=float("nan")),
    lambda relay: relay.tasks.get("1", wait=-1),
    lambda relay: relay.tasks.claim_next("worker", wait=-20),
    lambda relay: relay.tasks.get("\udc80"),
    lambda relay: relay.tasks.result("\udc80"),
    lambda relay: relay.tasks.get(""),
    lambda relay: relay.tasks.cancel(".", "token"),
    lambda relay: relay.inboxes.close("..", "token"),
    lambda relay: relay.messages.stream("Hello", media_type="text/plain\r\nx: y"),
    lambda relay: relay.tasks.complete("1", "token", {"a set"}),
    lambda relay: relay.tasks.complete("1", "token", {"due": datetime(2026, 1, 1)}),
    lambda relay: relay.tasks.complete("1", "token", {"share": float("nan")}),
    lambda relay: relay.artifacts.register("desk", "text/csv", 1, "no hex"),
    lambda relay: relay.with_options(deadline=0),
    lambda relay: relay.with_options(deadline=float("nan")),
    lambda relay: relay.with_options(tries=0),
]


@pytest.mark.parametrize("call", UNFIT)
def test_what_cannot_be_sent_is_refused(call: Callable[[Relay], object]) -> None:
    with Relay(NODE) as relay, pytest.raises(UsageError):
        call(relay)


def test_a_name_that_no_host_can_have_cannot_be_reached() -> None:
    """Regression: such names raised UnicodeError."""
    for name in ("a..b", f"{'a' * 64}.example", "xn--a"):
        with Relay(f"http://{name}") as relay, pytest.raises(UsageError):
            relay.node.health()


async def test_a_name_that_no_host_can_have_cannot_be_reached_beside_others() -> None:
    async with AsyncRelay("http://a..b", transport=AiohttpTransport()) as relay:
        with pytest.raises(UsageError):
            await relay.node.health()


async def test_a_refusal_can_be_passed_between_processes(transport: AsyncTransport) -> None:
    """Regression: a process pool broke or hung when a call in one of its processes was refused."""
    async with FixedAnswer(MOVED) as other, AsyncRelay(other.url, transport=transport) as relay:
        with pytest.raises(Refused) as refused:
            await relay.node.health()
    refused.value.may_have_happened = True
    passed = pickle.loads(pickle.dumps(refused.value))
    assert (type(passed), str(passed), passed.status) == (Refused, str(refused.value), 301)
    assert passed.headers["location"] == "https://node.example/moved"
    assert passed.may_have_happened


def test_unknown_parameters_raise_type_error_that_names_the_method() -> None:
    with Relay(NODE) as relay, pytest.raises(TypeError, match=r"get\(\) got .*'status_code'"):
        relay.tasks.get("1", status_code=1)  # pyright: ignore[reportCallIssue]
    with Relay(NODE) as relay, pytest.raises(TypeError, match=r"offer\(\) missing .*'title'"):
        relay.tasks.offer("desk")  # pyright: ignore[reportCallIssue]


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
        assert await relay.artifacts.content("1") is None  # a redirect, whose Location says where the bytes are


async def test_an_answer_of_something_else_is_no_success(transport: AsyncTransport) -> None:
    async with FixedAnswer(PORTAL) as other, AsyncRelay(other.url, transport=transport) as relay:
        for asking in (relay.node.health(), relay.tasks.result("1"), followed(relay)):
            with pytest.raises(InvalidAnswer):
                await asyncio.wait_for(asking, PATIENCE)


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b'{"status":"ok"}', b"[" * 100_000])
async def test_json_of_something_else_is_no_success(transport: AsyncTransport, tmp_path: Path, content: bytes) -> None:
    """Regression: such answers raised KeyError, TypeError or RecursionError."""
    async with FixedAnswer(answer("200 OK", content)) as other, AsyncRelay(other.url, transport=transport) as relay:
        for asking in (
            relay.artifacts.upload(b"name", "desk"),
            relay.artifacts.download("1", tmp_path / "copy"),
            anext(relay.sessions.lines("1")),
            anext(relay.board.threads()),
            anext(relay.inboxes.messages("address", "token")),
        ):
            with pytest.raises(InvalidAnswer):
                await asyncio.wait_for(asking, PATIENCE)


async def test_members_of_other_types_than_a_nodes_are_no_success(transport: AsyncTransport) -> None:
    """Regression: such answers raised TypeError or AttributeError."""
    odd = answer("200 OK", b'{"tasks":null,"lines":[1],"messages":2,"upload_url":"/","upload_headers":[]}')
    async with FixedAnswer(odd) as other, AsyncRelay(other.url, transport=transport) as relay:
        for asking in (
            relay.artifacts.upload(b"name", "desk"),
            anext(relay.tasks.all()),
            anext(relay.sessions.lines("1")),
            anext(relay.inboxes.messages("address", "token")),
        ):
            with pytest.raises(InvalidAnswer):
                await asyncio.wait_for(asking, PATIENCE)
        with pytest.raises(AttributeError):  # the argument is wrong, not the answer
            await relay.artifacts.upload(3, "desk")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("detail", ['["text"]', '[{"msg": "text"}]', '[{"loc": 1, "msg": "text"}]', "[" * 100_000])
async def test_a_refusal_may_have_any_content(transport: AsyncTransport, detail: str) -> None:
    """Regression: such refusals raised TypeError, KeyError or RecursionError."""
    refusal = answer("422 Unprocessable Content", f'{{"detail": {detail}}}'.encode())
    async with FixedAnswer(refusal) as other, AsyncRelay(other.url, transport=transport) as relay:
        with pytest.raises(InvalidRequest):
            await relay.node.health()


async def test_the_refusal_of_a_stream_says_what_the_node_said(transport: AsyncTransport) -> None:
    gone = answer("404 Not Found", b'{"error": "There is no such thread."}')
    async with FixedAnswer(gone) as other, AsyncRelay(other.url, transport=transport) as relay:
        with pytest.raises(NotFound, match="There is no such thread"):
            await followed(relay)


@pytest.mark.parametrize("line", [b"no event", b"[]", b""])
async def test_lines_that_are_no_events_raise(transport: AsyncTransport, line: bytes) -> None:
    lines = answer("200 OK", line + b"\n", "Content-Type: application/x-ndjson")
    async with FixedAnswer(lines) as other, AsyncRelay(other.url, transport=transport) as relay:
        with pytest.raises(InvalidAnswer):
            await asyncio.wait_for(followed(relay), PATIENCE)


async def followed(relay: AsyncRelay) -> None:
    async for _ in relay.events.follow("board"):
        raise AssertionError
