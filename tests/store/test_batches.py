"""Group commit: calls of one script that are made together are sent and run together."""

import asyncio

import pytest

from node.store import CommandFailed, Store
from node.store.connection import MAX_BATCH
from tests.store.conftest import step
from tests.support.servers import RedisServer

COUNT = step("count", "return redis.call('INCR', key1)")
OTHER = step("other", "return redis.call('DECR', key1)")
PICKY = step("picky", "if arg1 == 'bad' then return redis.error_reply('ERR not this') end return arg1", args=1)
CRASHING = step(
    "crashing", "if arg1 == 'bad' then error('a bug') end redis.call('RPUSH', key1, arg1) return arg1", args=1
)


def evalsha_calls(server: RedisServer) -> int:
    return server.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]


async def warm(store: Store) -> None:
    for made in (COUNT, OTHER):
        for source in made.script.sources().values():
            await store.command("SCRIPT", "LOAD", source)


async def test_calls_made_in_one_turn_reach_the_server_as_few_commands(redis_server: RedisServer, store: Store) -> None:
    await warm(store)
    answers = await asyncio.gather(*(store.run(COUNT("key")) for _ in range(100)))
    assert sorted(answers) == list(range(1, 101))  # type: ignore[type-var]
    assert evalsha_calls(redis_server) == -(-100 // MAX_BATCH)


async def test_a_lone_call_is_sent_in_its_single_form(redis_server: RedisServer, store: Store) -> None:
    await warm(store)
    for turn in range(1, 4):
        assert await store.run(COUNT("key")) == turn
    assert store.stats.batches == 0
    assert evalsha_calls(redis_server) == 3


async def test_different_scripts_do_not_share_a_batch(redis_server: RedisServer, store: Store) -> None:
    await warm(store)
    await asyncio.gather(*(store.run(script("key")) for _ in range(10) for script in (COUNT, OTHER)))
    assert redis_server.do("GET", "key") == b"0"
    assert evalsha_calls(redis_server) == 2


async def test_one_member_that_answers_an_error_does_not_touch_the_others(store: Store) -> None:
    calls = (store.run(PICKY("key", text)) for text in ("one", "bad", "two"))
    one, bad, two = await asyncio.gather(*calls, return_exceptions=True)
    assert (one, two) == (b"one", b"two")
    assert isinstance(bad, CommandFailed)


async def test_one_member_that_crashes_does_not_touch_the_others(redis_server: RedisServer, store: Store) -> None:
    calls = (store.run(CRASHING("list", text)) for text in ("one", "bad", "two"))
    one, bad, two = await asyncio.gather(*calls, return_exceptions=True)
    assert (one, two) == (b"one", b"two")
    assert isinstance(bad, CommandFailed)
    assert redis_server.do("LRANGE", "list", 0, -1) == [b"one", b"two"]


async def test_a_member_that_gave_up_before_the_batch_was_written_is_left_out(
    redis_server: RedisServer, store: Store
) -> None:
    await warm(store)
    tasks = [asyncio.create_task(store.run(COUNT(f"key{n}"))) for n in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert (outcomes[0], outcomes[2]) == (1, 1)
    assert redis_server.do("EXISTS", "key0", "key1", "key2") == 2


@pytest.mark.parametrize("size", [2, MAX_BATCH, MAX_BATCH + 1, 3 * MAX_BATCH])
async def test_every_member_gets_its_own_reply_whatever_the_size(store: Store, size: int) -> None:
    answers = await asyncio.gather(*(store.run(PICKY("key", n)) for n in range(size)))
    assert answers == [str(n).encode() for n in range(size)]
