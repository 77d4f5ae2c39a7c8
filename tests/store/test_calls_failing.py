"""Calls when Redis fails: every call ends in time, says truly whether it was sent, and is never repeated."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from node.store import CommandFailed, OutcomeUnknown, RedisReply, Store, StoreUnavailable, link
from node.store.address import Access, ServerAddress
from node.store.errors import OutOfMemory
from tests.store.conftest import TIMEOUT, Opener, step
from tests.support.servers import PATIENCE, Proxy, RedisServer, eventually

COUNT = step("count", "return redis.call('INCR', key1)")
SPIN = step("spin", "while true do end")
WRITE = step("write", "redis.call('DEL', key1) redis.call('SET', key1, arg1) return 1", args=1)
TURN = 0.01  # s between two checks of a condition


async def noticed(store: Store) -> None:
    """Return once the store has noticed the loss of its connection."""
    with pytest.raises(StoreUnavailable):
        while True:
            await store.command("PING")


async def served(store: Store) -> RedisReply:
    """Return the answer to ECHO, as soon as there is one."""
    while True:
        try:
            return await store.command("ECHO", "served")
        except StoreUnavailable:
            await asyncio.sleep(TURN)


@pytest_asyncio.fixture
async def store(redis_server: RedisServer, open_store: Opener) -> Store:
    """A store whose calls time out soon."""
    return await open_store(redis_server.url)


@pytest_asyncio.fixture
async def patient(redis_server: RedisServer, open_store: Opener) -> Store:
    """A store whose calls wait for a server that restarts, however long that takes on a busy machine."""
    return await open_store(redis_server.url, timeout=PATIENCE)


@pytest_asyncio.fixture
async def early(tmp_path: Path, open_store: Opener) -> AsyncIterator[tuple[RedisServer, Store]]:
    """A store that was opened before its server was started."""
    server = RedisServer(tmp_path / "redis")
    async with await open_store(server.url, required=False) as store:
        yield server, store
    server.__exit__(None, None, None)


async def test_a_store_opens_before_redis_exists_and_serves_when_it_does(early: tuple[RedisServer, Store]) -> None:
    server, store = early
    with pytest.raises(StoreUnavailable, match="out of reach"):
        await store.command("PING")
    server.start()
    assert await served(store) == b"served"


async def test_what_is_sent_without_waiting_disturbs_nobody_while_redis_is_gone(
    redis_server: RedisServer, store: Store
) -> None:
    redis_server.kill()
    await noticed(store)
    for _ in range(100):
        store.send(COUNT("number"))
        store.send(("INCR", "number"))
    redis_server.start()
    assert await served(store) == b"served"
    await eventually(lambda: store.stats.in_flight == 0)
    assert int(redis_server.do("GET", "number") or 0) <= 200, "none ran twice"


async def test_a_store_that_is_required_says_that_redis_is_not_there(tmp_path: Path, open_store: Opener) -> None:
    with pytest.raises(StoreUnavailable, match="could not be reached"):
        await open_store(f"unix://{tmp_path}/none", timeout=0.1, max_in_flight=1)


async def test_when_redis_has_been_gone_for_long_calls_are_refused_without_waiting(
    early: tuple[RedisServer, Store],
) -> None:
    _, store = early
    with pytest.raises(StoreUnavailable):  # waits for its deadline at most; after that, Redis counts as gone for long
        await store.command("PING")
    task = asyncio.create_task(store.command("PING"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.done()
    with pytest.raises(StoreUnavailable):
        await task


async def test_calls_made_while_redis_restarts_wait_and_succeed(redis_server: RedisServer, patient: Store) -> None:
    redis_server.stop()
    await noticed(patient)
    waiting = [asyncio.create_task(patient.command("ECHO", n)) for n in range(10)]
    await asyncio.sleep(0)
    redis_server.start()
    assert await asyncio.gather(*waiting) == [str(n).encode() for n in range(10)]
    assert patient.stats.reconnects == 1
    assert patient.stats.in_flight == 0


async def test_the_log_says_once_why_a_lost_server_cannot_be_reached_and_again_when_that_changes(
    redis_server: RedisServer, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the log says nothing after the loss of the connection, however long the server is gone."""
    attempts = 0

    async def counted(server: ServerAddress, access: Access, timeout: float) -> link.Link:
        nonlocal attempts
        attempts += 1
        return await dial(server, access, timeout)

    def told(why: str) -> int:
        return sum("redis out of reach" in line and why in line for line in caplog.messages)

    dial = link.dial
    monkeypatch.setattr(link, "dial", counted)
    redis_server.kill()
    await eventually(lambda: attempts > 4)
    assert (told("Connection refused"), told("")) == (1, 1)
    redis_server.socket.unlink()
    attempts = 0
    await eventually(lambda: attempts > 2)
    assert (told("No such file"), told("")) == (1, 2)
    redis_server.start()
    assert await served(store) == b"served"
    before = told("Connection refused")
    redis_server.kill()
    await eventually(lambda: told("Connection refused") == before + 1)


