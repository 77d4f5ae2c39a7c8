"""Uploads that the embedded store refuses: it reads their bodies nevertheless, so that clients see the reason."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from node.web.http import ASGIMessage
from tests.artifacts.blobs import DATA, ID, BlobServer, assert_refused, body, call, headers_for, served


@pytest.mark.parametrize(("announced", "unread"), [(2, 2), (3, 2), (4, 5)])
async def test_of_a_refused_upload_as_much_is_read_as_was_granted_unless_it_announces_more(
    server: BlobServer, announced: int, unread: int
) -> None:
    """If the connection were closed at once, most clients would still be sending and would not see the answer."""
    pieces = body(*[DATA] * 5)
    headers = headers_for(DATA * announced) | {"content-type": "text/html"}
    answer = await call(server.app, "PUT", await server.path(DATA * 3), headers, pieces)
    assert_refused(answer, "blob.type" if announced == 3 else "blob.size")
    assert len([piece async for piece in pieces]) == unread + 1  # and the end of the body


async def test_whoever_sends_a_refused_upload_too_slowly_is_told_why_it_was_refused(tmp_path: Path) -> None:
    async def stalled() -> AsyncGenerator[ASGIMessage]:
        await asyncio.Event().wait()
        yield {}

    async with served(BlobServer(tmp_path, stall=0.05)) as server:
        headers = headers_for(DATA) | {"content-type": "text/html"}
        assert_refused(await call(server.app, "PUT", await server.path(), headers, stalled()), "blob.type")


async def test_an_upload_that_is_refused_and_still_comes_holds_nothing(server: BlobServer) -> None:
    await server.put()
    comes, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncGenerator[ASGIMessage]:
        comes.set()
        await go_on.wait()
        yield {"type": "http.request", "body": DATA, "more_body": False}

    refused = asyncio.create_task(call(server.app, "PUT", await server.path(), headers_for(DATA), slow()))
    await comes.wait()
    assert server.files() == [ID]
    assert_refused(await server.put(), "blob.uploaded")
    go_on.set()
    assert_refused(await refused, "blob.uploaded")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"content-encoding": "gzip"}, "body.encoded"),
        ({"transfer-encoding": "chunked"}, "blob.length_required"),
        ({"content-length": "1"}, "blob.size"),
        ({"content-type": "text/html"}, "blob.type"),
    ],
)
async def test_a_client_that_asks_first_is_told_what_is_wrong_with_its_headers_before_it_sends(
    server: BlobServer, changed: dict[str, str], code: str
) -> None:
    async def unread() -> AsyncGenerator[ASGIMessage]:
        raise AssertionError("the body was read")
        yield {}

    headers = headers_for(DATA) | {"expect": "100-continue"} | changed
    assert_refused(await call(server.app, "PUT", await server.path(), headers, unread()), code)
    assert server.files() == []


async def test_an_upload_has_to_say_how_long_it_is(server: BlobServer) -> None:
    sent = {"content-type": "text/csv"}
    assert_refused(await call(server.app, "PUT", await server.path(), sent, body()), "blob.length_required")
