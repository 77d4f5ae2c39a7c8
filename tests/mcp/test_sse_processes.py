"""Event streams whose GET and POST arrive at different processes, and streams of processes that stop."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.mcp.calls import request
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.two_processes import process_of, two_processes


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with two_processes(tmp_path_factory.mktemp("node")) as node:
        yield node


@asynccontextmanager
async def opened(node: NodeProcess) -> AsyncGenerator[tuple[str, AsyncIterator[str]]]:
    """Open a stream; yield the URL of its endpoint, and the data of the events that follow."""
    async with (
        httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE) as client,
        client.stream("GET", "/mcp/sse") as stream,
    ):
        data = (line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: "))
        yield node.url + await anext(data), data


async def test_replies_find_their_stream_from_any_process(served: NodeProcess) -> None:
    asked_of: set[str] = set()
    async with asyncio.timeout(PATIENCE), opened(served) as (endpoint, data):
        number = 0
        while len(asked_of) < 2 or number < 10:
            number += 1
            async with httpx2.AsyncClient(
                timeout=PATIENCE
            ) as client:  # a new connection, which either process may accept
                response = await client.post(endpoint, json=request("tools/list", request_id=number))
            assert response.status_code == 202
            asked_of.add(process_of(response.headers["x-request-id"]))
            assert json.loads(await anext(data))["id"] == number


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_open_streams_do_not_keep_a_node_from_stopping(served: NodeProcess, signum: int) -> None:
    async with opened(served) as (_, first), opened(served) as (_, second):
        served.signal(signum)
        async with asyncio.timeout(PATIENCE):
            assert [event async for event in first] == []
            assert [event async for event in second] == []
    assert await asyncio.to_thread(served.wait) == 0
    assert not any("killed" in line["event"] for line in served.lines)
