"""Circuit breakers and rate limits of callbacks as all workers see them, on a real Redis (DESIGN 8)."""

from typing import cast

import pytest

from node.callbacks.attempt import Later
from node.callbacks.breaker import FIRST_OPEN_MS, MAX_OPEN_MS, PROBE_MS, Admitted, Breaker, Circuit
from node.callbacks.owners import Requester, publisher_of, site_part
from node.config import Limit
from node.share.site import SITE_SHARE
from node.store import connect, ids, keys
from tests.callbacks.network import SOMEBODY
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

HOST = "agent.example"
CIRCUIT = Circuit(HOST, HOST)
UNLIMITED = Limit(0, 1)
CLIENT_LIMIT = Limit(300, 60)


pytestmark = pytest.mark.settings(embedding_model="none")


async def wait(breaker: Breaker, name: str = HOST) -> int:
    """Return the milliseconds until the receiver may be called. 0 means now, and counts as a call."""
    answer = await breaker.admit(Circuit(name, name), SOMEBODY)
    return answer.wait_ms if isinstance(answer, Later) else 0


async def fail(breaker: Breaker, count: int) -> None:
    for _ in range(count):
        await breaker.failed(CIRCUIT)


async def pass_time(node: NodeUnderTest) -> None:
    """Let the time pass for which the breaker stays open."""
    await node.store.command("DEL", CIRCUIT.open)


async def test_four_failures_in_a_row_do_not_open_a_breaker(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await fail(breaker, 4)
    assert await wait(breaker) == 0
    await breaker.succeeded(CIRCUIT)
    await fail(breaker, 4)
    assert await wait(breaker) == 0


async def test_the_fifth_failure_opens_it_and_those_of_calls_under_way_do_not_prolong_that(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await fail(breaker, 8)
    assert FIRST_OPEN_MS - 5000 < await wait(breaker) <= FIRST_OPEN_MS
    assert await wait(breaker, "other.example") == 0


async def test_afterwards_one_call_probes_and_the_others_wait_for_it(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await fail(breaker, 5)
    await pass_time(node)
    assert await wait(breaker) == 0
    assert 0 < await wait(breaker) <= PROBE_MS
    await breaker.succeeded(CIRCUIT)
    assert await wait(breaker) == 0
    assert await wait(breaker) == 0


async def test_it_stays_open_twice_as_long_after_each_failed_probe_up_to_half_an_hour(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await fail(breaker, 4)
    waits: list[int] = []
    for _ in range(8):
        assert await wait(breaker) == 0
        await breaker.failed(CIRCUIT)
        waits.append(await wait(breaker))
        await pass_time(node)
    expected = [min(FIRST_OPEN_MS * 2**n, MAX_OPEN_MS) for n in range(8)]
    assert all(most - 5000 < wait <= most for wait, most in zip(waits, expected, strict=True))


async def test_a_receiver_that_asks_for_a_pause_gets_half_an_hour_at_most(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await breaker.pause(CIRCUIT, 86_400)
    assert MAX_OPEN_MS - 5000 < await wait(breaker) <= MAX_OPEN_MS


async def test_a_late_answer_that_asks_for_a_pause_does_not_close_it_sooner(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED)
    await fail(breaker, 5)
    await breaker.pause(CIRCUIT, 1)
    assert FIRST_OPEN_MS - 5000 < await wait(breaker) <= FIRST_OPEN_MS
    await breaker.pause(CIRCUIT, 2 * FIRST_OPEN_MS / 1000)
    assert await wait(breaker) > FIRST_OPEN_MS


async def test_where_calls_are_not_limited_clients_are_not_either(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, UNLIMITED, Limit(1, 60))
    for _ in range(2):
        assert not isinstance(await breaker.allow(SOMEBODY), Later)


async def test_where_clients_are_not_limited_what_is_not_made_is_given_back_to_the_host_alone(
    node: NodeUnderTest,
) -> None:
    breaker = Breaker(node.store, Limit(1, 60))
    for _ in range(2):
        admitted = [await breaker.allow(SOMEBODY), await breaker.admit(CIRCUIT, SOMEBODY)]
        assert all(isinstance(each, Admitted) for each in admitted)
        await breaker.refund(*cast("list[Admitted]", admitted))


async def test_a_call_counts_for_its_window_and_not_at_its_end(clock: Clock) -> None:
    breaker = Breaker(FakeStore(), Limit(1, 60))
    assert await wait(breaker) == 0
    clock.advance(59)
    assert await wait(breaker) == 1000
    clock.advance(1)
    assert await wait(breaker) == 0


async def test_a_host_that_had_its_share_waits(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, Limit(2, 60))
    assert [await wait(breaker) for _ in range(2)] == [0, 0]
    assert 55_000 < await wait(breaker) <= 60_000


async def test_thousands_of_attempts_that_are_over_at_once_are_forgotten_in_a_few_commands(
    empty_redis: RedisServer,
) -> None:
    client = publisher_of("2001:db8:1:1::/64")
    site = site_part(client)
    partition = ids.partition_of(site)
    logs = [keys.rate(partition, "callback-site", site), keys.rate(partition, "callback-client", client)]
    now = int(empty_redis.do("TIME")[0]) * 1000
    # No node runs, because it would also call these keys in the meantime.
    async with await connect(empty_redis.url, timeout=5, max_in_flight=64) as store:
        for log, count in zip(logs, (CLIENT_LIMIT.count * SITE_SHARE, CLIENT_LIMIT.count), strict=True):
            times = [now - CLIENT_LIMIT.seconds * 1000 - number for number in range(count, 0, -1)]
            await store.command("LPUSH", log, *times, key=log)
            await store.command("PEXPIRE", log, CLIENT_LIMIT.seconds * 1000, key=log)
        empty_redis.do("CONFIG", "RESETSTAT")
        await Breaker(store, Limit(60, 60), CLIENT_LIMIT).allow(Requester(client, "a callback"))
        stats = empty_redis.info("commandstats")
        assert sum(each["calls"] for each in stats.values()) < 100
        assert [await store.command("LLEN", log, key=log) for log in logs] == [1, 1]
