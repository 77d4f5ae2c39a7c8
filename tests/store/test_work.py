"""What clients owe for work done for them, and how the debt is worked off."""

import asyncio

from node.config import Limit
from node.share.site import SITE_SHARE
from node.store.work import WorkStore
from tests.store.conftest import Opener
from tests.support.fake_store import Clock, FakeStore
from tests.support.servers import RedisServer

LIMIT = Limit(600, 60)  # ten a second
CLIENT = "203.0.113.7"


async def test_what_is_owed_is_worked_off_evenly(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    assert await work.spend("pages", CLIENT, 700, LIMIT) == 10.1
    clock.advance(5)
    assert await work.spend("pages", CLIENT, 0, LIMIT) == 5.1
    clock.advance(3600)
    assert await work.spend("pages", CLIENT, 599, LIMIT) == 0, "of the first 700 nothing is left"


async def test_a_client_that_owes_its_allowance_waits_until_it_owes_less(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    assert await work.spend("pages", CLIENT, 599, LIMIT) == 0
    assert await work.spend("pages", CLIENT, 101, LIMIT) == 10.1, "work that was done is charged whole"
    clock.advance(10)
    assert await work.spend("pages", CLIENT, 0, LIMIT) > 0
    clock.advance(0.2)
    assert await work.spend("pages", CLIENT, 0, LIMIT) == 0


async def test_a_large_debt_is_worked_off_to_its_end(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    assert await work.spend("pages", CLIENT, 1800, LIMIT) == 120.1
    clock.advance(61)
    assert 59 <= await work.spend("pages", CLIENT, 0, LIMIT) <= 59.2
    clock.advance(60)
    assert await work.spend("pages", CLIENT, 599, LIMIT) > 50, "what is left of it counts with what comes"


async def test_nothing_is_worked_off_before_its_time(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    assert await work.spend("pages", CLIENT, 600, LIMIT) == 0.1
    clock.advance(0.099)
    assert await work.spend("pages", CLIENT, 0, LIMIT) == 0.1
    clock.advance(0.002)
    assert await work.spend("pages", CLIENT, 0, LIMIT) == 0


async def test_a_client_waits_for_the_larger_debt(clock: Clock) -> None:
    work, client = WorkStore(FakeStore()), "2001:db8:1:2::/64"
    alone = await work.spend("pages", CLIENT, 9000, LIMIT)
    assert await work.spend("pages", client, 9000, LIMIT) == alone == 840.1
    of_site = await work.spend("pages", "2001:db8:1:3::/64", 0, LIMIT)
    assert 0 < of_site < alone


async def test_over_any_time_no_more_is_spent_than_the_allowance_and_what_was_worked_off(clock: Clock) -> None:
    work, spent = WorkStore(FakeStore()), 0
    for _ in range(600):
        if not await work.spend("pages", CLIENT, 0, LIMIT):
            await work.spend("pages", CLIENT, 50, LIMIT)
            spent += 50
        clock.advance(1)
    assert 600 * 10 <= spent <= 600 + 600 * 10 + 50


async def test_clients_and_kinds_are_counted_apart_and_asking_costs_nothing(clock: Clock) -> None:
    store = FakeStore()
    work = WorkStore(store)
    await work.spend("pages", CLIENT, 600, LIMIT)
    assert await work.spend("pages", CLIENT, 0, LIMIT) > 0
    assert await work.spend("pages", "203.0.113.8", 0, LIMIT) == 0
    assert await work.spend("words", CLIENT, 0, LIMIT) == 0
    assert len(store.redis.keys("*")) == 1


async def test_a_site_owes_as_much_as_some_of_its_clients(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    for number in range(SITE_SHARE):
        assert await work.spend("pages", f"2001:db8:1:{number:x}::/64", 599, LIMIT) == 0
    assert await work.spend("pages", "2001:db8:1:ff::/64", SITE_SHARE - 1, LIMIT) == 0
    assert await work.spend("pages", "2001:db8:1:ff::/64", 1, LIMIT) > 0
    assert await work.spend("pages", "2001:db8:1:fe::/64", 0, LIMIT) > 0
    assert await work.spend("pages", "2001:db8:2::/64", 0, LIMIT) == 0
    clock.advance(1)
    assert await work.spend("pages", "2001:db8:1:fe::/64", 0, LIMIT) == 0


async def test_charges_that_come_at_once_are_all_counted(redis_server: RedisServer, open_store: Opener) -> None:
    """The two stores stand in for two processes."""
    stores, limit = [WorkStore(await open_store(redis_server.url)) for _ in range(2)], Limit(100, 3600)
    await asyncio.gather(*(stores[n % 2].spend("pages", CLIENT, 5, limit) for n in range(40)))
    assert 3500 < await stores[0].spend("pages", CLIENT, 0, limit) <= 101 * 36, "200 are owed"
    (name,) = redis_server.do("KEYS", "*")
    assert 0 < redis_server.do("PTTL", name) <= 200 * 36_000, "until nothing is owed"
