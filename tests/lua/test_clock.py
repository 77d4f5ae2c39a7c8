"""When Redis' clock is set back, as that of a machine may be, nobody has to wait until it has caught up."""

import pytest

from node.callbacks.attempt import Later
from node.callbacks.breaker import FAILURES, PROBE_MS, Admitted, Breaker, Circuit
from node.callbacks.owners import Requester, publisher_of
from node.callbacks.queue import Callback, CallbackMessage, CallbackQueue
from node.common.refusal import Refused
from node.config import Limit
from node.relay.store import RelayStore
from node.store.limits import DAY_MS, ByteUse, LimitStore
from node.store.work import WorkStore
from tests.support.fake_store import Clock, FakeStore
from tests.support.rates import Unlimited

CLIENT = "203.0.113.7"
HOUR = 3600
LIMIT = Limit(2, 60)


async def test_a_limit_begins_anew(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    assert [bool((await limits.take("relay", CLIENT, LIMIT)).allowed) for _ in range(3)] == [True, True, False]
    clock.advance(-HOUR)
    assert (await limits.take("relay", CLIENT, LIMIT)).allowed


async def test_what_a_client_owes_does_not_grow_and_is_worked_off(clock: Clock) -> None:
    work = WorkStore(FakeStore())
    before = await work.spend("search", CLIENT, LIMIT.count + 1, LIMIT)
    assert before > 0
    clock.advance(-HOUR)
    assert await work.spend("search", CLIENT, 0, LIMIT) == before
    clock.advance(before)
    assert await work.spend("search", CLIENT, 0, LIMIT) == 0


async def test_bytes_are_counted_anew_after_a_day_at_most(clock: Clock) -> None:
    limits = LimitStore(FakeStore())
    use, most = ByteUse(CLIENT, size=10, owed=0), 10
    assert await limits.take_bytes([use], most) == [None]
    clock.advance(-300 * 24 * HOUR)
    [refused] = await limits.take_bytes([use], most)
    assert refused
    assert refused.wait == 24 * HOUR
    clock.advance(24 * HOUR + 1)
    assert await limits.take_bytes([use], most) == [None]


async def test_the_places_of_a_full_quota_end_after_a_day_at_most(clock: Clock) -> None:
    limits = LimitStore(FakeStore())

    async def take() -> None:
        await limits.take_quota("task", CLIENT, LIMIT, 2, DAY_MS, for_node=False)

    await take()
    await take()
    clock.advance(-300 * 24 * HOUR)
    with pytest.raises(Refused) as refused:
        await take()
    assert refused.value.retry_after == 24 * HOUR
    clock.advance(24 * HOUR + 1)
    await take()


async def test_a_message_is_no_loop_of_those_that_seem_to_come_later(clock: Clock) -> None:
    relay = RelayStore(FakeStore(), 60)
    for _ in range(2):
        await relay.accept(Unlimited(CLIENT), "digest", None, 60_000, ["payload", "Hello"])
    clock.advance(-HOUR / 2)
    kept, _ = await relay.accept(Unlimited(CLIENT), "digest", None, 60_000, ["payload", "Hello"])
    assert kept


async def test_callbacks_go_on(clock: Clock) -> None:
    breaker = Breaker(FakeStore(), LIMIT, LIMIT)
    requester = Requester(publisher_of(CLIENT), "a callback")
    for _ in range(2):
        assert isinstance(await breaker.allow(requester), Admitted)
    assert isinstance(await breaker.allow(requester), Later)
    clock.advance(-HOUR)
    assert isinstance(await breaker.allow(requester), Admitted)


async def test_a_breaker_that_is_open_does_not_stay_so(clock: Clock) -> None:
    breaker, receiver = Breaker(FakeStore(), Limit(0, 1)), Circuit("agent.example", "agent.example")
    requester = Requester(publisher_of(CLIENT), "a callback")
    for _ in range(FAILURES):
        await breaker.failed(receiver)
    assert isinstance(await breaker.admit(receiver, requester), Later)
    clock.advance(-24 * HOUR)
    assert isinstance(await breaker.admit(receiver, requester), Admitted)
    waits = await breaker.admit(receiver, requester)
    assert isinstance(waits, Later), "for the call that probes"
    assert waits.wait_ms <= PROBE_MS


async def test_a_receiver_that_asked_for_a_pause_is_left_alone_again_when_it_fails(clock: Clock) -> None:
    breaker, receiver = Breaker(FakeStore(), Limit(0, 1)), Circuit("agent.example", "agent.example")
    requester = Requester(publisher_of(CLIENT), "a callback")
    await breaker.pause(receiver, 60)
    assert isinstance(await breaker.admit(receiver, requester), Later)
    clock.advance(-24 * HOUR)
    assert isinstance(await breaker.admit(receiver, requester), Admitted)
    for _ in range(FAILURES):
        await breaker.failed(receiver)
    assert isinstance(await breaker.admit(receiver, requester), Later)


async def test_callbacks_that_wait_until_it_is_as_late_again_hold_up_no_others(clock: Clock) -> None:
    breaker = Breaker(FakeStore(), LIMIT, LIMIT)
    for number in range(6):
        await breaker.allow(Requester(publisher_of(CLIENT), f"callback {number}"))
    clock.advance(-HOUR)
    assert isinstance(await breaker.allow(Requester(publisher_of(CLIENT), "another one")), Admitted)


async def test_the_next_callback_of_a_thread_is_sent(clock: Clock) -> None:
    queue = CallbackQueue(FakeStore(), lambda _: {})

    async def due(number: int) -> list[Callback]:
        data = {"thread_id": "a thread", "seq": number}
        message = CallbackMessage("a thread", f"msg_{number}", "http://127.0.0.1/hook", "board.reply", number, data)
        await queue.enqueue(7, [message])
        return await queue.take([7])

    [first] = await due(1)
    await queue.settle(first, "delivered", 0)
    clock.advance(-HOUR)
    assert [each.id for each in await due(2)] == ["msg_2"]
