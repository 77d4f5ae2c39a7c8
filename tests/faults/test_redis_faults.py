"""Redis dies, freezes, refuses, is full, or its replies are lost, all under load (DESIGN 1, 10).

No acknowledged write is lost, none is duplicated although clients repeat it, and failures are answered with 503 and a
Retry-After. `make faults` runs it in full: more than 50,000 acknowledged writes, each fault at its full length.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.faults.report import ROWS, Row
from tests.faults.writers import Writers, kept, unlimited
from tests.support.effort import FULL
from tests.support.node_under_test import NodeUnderTest, running
from tests.support.servers import Proxy, RedisServer

TIMES = 10 if FULL else 1
WRITES = 1_100 if FULL else 150
"""Acknowledged writes before and after each fault."""
FROZEN = 5.0 if FULL else 0.0  # s at least
LOST = 0.1  # share of the replies
LOSSY_WRITES = 150  # a connection then lives for ten replies, and there are two or three connections a second
SMALL = "1mb"  # maxmemory: less than the server itself needs

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")

Fault = Callable[[RedisServer, Writers], Awaitable[None]]


async def killed(server: RedisServer, writers: Writers) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def refusing(server: RedisServer, writers: Writers) -> None:
    await asyncio.to_thread(server.kill)
    await writers.failing(1_000 if FULL else 50)
    await asyncio.to_thread(server.start)


async def frozen(server: RedisServer, writers: Writers) -> None:
    server.pause()
    await asyncio.gather(writers.failing(), asyncio.sleep(FROZEN))
    server.resume()


async def full(server: RedisServer, writers: Writers) -> None:
    server.do("CONFIG", "SET", "maxmemory", SMALL)
    await writers.failing(1_000 if FULL else 50)
    session = next(iter(writers.sessions))
    assert (await writers.node.client.get(f"/api/v1/sessions/{session}/messages")).status_code == 200, "reads go on"
    server.do("CONFIG", "SET", "maxmemory", 0)


FAULTS: dict[str, Fault] = {
    "Redis killed (-9)": killed,
    "Redis refuses connections": refusing,
    f"Redis frozen (SIGSTOP{f', {FROZEN:.0f} s' if FULL else ''})": frozen,
    "Redis out of memory": full,
}


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    with RedisServer(tmp_path / "redis", *ALWAYS) as server:
        yield server


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_redis_loses_and_doubles_nothing(server: RedisServer, fault: str) -> None:
    longest = 0.0
    async with running(unlimited(server.url)) as node:
        async with Writers(node) as writers:
            await writers.further(WRITES)
            for _ in range(TIMES):
                await FAULTS[fault](server, writers)
                longest = max(longest, await writers.recovered())
                await writers.further(WRITES)
        await report(fault, TIMES, node, writers, longest)


async def test_lost_replies_lose_and_double_nothing(server: RedisServer) -> None:
    async with Proxy(server) as network, running(unlimited(network.url)) as node:
        async with Writers(node) as writers:
            await writers.further(WRITES)
            network.loss = LOST
            for _ in range(TIMES):
                await writers.further(LOSSY_WRITES)
            while not writers.refused:  # with so few replies, perhaps none has been lost yet
                await writers.further(LOSSY_WRITES)
            network.loss = 0.0
            longest = await writers.recovered()
        await report(f"{LOST:.0%} of the replies lost", network.lost, node, writers, longest)


async def report(fault: str, times: int, node: NodeUnderTest, writers: Writers, longest: float) -> None:
    """Compare what is there with what was acknowledged."""
    found = await kept(node, writers)
    row = Row(fault, times, writers.acknowledged, writers.answers[503], longest, len(found.lost), found.twice)
    ROWS.append(row)
    assert (row.lost, row.twice) == (0, 0), row
    assert writers.answers.keys() <= {200, 201, 503}
