"""What a process holds of bodies that come slowly: a bounded part of it for one client, however many connections."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable

import pytest
from httpx2 import Response

from node.web import places
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import eventually


async def test_bodies_of_a_client_that_still_come_count_by_what_is_there_of_them(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From one address, 600 bodies of 1 MiB that went on a byte at a time held 600 MB of a process.
    monkeypatch.setattr(places, "MAX_WAITING_PER_CLIENT", 10)
    goes_on = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield b'{"ignored": "' + b"x" * (10 * places.WAITING_BYTES)
        await goes_on.wait()
        yield b'"}'

    def open_session() -> Awaitable[Response]:
        return node.client.post("/api/v1/sessions", content=slow(), headers={"content-type": "application/json"})

    first = asyncio.ensure_future(open_session())

    await eventually(lambda: places.WAITING_BY_CLIENT.total() == 10)
    refused = await open_session()
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
    assert refused.headers["connection"] == "close"
    goes_on.set()
    assert (await first).status_code == 201
    assert (await open_session()).status_code == 201
    assert not places.WAITING_BY_CLIENT
