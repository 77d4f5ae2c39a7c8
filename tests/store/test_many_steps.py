"""Many steps in one round trip, and any number of steps in several."""

import asyncio

import pytest

from node.store import CommandFailed, Store
from node.store.store import SHARE_OF_CALLS
from tests.store.conftest import Opener, step
from tests.support.servers import RedisServer

COUNT = step("count", "return redis.call('INCRBY', key1, arg1)", args=1)
BROKEN = step("broken", "return redis.error_reply('ERR no')")


async def test_many_steps_are_answered_in_their_order(store: Store) -> None:
    steps = [COUNT(f"key{n % 3}", n) for n in range(9)]
    assert await store.run_all(steps) == [0, 1, 2, 3, 5, 7, 9, 12, 15]


async def test_one_caller_runs_any_number_of_steps_and_leaves_calls_for_others(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url, max_in_flight=2 * SHARE_OF_CALLS)
    others = (store.command("GET", "key") for _ in range(2 * SHARE_OF_CALLS - 2))
    replies, *_ = await asyncio.gather(store.run_all([COUNT("other", 1) for _ in range(100)]), *others)
    assert replies == list(range(1, 101))


async def test_one_step_that_fails_keeps_no_other_from_running(store: Store, redis_server: RedisServer) -> None:
    """After Redis has said that it does not know the script, the other steps must be sent again."""
    with pytest.raises(CommandFailed):
        await store.run(BROKEN("key"))
    redis_server.do("SCRIPT", "FLUSH")
    with pytest.raises(CommandFailed):
        await store.run_all([BROKEN("key"), COUNT("other", 1)])
    assert redis_server.do("GET", "other") == b"1"