async def test_a_call_is_told_why_a_server_that_accepts_connections_and_answers_nothing_cannot_be_used(
    redis_server: RedisServer, store: Store
) -> None:
    """The reason must not be empty or just `TimeoutError`, because such exceptions have no message of their own."""
    redis_server.pause()
    reasons: set[str] = set()
    async with asyncio.timeout(PATIENCE):
        while not any("out of reach" in reason for reason in reasons):
            with pytest.raises(StoreUnavailable) as failure:
                await store.command("PING")
            reasons.add(str(failure.value))
            await asyncio.sleep(TURN)
    assert any(re.search(r"out of reach: no answer within [\d.]+ s$", reason) for reason in reasons)
    redis_server.resume()


async def test_a_script_works_again_after_a_restart_that_forgot_it(redis_server: RedisServer, patient: Store) -> None:
    assert await patient.run(COUNT("key")) == 1
    redis_server.stop()
    await noticed(patient)
    redis_server.start()
    assert await patient.run(COUNT("key")) == 1


async def test_a_server_killed_under_a_call_leaves_its_outcome_unknown(redis_server: RedisServer, store: Store) -> None:
    await store.command("SCRIPT", "LOAD", SPIN.script.single_source)
    spinning = asyncio.create_task(store.run(SPIN("key")))
    behind = asyncio.create_task(store.command("INCR", "key"))
    await eventually(lambda: store.stats.in_flight == 2)
    await asyncio.sleep(TURN)
    redis_server.kill()
    for task in (spinning, behind):
        with pytest.raises(OutcomeUnknown):
            await task
    assert store.stats.in_flight == 0
    redis_server.start()
    assert await served(store) == b"served"


