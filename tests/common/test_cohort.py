"""Requests that wait for each other after each stage of their way."""

import asyncio

import pytest

from node.common.cohort import COHORT, MIN_COHORT, next_stage

MEMBERS = "abcd"


async def course(size: int) -> str:
    """Return in which order the stages of MEMBERS ran, in a cohort of that size."""
    ran: list[str] = []

    async def run(name: str) -> None:
        for stage in "123":
            ran.append(name + stage)
            await next_stage()

    COHORT.begin(size)
    await asyncio.gather(*map(run, MEMBERS))
    return " ".join(ran)


async def test_the_members_of_a_cohort_take_each_stage_together() -> None:
    assert await course(MIN_COHORT) == "a1 b1 c1 d1 a2 b2 c2 d2 a3 b3 c3 d3"


@pytest.mark.parametrize("size", [0, 1, MIN_COHORT - 1])
async def test_few_requests_do_not_wait_for_each_other(size: int) -> None:
    assert await course(size) == "a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 d3"
