"""What iterations have in common: they page, they wait, and they go on when the node was away."""

import math
from collections.abc import Callable, Container
from typing import Any, TypeVar

from relay_client.call import Call
from relay_client.errors import DeadlineExceeded, Limited, Unavailable, Unreachable
from relay_client.room import Room
from relay_client.steps import Item, Items, Sleep, Steps

T = TypeVar("T")

WAIT = 25.0  # s that a follower asks the node to wait, below the 30 that it waits at most
RETURN_PAUSE = 5.0  # s before a follower comes back to a node that does not answer
PASSING = (Unreachable, Unavailable, Limited, DeadlineExceeded)
"""What a follower waits out."""


def patiently(room: Room[Any], call: Call[T], ends: float = math.inf) -> Steps[T]:
    """The answer of a read, however long the node is away; until that time of the carrier's clock."""
    while True:
        try:
            return (yield from room.carry(call))
        except PASSING:
            if room.relay.carrier.clock() + RETURN_PAUSE > ends:
                raise
            yield Sleep(RETURN_PAUSE)


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
        found = (yield from room.carry(page(limit=limit, offset=offset)))[field]
        for one in found:
            if one["id"] not in given:
                given.add(one["id"])
                yield Item(one)
        if len(found) < limit:
            return
        offset += limit
