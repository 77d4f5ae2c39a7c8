"""Counts of requests are not in Redis' log: nobody waits for the disk because of them, and a crash forgets them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.config import Limit
from node.relay.store import RelayStore
from node.store import CommandFailed, Store, keys
from node.store.limits import LimitStore
from node.store.work import WorkStore
from tests.store.conftest import Opener, step
from tests.support.rates import Unlimited
from tests.support.servers import RedisServer

CLIENT = "203.0.113.7"
LIMIT = Limit(10, 60)
COUNTED = step(
    "counted",
    "-- include unlogged\nlocal length = redis.call('RPUSH', key2, arg1) unlogged('INCR', key1) return length",
    keys=2,
    args=1,
)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that keeps everything logged, whatever happens to it."""
    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def logged(server: RedisServer) -> int:
    """Return the size of the log in bytes."""
    return int(server.info("persistence")["aof_current_size"])


async def test_a_request_that_is_only_counted_writes_nothing_to_the_log(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url)
    limits, work = LimitStore(store), WorkStore(store)
    before = logged(redis_server)
    first, second = await limits.take("search", CLIENT, LIMIT), await limits.take("search", CLIENT, LIMIT)
    assert (first.remaining, second.remaining) == (9, 8)
    await limits.refund("search", CLIENT, second)
    assert await work.spend("search", CLIENT, LIMIT.count + 1, LIMIT) > 0
    assert logged(redis_server) == before


async def test_a_crash_forgets_counts_and_nothing_else(redis_server: RedisServer, open_store: Opener) -> None:
    async def say_hello(store: Store) -> str | None:
        """Relay a message, and return its id; None if it was silenced as a loop, like the third equal one."""
        kept, _ = await RelayStore(store, 60).accept(Unlimited(CLIENT), "digest", None, 60_000, ["payload", "Hello"])
        return kept

    store = await open_store(redis_server.url)
    await LimitStore(store).take("search", CLIENT, LIMIT)
    before = [await say_hello(store) for _ in range(2)]
    redis_server.kill()
    redis_server.start()
    again = await open_store(redis_server.url)
    assert (await LimitStore(again).take("search", CLIENT, LIMIT)).remaining == 9
    for message_id in (*before, await say_hello(again)):
        assert message_id
        assert redis_server.do("HGET", keys.relay(message_id), "payload") == b"Hello"


async def test_a_count_that_fails_does_not_keep_the_writes_of_others_from_the_log(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url)
    await store.command("RPUSH", "no number", "x")
    calls = [store.run(COUNTED(key, "list", text)) for key, text in (("a", "one"), ("no number", "bad"), ("b", "two"))]
    one, bad, two = await asyncio.gather(*calls, return_exceptions=True)
    assert (one, two) == (1, 3)
    assert isinstance(bad, CommandFailed)
    assert store.stats.batches
    redis_server.kill()
    redis_server.start()
    assert redis_server.do("LRANGE", "list", 0, -1) == [b"one", b"bad", b"two"]
    assert redis_server.do("EXISTS", "a", "b") == 0
