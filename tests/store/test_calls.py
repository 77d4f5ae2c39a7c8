"""Calls when nothing fails: each caller gets its own reply, unchanged."""

import asyncio
import random
import weakref
from contextlib import suppress

import pytest

from node.store import CommandFailed, OutcomeUnknown, Script, Store, StoreUnavailable
from node.store.connection import Connection
from node.store.errors import StoreBusy
from node.store.steps import Step
from tests.store.conftest import Opener, step
from tests.support.servers import PATIENCE, Proxy, RedisServer, eventually

ECHO = step("echo", "return {arg1, KEYS[1]}", args=1)
COUNT = step("count", "return redis.call('INCR', key1)")


async def test_a_command_answers_in_bytes_and_numbers(store: Store) -> None:
    assert await store.command("SET", "key", b"\x00\xff bytes") == b"OK"
    assert await store.command("GET", "key") == b"\x00\xff bytes"
    assert await store.command("INCRBY", "number", 41) == 41
    assert await store.command("GET", "nothing") is None
    assert await store.command("LRANGE", "nothing", 0, -1) == []


async def test_a_script_sees_its_keys_and_arguments(store: Store) -> None:
    assert await store.run(ECHO("a-key", "ä\n")) == ["ä\n".encode(), b"a-key"]


async def test_a_command_for_every_primary_answers_once_on_a_single_server(store: Store) -> None:
    assert await store.everywhere("PING") == [b"PONG"]


async def test_many_commands_answer_in_the_order_in_which_they_were_given(store: Store) -> None:
    pairs = [(f"key-{n}", str(n).encode()) for n in range(300)]
    assert await store.run_all(("SET", key, value) for key, value in pairs) == [b"OK"] * 300
    assert await store.run_all([("GET", key) for key, _ in pairs]) == [value for _, value in pairs]
    assert await store.run_all([]) == []
    assert store.stats.in_flight == 0


async def test_of_many_commands_one_that_fails_is_told_and_the_others_run(store: Store) -> None:
    with pytest.raises(CommandFailed, match="INCR: ERR"):
        await store.run_all([("SET", "a", "text"), ("INCR", "a"), ("SET", "b", "2")])
    assert await store.run_all([("GET", "a"), ("GET", "b")]) == [b"text", b"2"]


async def test_an_error_reply_is_a_failure_that_names_the_call(store: Store) -> None:
    await store.command("SET", "key", "text")
    with pytest.raises(CommandFailed, match="LPUSH: WRONGTYPE"):
        await store.command("LPUSH", "key", "value")
    with pytest.raises(CommandFailed, match="count: ERR"):
        await store.run(COUNT("key"))


async def test_a_script_that_does_not_compile_fails_its_calls(store: Store) -> None:
    with pytest.raises(CommandFailed, match="broken: ERR Error compiling script"):
        await store.run(step("broken", "return return")("key"))


async def test_a_script_that_the_server_forgot_is_loaded_again_under_way(
    redis_server: RedisServer, store: Store
) -> None:
    for _ in range(5):
        redis_server.do("SCRIPT", "FLUSH")
        answers = await asyncio.gather(*(store.run(ECHO("key", n)) for n in range(100)))
        assert answers == [[str(n).encode(), b"key"] for n in range(100)]
    loads = redis_server.info("commandstats")["cmdstat_script|load"]["calls"]
    assert loads == 10, "both forms, once for each time that they were lost"


