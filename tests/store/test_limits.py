"""Places in limits and quotas, and a client's bytes of the day, to the millisecond and the byte."""

from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.common.refusal import Refused
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import ids, keys
from node.store.limits import BytesRefused, ByteUse, LimitState, LimitStore
from tests.store.conftest import Opener
from tests.support.fake_store import Clock, FakeStore
from tests.support.servers import RedisServer

LIMIT = Limit(10, 60)
CLIENT = "203.0.113.7"
HOUR = 3600.0


async def test_a_thing_is_listed_by_its_label_until_its_place_ends_or_is_released(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    board, *_ = await limits.take_quota("stream", "203.0.113.7", LIMIT, 5, 60_000, for_node=True, label="board ")
    await limits.take_quota("stream", "2001:db8::/64", LIMIT, 5, 90_000, for_node=True, label="tasks ")
    await limits.take_quota("session", "203.0.113.7", LIMIT, 5, 90_000, for_node=True, label="session ")
    assert {name.split()[0] for name in await limits.things("stream")} == {"board", "tasks"}
    await limits.release(board)
    assert [name.split()[0] for name in await limits.things("stream")] == ["tasks"]
    clock.advance(91)
    assert await limits.things("stream") == []


NEIGHBOURS = [f"2001:db8:1:{number}::/64" for number in range(SITE_SHARE + 1)]
"""Clients of one site."""
COUNT, WINDOW = 2, 60_000

Logs = defaultdict[str, list[int]]
"""Times of accepted requests (ms), oldest first, by client or site."""


def expected(logs: Logs, client: str, now: int) -> LimitState:
    """Return the expected answer in a limit that also applies to sites. An accepted request is recorded."""
    limits = {client: COUNT, site_of(client): COUNT * SITE_SHARE if site_of(client) != client else COUNT}
    for name, most in limits.items():
        logs[name] = [at for at in logs[name] if now - at < WINDOW]
        if len(logs[name]) >= most:
            return LimitState(False, 0, (logs[name][0] + WINDOW - now) / 1000, now)
    for name in limits:
        logs[name].append(now)
    left = min(most - len(logs[name]) for name, most in limits.items())
    return LimitState(True, left, (logs[client][0] + WINDOW - now) / 1000, now)


@given(
    st.lists(
        st.tuples(st.sampled_from([CLIENT, *NEIGHBOURS]), st.sampled_from([0, 0, 1, 1, 29_999, WINDOW - 1, WINDOW])),
        max_size=30,
    )
)
@example([(each, pause) for pause in (1, 1, WINDOW - 1, 1) for each in NEIGHBOURS])
@example(
    [(each, 1) for each in [*NEIGHBOURS[2:] * 2, *NEIGHBOURS[:2]]]
    + [(NEIGHBOURS[0], pause) for pause in (30_000, 29_999)]
)
@settings(max_examples=40)
async def test_a_client_and_its_site_have_so_many_requests_in_any_window(requests: list[tuple[str, int]]) -> None:
    limits, logs = LimitStore(FakeStore()), defaultdict[str, list[int]](list)
    with Clock.installed() as clock:
        for client, pause in requests:
            clock.advance(pause / 1000)
            taken = await limits.take("search", client, Limit(COUNT, WINDOW // 1000))
            assert taken == expected(logs, client, taken.at)


async def test_most_limits_are_not_kept_for_a_site(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    assert all([(await limits.take("task", each, Limit(1, 60))).allowed for each in NEIGHBOURS])


async def test_what_is_refunded_to_a_client_is_refunded_to_its_site(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    taken = [await limits.take("claim", each, Limit(1, 60)) for each in NEIGHBOURS]
    assert [each.allowed for each in taken] == [True] * SITE_SHARE + [False]
    await limits.refund("claim", NEIGHBOURS[0], taken[0])
    assert (await limits.take("claim", NEIGHBOURS[-1], Limit(1, 60))).allowed
    assert not (await limits.take("claim", NEIGHBOURS[0], Limit(1, 60))).allowed


async def test_of_two_requests_in_one_millisecond_one_is_refunded(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    first, _ = [await limits.take("claim", CLIENT, LIMIT) for _ in range(2)]
    await limits.refund("claim", CLIENT, first)
    assert (await limits.take("claim", CLIENT, LIMIT)).remaining == LIMIT.count - 2


async def test_who_has_more_than_a_limit_that_was_lowered_is_told_when_there_is_room_again(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    for _ in range(5):
        await limits.take("claim", CLIENT, LIMIT)
        clock.advance(1)
    lowered = Limit(2, 60)
    refused = await limits.take("claim", CLIENT, lowered)
    assert (refused.allowed, refused.reset) == (False, 58), "the fourth of five was two seconds ago"
    clock.advance(57.999)
    assert not (await limits.take("claim", CLIENT, lowered)).allowed
    clock.advance(0.001)
    assert (await limits.take("claim", CLIENT, lowered)).allowed


async def test_hundreds_of_requests_that_have_ended_at_once_are_forgotten_in_a_few_commands(
    redis_server: RedisServer, open_store: Opener
) -> None:
    store = await open_store(redis_server.url)
    limit = Limit(700, 60)
    log = keys.rate(ids.home_of(CLIENT), "claim", CLIENT)
    now = int(redis_server.do("TIME")[0]) * 1000
    ended = [now - limit.seconds * 1000 - number for number in range(600, 0, -1)]
    await store.command("LPUSH", log, *ended, now - 2, now - 1, key=log)
    redis_server.do("CONFIG", "RESETSTAT")
    assert (await LimitStore(store).take("claim", CLIENT, limit)).remaining == limit.count - 3
    assert sum(each["calls"] for each in redis_server.info("commandstats").values()) < 100
    assert await store.command("LLEN", log, key=log) == 3


async def test_bytes_of_any_number_of_clients_are_counted_where_few_calls_may_be_under_way(
    redis_server: RedisServer, open_store: Opener
) -> None:
    limits = LimitStore(await open_store(redis_server.url, max_in_flight=16))
    uses = [ByteUse(f"203.0.113.{n}", 2, 0) for n in range(17)]
    assert await limits.take_bytes(uses, 2) == [None] * 17
    assert all(await limits.take_bytes(uses, 2))


async def test_a_request_is_refunded_when_memory_is_full(redis_server: RedisServer, open_store: Opener) -> None:
    limits = LimitStore(await open_store(redis_server.url))
    taken = await limits.take("claim", CLIENT, LIMIT)
    redis_server.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
    redis_server.do("CONFIG", "SET", "maxmemory", 1)
    await limits.refund("claim", CLIENT, taken)
    assert redis_server.do("KEYS", "rate:*") == []


async def test_bytes_are_counted_for_a_day_from_the_first_on(clock: Clock) -> None:
    limits = LimitStore(FakeStore())

    async def take(size: int, owed: int = 0) -> BytesRefused | None:
        [over] = await limits.take_bytes([ByteUse(CLIENT, size, owed)], 100)
        return over

    assert await take(101) == BytesRefused(0.0, of_site=False), "more than there will ever be"
    assert await take(60) is None
    clock.advance(12 * HOUR)
    assert await take(0) is None
    assert await take(41) == BytesRefused(12 * HOUR, of_site=False)
    assert await take(40) is None, "what was refused was not counted"
    assert await take(0) == BytesRefused(12 * HOUR, of_site=False)
    clock.advance(12 * HOUR + 0.001)
    assert await take(60) is None
    assert await take(31, owed=10) == BytesRefused(24 * HOUR, of_site=False), "what is stored already is counted"
    assert await take(31) == BytesRefused(24 * HOUR, of_site=False)
    assert await take(20, owed=10) is None
    assert await take(1) == BytesRefused(24 * HOUR, of_site=False), "both were counted"


async def test_a_client_waits_for_itself_and_for_its_site(clock: Clock) -> None:
    limits = LimitStore(FakeStore())

    async def take(number: int, size: int) -> BytesRefused | None:
        [over] = await limits.take_bytes([ByteUse(f"2001:db8:1:{number}::/64", size, 0)], 100)
        return over

    for number in range(1, SITE_SHARE):
        assert await take(number, 100) is None
    assert await take(1, 1) == BytesRefused(24 * HOUR, of_site=False)
    clock.advance(10 * HOUR)
    assert await take(8, 60) is None
    assert await take(8, 60) == BytesRefused(24 * HOUR, of_site=True), "the client's day began just now"
    assert await take(9, 60) == BytesRefused(14 * HOUR, of_site=True)
    assert await take(9, 40) is None
    assert await take(9, 0) == BytesRefused(14 * HOUR, of_site=True)


async def test_a_place_in_a_quota_is_free_when_its_time_is_over_or_it_is_released(clock: Clock) -> None:
    limits = LimitStore(FakeStore())

    async def take(client: str, seconds: float) -> float | None:
        try:
            await limits.take_quota("session", client, Limit(0, 60), 2, round(seconds * 1000), for_node=True)
        except Refused as refused:
            assert refused.code == "quota.session"
            return refused.retry_after
        return None

    assert [await take(CLIENT, each) for each in (HOUR, 2 * HOUR, HOUR)] == [None, None, HOUR]
    clock.advance(HOUR - 0.001)
    assert await take(CLIENT, HOUR) == 0.001
    clock.advance(0.001)
    assert [await take(CLIENT, each) for each in (60, 60)] == [None, 60]
    assert len(await limits.things("session")) == 2
    clock.advance(61)
    assert await take(CLIENT, 2 * HOUR) is None
    assert await take(CLIENT, 60) == HOUR - 61, "the place that lasts longer is still taken"
    site = [await take(f"2001:db8:1:{number}::/64", HOUR) for number in range(2 * SITE_SHARE + 1)]
    assert site == [None] * 2 * SITE_SHARE + [HOUR]


async def test_who_has_more_than_a_quota_that_has_shrunk_is_told_when_there_is_room_again(clock: Clock) -> None:
    limits = LimitStore(FakeStore())

    async def take(most: int, seconds: int) -> None:
        await limits.take_quota("session", CLIENT, Limit(0, 60), most, seconds * 1000, for_node=True)

    for seconds in (40, 10, 30, 20):
        await take(5, seconds)
    with pytest.raises(Refused) as refused:
        await take(2, 60)
    assert refused.value.retry_after == 30, "three must end, so that one is left"
    clock.advance(29.999)
    with pytest.raises(Refused):
        await take(2, 60)
    clock.advance(0.001)
    await take(2, 60)


async def test_places_that_end_together_count_no_more_and_are_forgotten_some_at_a_time(clock: Clock) -> None:
    store = FakeStore()
    limits = LimitStore(store)
    place = keys.places(ids.home_of(CLIENT), "task", CLIENT)
    now = round(clock.time() * 1000)
    await store.run_all([("ZADD", place, now - number, number) for number in range(3500)])
    held: list[object] = []
    for _ in range(2):
        await limits.take_quota("task", CLIENT, Limit(0, 60), 2, 60_000, for_node=False)
        held.append(await store.command("ZCARD", place))
    with pytest.raises(Refused) as refused:
        await limits.take_quota("task", CLIENT, Limit(0, 60), 2, 60_000, for_node=False)
    held.append(await store.command("ZCARD", place))
    assert refused.value.retry_after == 60
    assert held == [2501, 1502, 502]


async def test_a_place_lasts_longer_and_not_shorter_unless_it_has_ended(clock: Clock) -> None:
    store = FakeStore()
    limits = LimitStore(store)
    place, _ = await limits.take_quota("inbox", CLIENT, LIMIT, 1, 60_000, for_node=True)
    now = round(clock.time() * 1000)
    for ends_at in (now + 90_000, now + 30_000):
        await limits.extend(place, ends_at)
    clock.advance(89.999)
    assert await limits.things("inbox") == [place.name]
    clock.advance(0.002)
    await limits.extend(place, now + 120_000)
    await limits.take_quota("inbox", CLIENT, LIMIT, 1, 60_000, for_node=True)


async def test_an_answer_about_bytes_is_for_the_client_that_asked() -> None:
    uses = [ByteUse(CLIENT, 101, 0), ByteUse("203.0.113.8", 10, 0), ByteUse(CLIENT, 0, 100)]
    assert [over is not None for over in await LimitStore(FakeStore()).take_bytes(uses, 100)] == [True, False, True]