async def test_a_frozen_server_costs_each_call_its_deadline_and_no_reply_goes_astray(
    redis_server: RedisServer, store: Store
) -> None:
    [connection] = store._connections()  # pyright: ignore[reportPrivateUsage]
    used = connection._link  # pyright: ignore[reportPrivateUsage]
    assert used
    used.heard_at -= 3600  # as if nobody had used the connection for an hour
    redis_server.pause()
    with capture_logs() as logs:
        outcomes = await asyncio.gather(*(store.command("ECHO", n) for n in range(50)), return_exceptions=True)
        assert all(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        await eventually(lambda: store.stats.reconnects)
    [lost] = [each for each in logs if each["event"] == "redis connection lost"]
    silence = re.fullmatch(r"silent for (\S+) s", lost["reason"])  # not "closed", as if the server had done that
    assert silence
    assert float(silence[1]) < 3600
    redis_server.resume()
    assert await served(store) == b"served"
    answers = await asyncio.gather(*(store.command("ECHO", f"new {n}") for n in range(50)))
    assert answers == [f"new {n}".encode() for n in range(50)]
    assert store.stats.reconnects == 1


async def test_calls_while_the_server_is_frozen_are_all_settled_and_told_whether_they_were_sent(
    redis_server: RedisServer, store: Store
) -> None:
    redis_server.pause()
    outcomes: list[RedisReply | BaseException] = []
    async with asyncio.timeout(PATIENCE):
        while len(outcomes) < 15:
            outcomes += await asyncio.gather(*(store.command("PING") for _ in range(5)), return_exceptions=True)
    # The first five were sent, then the connection was dropped. The others wait for a new one or are refused at once.
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 5 + [StoreUnavailable] * 10
    assert store.stats.in_flight == 0
    redis_server.resume()
    assert await served(store) == b"served"


async def test_a_call_that_a_connected_server_takes_too_late_is_told_so(store: Store) -> None:
    [connection] = store._connections()  # pyright: ignore[reportPrivateUsage]
    assert connection._link  # pyright: ignore[reportPrivateUsage]
    connection._link.pause_writing()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(StoreUnavailable, match="does not take what it is sent"):  # not "connecting to Redis"
        await store.command("PING")


async def test_a_write_whose_answer_is_lost_is_never_repeated(redis_server: RedisServer, open_store: Opener) -> None:
    async with Proxy(redis_server) as network:
        store = await open_store(network.url)
        for source in COUNT.script.sources().values():
            await store.everywhere("SCRIPT", "LOAD", source)
        acknowledged = unknown = 0
        for _ in range(10):
            calls = [asyncio.create_task(store.run(COUNT("key"))) for _ in range(20)]
            calls += [asyncio.create_task(store.command("INCR", "key")) for _ in range(20)]
            await calls[0]
            network.flowing.clear()
            calls += [asyncio.create_task(store.run(COUNT("key"))) for _ in range(20)]
            calls += [asyncio.create_task(store.command("INCR", "key")) for _ in range(20)]
            sent = int(redis_server.do("GET", "key"))
            await eventually(lambda sent=sent: int(redis_server.do("GET", "key")) > sent)
            network.cut()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            acknowledged += sum(isinstance(outcome, int) for outcome in outcomes)
            unknown += sum(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
            await served(store)
        assert acknowledged + unknown == 800
        assert unknown >= 400
        assert acknowledged <= int(redis_server.do("GET", "key")) <= 800


async def test_crashes_under_load_lose_no_acknowledged_write_and_make_none_twice(
    tmp_path: Path, open_store: Opener
) -> None:
    acknowledged = [0] * 40
    unknown = [0] * 40
    crashed = 0

    async def count(key: int, store: Store) -> None:
        while crashed < 4:
            try:
                await store.run(COUNT(f"key:{key}"))
                acknowledged[key] += 1
            except OutcomeUnknown:
                unknown[key] += 1
            except StoreUnavailable:
                await asyncio.sleep(TURN)

    with RedisServer(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as server:
        store = await open_store(server.url)
        tasks = [asyncio.create_task(count(key, store)) for key in range(40)]
        for _ in range(4):
            seen = sum(acknowledged)
            await eventually(lambda seen=seen: sum(acknowledged) > seen + 400)
            await asyncio.to_thread(server.kill)
            crashed += 1
            await asyncio.to_thread(server.start)
        await asyncio.gather(*tasks)
        assert await served(store) == b"served"
        for key in range(40):
            assert acknowledged[key] <= int(server.do("GET", f"key:{key}")) <= acknowledged[key] + unknown[key]
        assert sum(unknown), "the server was killed under calls"
        assert store.stats.in_flight == 0


async def test_a_slow_server_fails_the_late_call_and_keeps_the_connection(
    redis_server: RedisServer, open_store: Opener
) -> None:
    async with Proxy(redis_server) as network:
        store = await open_store(network.url, timeout=PATIENCE / 6)
        assert await store.command("ECHO", "in time") == b"in time"  # so that the server was heard of recently
        network.flowing.clear()
        store.timeout = TURN  # of each call; the connection is given up only after the timeout it was opened with
        with pytest.raises(OutcomeUnknown):
            await store.command("ECHO", "late")
        store.timeout = PATIENCE
        behind = asyncio.create_task(store.command("ECHO", "behind"))
        await eventually(lambda: store.stats.in_flight == 2)
        network.flowing.set()
        assert await behind == b"behind"
        assert store.stats.reconnects == 0


async def test_a_process_that_was_held_up_itself_still_reads_what_came_in_time(
    redis_server: RedisServer, store: Store
) -> None:
    redis_server.pause()
    task = asyncio.create_task(store.command("ECHO", "waiting in the socket"))
    await eventually(lambda: store.stats.in_flight)
    redis_server.resume()
    time.sleep(2 * TIMEOUT)  # noqa: ASYNC251  # the event loop stands still, as in a long collection
    assert await task == b"waiting in the socket"
    assert store.stats.reconnects == 0


async def test_out_of_memory_refuses_writes_whole_and_goes_on_reading(redis_server: RedisServer, store: Store) -> None:
    await store.command("SET", "kept", "value")
    await store.run(WRITE("key", "before"))
    redis_server.do("CONFIG", "SET", "maxmemory", 1)
    for call in (store.command("SET", "new", "x"), store.run(WRITE("key", "after"))):
        with pytest.raises(StoreUnavailable, match="out of memory") as refusal:
            await call
        assert not isinstance(refusal.value, OutcomeUnknown)
        assert refusal.value.retry_after > 1
    batch = await asyncio.gather(*(store.run(WRITE("key", "after")) for _ in range(5)), return_exceptions=True)
    assert all(type(outcome) is OutOfMemory for outcome in batch)
    assert await store.command("MGET", "kept", "key") == [b"value", b"before"]
    redis_server.do("CONFIG", "SET", "maxmemory", 0)
    assert await store.run(WRITE("key", "after")) == 1


async def test_a_primary_that_became_a_replica_is_dialled_anew(redis_server: RedisServer, store: Store) -> None:
    await store.command("SET", "key", "value")
    redis_server.do("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(StoreUnavailable, match="replica") as refusal:
        await store.command("SET", "key", "other")
    assert not isinstance(refusal.value, OutcomeUnknown)
    redis_server.do("REPLICAOF", "NO", "ONE")
    assert await served(store) == b"served"
    assert store.stats.reconnects == 1


async def test_a_server_that_stays_a_replica_is_out_of_reach_for_that_reason(
    redis_server: RedisServer, store: Store
) -> None:
    await store.command("SET", "key", "value")
    redis_server.do("REPLICAOF", "127.0.0.1", 1)
    with capture_logs() as logs:
        with pytest.raises(StoreUnavailable, match="replica"):
            await store.command("SET", "key", "other")
        await eventually(lambda: any(entry["event"] == "redis out of reach" for entry in logs))
        assert not store.connected
        with pytest.raises(StoreUnavailable, match=r"it is a replica of 127\.0\.0\.1:1, which takes no writes"):
            await store.command("GET", "key")
    redis_server.do("REPLICAOF", "NO", "ONE")
    assert await served(store) == b"served"
    assert sum(entry["event"] == "redis out of reach" for entry in logs) == 1


async def test_a_server_that_is_loading_its_data_counts_as_out_of_reach(tmp_path: Path, open_store: Opener) -> None:
    options = ("--appendonly", "yes", "--enable-debug-command", "yes", "--key-load-delay", "1000")
    with RedisServer(tmp_path / "redis", *options) as server:
        server.do("DEBUG", "POPULATE", 3000, "key", 10)
        store = await open_store(server.url)
        restart = asyncio.create_task(asyncio.to_thread(server.do, "DEBUG", "LOADAOF"))
        while not restart.done():
            try:
                await store.command("GET", "key:1")
            except StoreUnavailable as error:
                assert "loading" in str(error)
        await restart
        assert await served(store) == b"served"


async def test_a_reply_that_nobody_asked_for_ends_the_connection(redis_server: RedisServer, store: Store) -> None:
    await store.command("SUBSCRIBE", "channel")
    redis_server.do("PUBLISH", "channel", "stray")
    await eventually(lambda: store.stats.reconnects)
    assert await served(store) == b"served"


async def test_closing_ends_calls_under_way(redis_server: RedisServer, open_store: Opener) -> None:
    async with await open_store(redis_server.url) as store:
        redis_server.pause()
        task = asyncio.create_task(store.command("PING"))
        await eventually(lambda: store.stats.in_flight)
        await asyncio.sleep(TURN)
    with pytest.raises(OutcomeUnknown):
        await task
    with pytest.raises(StoreUnavailable):
        await store.command("PING")
    redis_server.resume()


async def test_an_unknown_command_is_our_bug_and_not_an_outage(store: Store) -> None:
    with pytest.raises(CommandFailed, match="NONSENSE: ERR unknown command"):
        await store.command("NONSENSE")