async def test_a_step_whose_script_could_not_be_loaded_has_not_begun(
    redis_server: RedisServer, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Connection.load
    async with Proxy(redis_server) as network:
        store = await open_store(network.url, timeout=PATIENCE)

        async def cut_off(self: Connection, script: Script, deadline: float) -> object:
            network.flowing.clear()
            loading = asyncio.ensure_future(load(self, script, deadline))
            await eventually(lambda: redis_server.do("SCRIPT", "EXISTS", script.batch_sha) == [1])
            network.cut()
            return await loading

        monkeypatch.setattr(Connection, "load", cut_off)
        with pytest.raises(StoreUnavailable) as failure:
            await store.run(COUNT("key"))
    assert failure.type is StoreUnavailable, "and not OutcomeUnknown"
    assert redis_server.do("EXISTS", "key") == 0


async def test_what_is_sent_without_waiting_is_done_before_what_is_asked_in_a_later_turn(store: Store) -> None:
    for number in range(2, 202, 2):
        for _ in range(2):
            store.send(COUNT("number"))
        store.send(("SET", "key", number))
        await asyncio.sleep(0)
        assert await store.run_all([("GET", "number"), ("GET", "key")]) == [b"%d" % number] * 2
    assert store.stats.in_flight == 0


async def test_a_script_sent_without_waiting_is_loaded_if_the_server_forgot_it(
    redis_server: RedisServer, store: Store
) -> None:
    store.send(COUNT("number"))
    await eventually(lambda: redis_server.do("GET", "number") == b"1")
    redis_server.do("SCRIPT", "FLUSH")
    for _ in range(10):
        store.send(COUNT("number"))
    await eventually(lambda: redis_server.do("GET", "number") == b"11" and store.stats.in_flight == 0)


async def test_what_is_sent_without_waiting_and_fails_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await store.command("SET", "key", "text")
    store.send(COUNT("key"))
    store.send(("LPUSH", "key", "value"))
    await eventually(lambda: "'command': 'count'" in caplog.text and "'command': 'LPUSH'" in caplog.text)
    assert store.stats.in_flight == 0


async def test_an_argument_that_cannot_be_sent_fails_only_its_own_call(store: Store) -> None:
    calls = [store.run(ECHO("key", text)) for text in ("one", "\ud800", "two")]
    one, wrong, two = await asyncio.gather(*calls, return_exceptions=True)
    assert (one, two) == ([b"one", b"key"], [b"two", b"key"])
    assert isinstance(wrong, CommandFailed)
    assert store.stats.in_flight == 0


@pytest.mark.parametrize("most", [0, 100], ids=["too many calls", "an argument that cannot be sent"])
@pytest.mark.parametrize("wanted", [("SET", "key", "\ud800"), ECHO("key", "\ud800")], ids=["command", "step"])
@pytest.mark.parametrize("together", [False, True])
async def test_a_failure_keeps_nothing_of_what_it_came_through(
    store: Store, without_collector: None, together: bool, wanted: Step | tuple[str, ...], most: int
) -> None:
    """While Redis is out of reach, every request fails, and each may hold a megabyte."""
    store.max_in_flight = most
    left: list[weakref.ref[set[str]]] = []

    async def fail() -> None:
        request = {"all that a caller holds"}
        left.append(weakref.ref(request))
        if together:
            await store.run_all([wanted])
        else:
            await (store.run(wanted) if isinstance(wanted, Step) else store.command(*wanted))

    with suppress(CommandFailed, StoreBusy):
        await fail()
        pytest.fail("the call did not fail")
    assert [request() for request in left] == [None]


async def test_thousands_of_callers_that_give_up_leave_every_other_reply_with_its_owner(store: Store) -> None:
    chance = random.Random(7)

    async def call(number: int) -> None:
        text = f"{number}:{'x' * chance.randrange(200)}"
        if number % 3:
            assert await store.run(ECHO(f"key{number}", text)) == [text.encode(), f"key{number}".encode()]
        else:
            assert await store.command("ECHO", text) == text.encode()

    given_up = 0
    for _ in range(10):
        tasks = [asyncio.create_task(call(number)) for number in range(1000)]
        for task in chance.sample(tasks, 700):
            asyncio.get_running_loop().call_later(chance.random() * 0.01, task.cancel)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        given_up += sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        assert not [o for o in outcomes if o is not None and not isinstance(o, asyncio.CancelledError)]
    assert given_up >= 2000
    assert await store.command("ECHO", "last") == b"last"
    assert store.stats.in_flight == 0


async def test_a_call_given_up_in_the_turn_that_made_it_is_never_sent(redis_server: RedisServer, store: Store) -> None:
    task = asyncio.create_task(store.command("SET", "key", "value"))
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.command("PING")
    assert redis_server.do("GET", "key") is None
    assert store.stats.in_flight == 0


async def test_calls_beyond_the_bound_are_refused_at_once_and_the_others_answered(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url, max_in_flight=10)
    outcomes = await asyncio.gather(*(store.command("ECHO", n) for n in range(15)), return_exceptions=True)
    assert outcomes[:10] == [str(n).encode() for n in range(10)]
    for refused in outcomes[10:]:
        assert isinstance(refused, StoreUnavailable)
        assert not isinstance(refused, OutcomeUnknown)
        assert refused.retry_after > 0
    assert await store.command("ECHO", "again") == b"again"


async def test_callers_that_gave_up_still_count_until_redis_has_answered(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url, max_in_flight=5)
    redis_server.pause()
    tasks = [asyncio.create_task(store.command("ECHO", n)) for n in range(5)]
    await eventually(lambda: store.stats.in_flight == 5)
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    with pytest.raises(StoreUnavailable, match="5 calls"):
        await store.command("PING")
    redis_server.resume()
    await eventually(lambda: store.stats.in_flight == 0)
    assert await store.command("ECHO", "free") == b"free"


async def test_a_reply_of_many_megabytes_comes_whole_between_small_ones(store: Store) -> None:
    big = b"x" * 8_000_000
    await store.command("SET", "big", big)
    small, whole, last = await asyncio.gather(
        store.command("ECHO", 1), store.command("GET", "big"), store.command("ECHO", 2)
    )
    assert (small, last) == (b"1", b"2")
    assert whole == big


async def test_statistics_count_calls_batches_and_what_is_under_way(store: Store) -> None:
    before = store.stats.calls
    under_way = asyncio.gather(*(store.run(COUNT("key")) for _ in range(20)))
    await asyncio.sleep(0)
    assert store.stats.in_flight == 20
    await under_way
    assert store.stats.in_flight == 0
    assert store.stats.calls - before >= 20
    assert store.stats.batches >= 2
    assert store.stats.reconnects == 0
