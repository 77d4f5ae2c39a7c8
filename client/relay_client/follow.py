"""What iterations have in common: they page, they wait, and they go on when the node was away."""

import math
from collections.abc import Callable, Container
from typing import Any, TypeVar

from relay_client.call import Call
from relay_client.carrier import Patience
from relay_client.errors import DeadlineExceeded, Limited, Unavailable, Unreachable
from relay_client.room import Room
from relay_client.steps import Item, Items, Sleep, Steps

T = TypeVar("T")

WAIT = 25.0  # s that a follower asks the node to wait, below the 30 that it waits at most
RETURN_PAUSE = 5.0  # s before a follower comes back to a node that does not answer
LAST_LOOK = 1.0  # s that an answer may take beyond the time that somebody wants to wait
PASSING = (Unreachable, Unavailable, Limited, DeadlineExceeded)
"""What a follower waits out."""


def patiently(room: Room[Any], call: Call[T], ends: float = math.inf) -> Steps[T]:
    """The answer of a read, however long the node is away; until that time of the carrier's clock, or a moment later.

    Raises DeadlineExceeded.
    """
    carrier, patience = room.relay.carrier, room.relay.patience
    while True:
        left = max(ends - carrier.clock() - call.wait, LAST_LOOK)
        try:
            return (yield from carrier.carry(call, Patience(min(patience.deadline, left), patience.tries)))
        except PASSING as passing:
            left = ends - carrier.clock()
            if left <= 0:
                raise DeadlineExceeded(str(passing)) from passing
            yield Sleep(min(RETURN_PAUSE, left))


def until(room: Room[Any], read: Callable[..., Call[Any]], over: Container[Any], within: float | None) -> Steps[Any]:
    """Read something with a status until it has one of those; for so many seconds, then DeadlineExceeded."""
    clock = room.relay.carrier.clock
    ends = math.inf if within is None else clock() + within
    known: dict[str, Any] = {}
    while True:
        record = yield from patiently(room, read(**known), ends)
        if record["status"] in over:
            return record
        wait = min(WAIT, ends - clock())
        if wait <= 0:
            raise DeadlineExceeded(f"still {record['status']} after {within:g} s")
        known = {"status": record["status"], "wait": wait}


def pages(room: Room[Any], page: Callable[..., Call[Any]], field: str, limit: int) -> Items[Any]:
    """What is listed, page by page. What moves between pages meanwhile is given once at most."""
    offset = 0
    given: set[str] = set()
    while True:
        found = (yield from patiently(room, page(limit=limit, offset=offset)))[field]
        for one in found:
            if one["id"] not in given:
                given.add(one["id"])
                yield Item(one)
        if len(found) < limit:
            return
        offset += limit
