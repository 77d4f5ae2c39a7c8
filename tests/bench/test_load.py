"""What the load generator counts, and from which moment."""

import asyncio

import pytest

from bench.client import CLOSED, UNANSWERED, Call, Pool, request
from bench.load import closed_loop, keep_asking, open_loop
from bench.schedule import Schedule
from tests.bench.stand_in import stand_in
from tests.support.servers import PATIENCE

WIRE = request("POST", "/api/v1/relay", b'{"message":"Hello from agent A."}')


def call(_index: int) -> Call:
    return Call(WIRE)


async def test_an_open_loop_sends_what_is_due_and_counts_every_answer() -> None:
    async with stand_in() as server, Pool("127.0.0.1", server.port, 8) as pool:
        seen = await open_loop(pool, call, Schedule(500, 0.2))
    assert (seen.sent, seen.good, seen.bad) == (100, 100, 0)
    assert server.requests == 100
    assert seen.statuses == {200: 100}
    assert seen.busy > 0


async def test_a_stall_is_charged_to_every_request_that_fell_due_meanwhile() -> None:
    # One connection, ten requests 10 ms apart, no answer before the last one is due: the first has waited longest.
    # Counted from the moment of sending, nine of them would look fast.
    async with stand_in() as server, Pool("127.0.0.1", server.port, 1) as pool:
        server.hold()

        def the_tenth_releases(index: int) -> Call:
            if index == 9:
                server.release()
            return call(index)

        seen = await open_loop(pool, the_tenth_releases, Schedule(100, 0.1))
    samples = list(seen.counts[""].samples)
    assert (len(samples), seen.delayed) == (10, 9)
    assert all(sample >= (9 - number) * 10_000_000 for number, sample in enumerate(samples))


async def test_requests_without_an_answer_count_with_the_time_that_was_waited() -> None:
    async with stand_in() as server, Pool("127.0.0.1", server.port, 2) as pool:
        server.hold()
        seen = await open_loop(pool, call, Schedule(100, 0.05), drain=0.05)
    assert (seen.good, seen.bad, seen.statuses) == (0, 5, {UNANSWERED: 5})
    assert len(seen.latencies()) == 5
    assert seen.latencies().largest >= 90


async def test_kinds_and_unexpected_statuses_are_told_apart() -> None:
    def mixed(index: int) -> Call:
        return Call(WIRE, "right") if index % 2 else Call(WIRE, "wrong", (201,))

    async with stand_in() as server, Pool("127.0.0.1", server.port, 2) as pool:
        seen = await open_loop(pool, mixed, Schedule(200, 0.1))
    assert (len(seen.latencies("right")), len(seen.latencies("wrong"))) == (10, 0)
    assert len(seen.counts["wrong"].others) == 10  # a refusal's latency is not counted
    assert (seen.good, seen.bad) == (10, 10)


async def test_a_closed_loop_stops_at_its_count_with_all_answers() -> None:
    async with stand_in() as server, Pool("127.0.0.1", server.port, 4) as pool:
        seen = await closed_loop(pool, call, 30, count=50)
    assert (seen.sent, seen.good, server.requests) == (50, 50, 50)


async def test_each_connection_asks_its_own_next_question_when_it_is_answered() -> None:
    asked: list[int] = []
    enough = asyncio.Event()

    def next_call(number: int) -> Call:
        asked.append(number)
        if len(asked) == 30:
            enough.set()
        return call(number)

    async with stand_in() as server, Pool("127.0.0.1", server.port, 3) as pool:
        keep_asking(pool, next_call)
        await asyncio.wait_for(enough.wait(), PATIENCE)
    assert {asked.count(number) > 1 for number in range(3)} == {True}
    assert set(asked) == {0, 1, 2}


async def test_a_connection_that_breaks_is_counted_and_replaced() -> None:
    async with stand_in() as server, Pool("127.0.0.1", server.port, 1) as pool:

        def broken_once(index: int) -> Call:
            return (
                Call(b"nonsense\r\n\r\n".replace(b"nonsense", b"Content-Length: none")) if index == 0 else call(index)
            )

        # The stand-in cannot parse the first request's length and drops the connection.
        seen = await closed_loop(pool, broken_once, 30, count=3)
    assert seen.statuses == {CLOSED: 1, 200: 2}


async def test_a_mistake_in_a_scenario_ends_the_measurement() -> None:
    def wrong(_index: int) -> Call:
        raise LookupError("no such session")

    async with stand_in() as server, Pool("127.0.0.1", server.port, 1) as pool:
        with pytest.raises(LookupError, match="no such session"):
            await open_loop(pool, wrong, Schedule(10, 1))
