"""The node's single requests count when they are made, and their answers inform the breaker of the URL."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from node.callbacks import concurrency, fair
from node.callbacks.attempt import Later
from node.callbacks.breaker import Breaker, circuit_of
from node.callbacks.call import CallAnswer, Caller, CallResult
from node.callbacks.concurrency import PLACES, Concurrency
from node.callbacks.fair import FairCaller
from node.callbacks.owners import Requester
from node.callbacks.resolve import SystemResolver
from node.callbacks.target import Target, TargetPolicy, parse
from node.config import Limit
from tests.support.fake_store import Clock, FakeStore
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.node_under_test import NodeUnderTest

POLICY = TargetPolicy(allow_private=True)
SOMEBODY = Requester("somebody")

BEFORE = 2
"""Number of earlier failures in a row: too few to open the breaker."""


async def failures(node: NodeUnderTest, target: Target) -> int:
    """Return how many failures in a row the URL's breaker has counted."""
    counted = await node.store.command("GET", circuit_of(target, SOMEBODY).failures)
    return int(counted) if isinstance(counted, bytes) else 0


FORGOTTEN = 0
COUNTED = BEFORE + 1


@pytest.mark.parametrize(
    ("status", "after"),
    [
        (200, FORGOTTEN),
        (302, FORGOTTEN),
        (404, FORGOTTEN),
        (410, FORGOTTEN),
        (408, COUNTED),
        (425, COUNTED),
        (503, COUNTED),
        (429, BEFORE),
    ],
)
async def test_an_answer_is_held_for_or_against_its_url(node: NodeUnderTest, status: int, after: int) -> None:
    breaker = Breaker(node.store, Limit(0, 1))
    caller = Caller(POLICY, SystemResolver(), breaker)
    async with FixedAnswer(answer(f"{status} X")) as server:
        target = parse(f"{server.url}/card", POLICY)
        for _ in range(BEFORE):
            await breaker.failed(circuit_of(target, SOMEBODY))
        request = caller.request("GET", target, ())
        result = await FairCaller(caller, breaker, Concurrency()).call(target, request, SOMEBODY.publisher)
    assert isinstance(result, CallAnswer)
    assert result.status == status
    assert await failures(node, target) == after


async def counted(node: NodeUnderTest) -> dict[str, object]:
    """Return the counts of calls and attempts, by key."""
    names = [name for name in await node.names("rate:*:callback*") if "waiting" not in name]
    return {name: await node.store.command("LLEN", name) for name in names}


@pytest.mark.parametrize(
    ("limit", "client_limit", "host", "client", "taken"),
    [
        pytest.param(60, 1, "127.0.0.1", "ann", 0, id="the client had its share"),
        pytest.param(1, 60, "127.0.0.1", "bob", 0, id="the host had its share"),
        pytest.param(1, 60, "127.0.0.2", "bob", 0, id="the network had its share"),
        pytest.param(60, 60, "127.0.0.1", "bob", PLACES, id="no place was free"),
    ],
)
async def test_a_request_that_is_not_made_counts_nowhere(
    node: NodeUnderTest,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    client_limit: int,
    host: str,
    client: str,
    taken: int,
) -> None:
    """A request that waits for one limit must not use up the others at each try."""
    breaker = Breaker(node.store, Limit(limit, 60), Limit(client_limit, 60))
    caller, held = Caller(POLICY, SystemResolver(), breaker), Concurrency()
    calls = FairCaller(caller, breaker, held)

    async def result_of(url: str, publisher: str) -> CallResult:
        target = parse(url, POLICY)
        return await calls.call(target, caller.request("GET", target, ()), publisher)

    async with FixedAnswer(answer("200 OK")) as server, AsyncExitStack() as places_held:
        assert isinstance(await result_of(f"{server.url}/card", "ann"), CallAnswer)
        before = await counted(node)
        assert len(before) == 6  # of the client, the host and the network: one in all, and one of its own share
        for number in range(taken):
            await places_held.enter_async_context(held.of(f"site {number}", f"d{number}.example"))
        monkeypatch.setattr(concurrency, "TURN_SECONDS", 0.01)
        assert isinstance(await result_of(server.url.replace("127.0.0.1", host) + "/other", client), Later)
        assert {name: used for name, used in (await counted(node)).items() if used} == before


async def test_a_turn_is_waited_for_unless_it_comes_too_late(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr(fair, "sleep", sleep)
    breaker, time = Breaker(FakeStore(), Limit(1, 60)), asyncio.get_running_loop().time
    caller = Caller(POLICY, SystemResolver(), breaker)
    calls = FairCaller(caller, breaker, Concurrency())
    async with FixedAnswer(answer("200 OK")) as server:
        target = parse(f"{server.url}/card", POLICY)
        request = caller.request("GET", target, ())
        assert isinstance(await calls.call_in_turn(target, request, "ann", time()), CallAnswer)
        assert isinstance(await calls.call_in_turn(target, request, "ann", time() + 59), Later)
        assert waited == []
        assert isinstance(await calls.call_in_turn(target, request, "ann", time() + 90), CallAnswer)
    assert sum(waited) == 60
