"""Single requests of the node tell the breaker of a URL what their answers say of it."""

import pytest

from node.callbacks.breaker import Breaker, circuit_of
from node.callbacks.call import CallAnswer, Caller
from node.callbacks.fair import FairCaller
from node.callbacks.places import Places
from node.callbacks.resolve import SystemResolver
from node.callbacks.target import Policy, Target, parse
from node.config import Limit
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.node_under_test import NodeUnderTest

POLICY = Policy(allow_private=True)

BEFORE = 2
"""Failures in a row that were there already: too few to open the breaker."""


async def failures(node: NodeUnderTest, target: Target) -> int:
    """How many in a row the breaker of a URL has counted."""
    counted = await node.store.command("GET", circuit_of(target).failures)
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
    caller = Caller(POLICY, SystemResolver())
    async with FixedAnswer(answer(f"{status} X")) as server:
        target = parse(f"{server.url}/card", POLICY)
        for _ in range(BEFORE):
            await breaker.failed(circuit_of(target))
        result = await FairCaller(caller, breaker, Places()).call(target, caller.request("GET", target, ()), "somebody")
    assert isinstance(result, CallAnswer)
    assert result.status == status
    assert await failures(node, target) == after
