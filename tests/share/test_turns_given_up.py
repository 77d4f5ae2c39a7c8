"""Whoever gives up waiting for a place leaves none behind, at whichever moment that is."""

import asyncio
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from node.share.turns import Turns
from tests.support.servers import PATIENCE


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=3, max_size=30), st.randoms())
def test_many_that_give_up_at_the_moment_a_place_becomes_free_hold_up_nobody(
    asking: list[tuple[str, bool]], random: Random
) -> None:
    """The place used to be given to one that had just given up: an error, and nobody was next."""

    async def run() -> None:
        turns, gate, inside = Turns(2, each=1), asyncio.Event(), Counter[str]()

        async def work(key: str) -> None:
            async with turns.of(key):
                inside[key] += 1
                try:
                    assert inside[key] == 1
                    assert inside.total() <= 2
                    await gate.wait()
                finally:
                    inside[key] -= 1

        tasks = [asyncio.create_task(work(key)) for key, _ in asking]
        await asyncio.sleep(0)
        given_up = [task for task, (_, gives_up) in zip(tasks, asking, strict=True) if gives_up]
        random.shuffle(given_up)
        gate.set()
        for task in given_up:  # those with a place and those without, in one turn of the loop
            task.cancel()
        async with asyncio.timeout(PATIENCE):
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome, (_, gives_up) in zip(outcomes, asking, strict=True):
            assert isinstance(outcome, asyncio.CancelledError) if gives_up else outcome is None
        async with asyncio.timeout(PATIENCE), turns.of("d"), turns.of("e"):
            pass

    asyncio.run(run())
