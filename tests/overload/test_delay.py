"""How long a request takes now, as the intake observes it, and which requests are in step."""

import pytest

from node.common.cohort import COHORT, MIN_COHORT, STAGES
from node.overload.admission import INTERVAL_SECONDS, MAX_NORMAL_REQUESTS
from node.overload.intake import LOOP_PASSES, MAX_STORE_CALLS, OBSERVE_SECONDS
from tests.overload.door import Door
from tests.support.servers import eventually


async def test_a_store_that_does_not_answer_counts_as_delay(door: Door) -> None:
    door.come(MAX_NORMAL_REQUESTS + 1)
    await eventually(lambda: len(door.begun) == MAX_NORMAL_REQUESTS + 1)
    door.store = (MAX_NORMAL_REQUESTS + 1, 7)
    while door.now < 100.0 + 2 * INTERVAL_SECONDS:  # at the pace of the intake, since older requests do not count
        door.now += OBSERVE_SECONDS
        looked = door.asked
        await eventually(lambda looked=looked: door.asked > looked)
    assert door.come()[0].refused


async def seen_later(door: Door) -> float:
    """Return the delay observed a second after an observation was due."""
    looked, known = door.asked, len(door.admission.delays)
    await eventually(lambda: door.asked > looked)
    door.now += OBSERVE_SECONDS + 1.0
    await eventually(lambda: len(door.admission.delays) > known)
    return door.admission.delays[known]


async def test_delay_is_that_of_the_loop_three_times_over(door: Door) -> None:
    assert await seen_later(door) == pytest.approx(LOOP_PASSES)


async def test_those_that_begin_in_one_turn_are_in_step_and_their_delay_counts_for_each_stage(door: Door) -> None:
    door.come(MIN_COHORT)
    await eventually(lambda: len(door.begun) == MIN_COHORT)
    assert COHORT.in_step
    assert await seen_later(door) == pytest.approx(LOOP_PASSES + STAGES)
    door.come()
    await eventually(lambda: len(door.begun) == MIN_COHORT + 1)
    assert not COHORT.in_step
    assert await seen_later(door) == pytest.approx(LOOP_PASSES)


async def test_a_turn_that_begins_none_leaves_those_under_way_in_step(door: Door) -> None:
    door.come(MIN_COHORT)
    await eventually(lambda: len(door.begun) == MIN_COHORT)
    door.store = (MAX_STORE_CALLS, 0)
    looked = door.asked
    door.come()
    await eventually(lambda: door.asked > looked + 2)
    assert (len(door.begun), COHORT.in_step) == (MIN_COHORT, True)


async def test_time_in_the_queue_is_delay(door: Door) -> None:
    door.store = (MAX_STORE_CALLS, 0)
    door.come()
    in_queue = without_reply = OBSERVE_SECONDS + 1.0
    assert await seen_later(door) == pytest.approx(LOOP_PASSES + in_queue + without_reply)


async def test_calls_under_way_and_those_that_end_tell_how_long_a_call_takes(door: Door) -> None:
    for ended in (5, 10):
        door.store = (10, ended - 5)
        looked = door.asked
        await eventually(lambda looked=looked: door.asked > looked)
        door.store = (10, ended)
        door.now += OBSERVE_SECONDS
        known = len(door.admission.delays)
        await eventually(lambda known=known: len(door.admission.delays) > known)
        assert door.admission.delays[known] == pytest.approx(OBSERVE_SECONDS * 10 / 5)
