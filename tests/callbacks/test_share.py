"""Who waits for a share of a rate limit, and for how long, on a Redis whose clock the tests set
(`lua/lib/share.lua`).
"""

import pytest
import pytest_asyncio

from node.callbacks.attempt import Later
from node.callbacks.breaker import FAILURES, MAX_TURN_MS, Admitted, Breaker, Circuit
from node.callbacks.owners import Requester
from node.config import Limit
from tests.support.fake_store import Clock, FakeStore

CIRCUIT = Circuit("https://agent.example/hook", "agent.example")
WINDOW = 61
"""Seconds after which no earlier call counts any more."""


class Calls:
    """Asks for permission to call one host."""

    def __init__(self, clock: Clock, limit: Limit) -> None:
        self.clock = clock
        self.store = FakeStore()
        self.breaker = Breaker(self.store, limit)

    async def ask(self, name: str, site: str = "ann") -> Admitted | Later:
        return await self.breaker.admit(CIRCUIT, Requester(site, name))

    async def may(self, name: str, site: str = "ann") -> bool:
        return isinstance(await self.ask(name, site), Admitted)

    async def seconds(self, name: str, site: str = "ann") -> float:
        """Return how many seconds a call that may not be made now has to wait."""
        answer = await self.ask(name, site)
        assert isinstance(answer, Later)
        return answer.wait_ms / 1000


@pytest.fixture
def limit() -> Limit:
    return Limit(1, 60)


@pytest_asyncio.fixture
async def calls(clock: Clock, limit: Limit) -> Calls:
    return Calls(clock, limit)


async def test_what_waits_goes_before_what_comes_later(calls: Calls) -> None:
    assert await calls.may("first")
    assert not await calls.may("second")
    calls.clock.advance(WINDOW)
    assert not await calls.may("third")
    assert await calls.may("second")
    calls.clock.advance(WINDOW)
    assert await calls.may("third")
    calls.clock.advance(WINDOW)
    assert await calls.may("fourth"), "nothing waits any more"


async def test_what_does_not_come_again_is_forgotten_after_an_hour(calls: Calls) -> None:
    assert await calls.may("first")
    assert not await calls.may("second")
    calls.clock.advance(MAX_TURN_MS / 1000 - 1)
    assert await calls.seconds("third") == 60 / 2
    calls.clock.advance(2)
    assert await calls.seconds("fourth") == 60 / 2
    assert await calls.may("third")


async def test_nothing_is_noted_that_would_wait_for_longer_than_an_hour(calls: Calls) -> None:
    assert await calls.may("first")
    for number in range(60):
        assert await calls.seconds(f"{number:02}") == 60 + number * 60 / 2
    for name in ("too late", "too late", "as late"):
        assert await calls.seconds(name) * 1000 > MAX_TURN_MS


class TestCrowd:
    """Calls for which other callers leave little of the rate limit at times."""

    @pytest.fixture
    def limit(self) -> Limit:
        return Limit(60, 60)

    async def crowd(self, calls: Calls) -> None:
        """Let others take a whole minute's calls."""
        for number in range(60):
            assert await calls.may("theirs", f"site {number}")

    async def test_when_the_others_have_gone_all_that_waits_goes_on_without_them(self, calls: Calls) -> None:
        """If turns stayed as far apart as the crowd made them, 776 callbacks would take 55 minutes instead of 13."""
        await self.crowd(calls)
        waits = [await calls.seconds(f"{number:02}") for number in range(30)]
        assert waits[0] == 60
        assert waits[-1] == 60 + 29 * 60 / 2
        calls.clock.advance(WINDOW)
        assert [await calls.may(f"{number:02}") for number in range(30)] == [True] * 30

    async def test_what_waits_already_is_not_given_up_when_a_crowd_comes(self, calls: Calls) -> None:
        for number in range(41):
            assert await calls.may(f"gone {number}")
        for number in range(200):
            assert await calls.seconds(f"{number:03}") <= 60 + 200 * 60 / 40
        calls.clock.advance(WINDOW)
        await self.crowd(calls)
        assert 60 + 30 * 60 - 1 < await calls.seconds("199") <= MAX_TURN_MS / 1000
        assert await calls.seconds("one more") * 1000 > MAX_TURN_MS

    async def test_of_calls_counted_in_one_millisecond_one_is_refunded(self, calls: Calls) -> None:
        asked = [await calls.ask(f"{number:03}") for number in range(41)]
        assert isinstance(asked[-1], Admitted)
        await calls.breaker.refund(asked[-1])
        assert [await calls.may(name) for name in ("next", "one more")] == [True, False]


async def test_what_was_counted_and_not_made_is_refunded_and_waits_where_it_was(calls: Calls) -> None:
    assert await calls.may("first")
    assert not await calls.may("second")
    assert not await calls.may("third")
    calls.clock.advance(WINDOW)
    admitted = await calls.ask("second")
    assert isinstance(admitted, Admitted)
    await calls.breaker.refund(admitted)
    # Two are before it again, but it need not wait for the end of the minute.
    assert await calls.seconds("fourth") == 2 * 60 / 2
    assert await calls.may("third")
    assert await calls.seconds("second") == 60


async def test_nothing_stays_of_what_waits_again_after_a_refund_and_does_not_come_again(calls: Calls) -> None:
    assert await calls.may("first")
    assert not await calls.may("second")
    calls.clock.advance(WINDOW)
    admitted = await calls.ask("second")
    assert isinstance(admitted, Admitted)
    await calls.breaker.refund(admitted)
    calls.clock.advance(MAX_TURN_MS / 1000 + 1)
    assert await calls.store.command("KEYS", "*") == []


class TestBreaker:
    """One of two URLs of a host has an open breaker."""

    @pytest.fixture
    def limit(self) -> Limit:
        return Limit(60, 60)

    async def test_what_waits_for_it_holds_up_nothing_that_goes_to_the_other(self, calls: Calls) -> None:
        for _ in range(FAILURES):
            await calls.breaker.failed(CIRCUIT)
        waits = [await calls.seconds(f"{number:03}") for number in range(100)]
        assert waits[-1] - waits[0] == 99 * 60 / 40 / 2  # spread as their share of the rate will allow
        other = Circuit("https://agent.example/other", CIRCUIT.pool)
        assert isinstance(await calls.breaker.admit(other, Requester("ann", "other")), Admitted)

    async def test_what_had_waited_for_its_turn_does_not_either(self, calls: Calls) -> None:
        for number in range(41):
            assert await calls.may(f"{number:03}")
        waiting = [f"{number:03}" for number in range(100, 150)]
        for name in waiting:
            assert not await calls.may(name)
        await calls.breaker.pause(CIRCUIT, 2 * WINDOW)
        calls.clock.advance(WINDOW)
        for name in waiting:
            assert not await calls.may(name)
        other = Circuit("https://agent.example/other", CIRCUIT.pool)
        assert isinstance(await calls.breaker.admit(other, Requester("ann", "other")), Admitted)
        calls.clock.advance(WINDOW)
        assert [await calls.may(name) for name in waiting] == [True] * 41 + [False] * 9
