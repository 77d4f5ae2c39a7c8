"""What iterations have in common: paging, waiting, and continuing after the node was unavailable."""

import math
from collections.abc import Callable, Container
from functools import partial
from typing import Any, Generic, TypeVar

from relay_client.call import Call
from relay_client.carrier import Patience
from relay_client.errors import DeadlineExceeded, Limited, Unavailable, Unreachable, UsageError
from relay_client.resource import Resource
from relay_client.steps import Item, Items, Sleep, Steps

T = TypeVar("T")

WAIT = 25.0  # s that a follower asks the node to wait, below the node's maximum of 30
RETURN_PAUSE = 5.0  # s before a follower calls a node again that did not answer
EARLY = 0.5  # share of the requested wait: the node did not wait if it answered faster
FIRST_LULL = 0.2  # s after a first read that did not wait and found nothing; doubles with each further one
LONGEST_LULL = 5.0  # s
LAST_LOOK = 1.0  # s that the last answer may take, even if the deadline is earlier
PASSING = (Unreachable, Unavailable, Limited, DeadlineExceeded)
"""Temporary errors, after which a follower tries again."""


def patiently(resource: Resource[Any], call: Call[T], ends: float = math.inf) -> Steps[T]:
    """Carry out a read, however long the node is unavailable.

    Raises DeadlineExceeded at `ends` by the carrier's clock, or a moment later.
    """
    carrier, patience = resource.relay.carrier, resource.relay.patience
    while True:
        left = max(ends - carrier.clock() - call.wait, LAST_LOOK)
        try:
            return (yield from carrier.carry(call, Patience(min(patience.deadline, left), patience.tries)))
        except PASSING as passing:
            left = ends - carrier.clock()
            if left <= 0:
                raise DeadlineExceeded(str(passing)) from passing
            yield Sleep(min(RETURN_PAUSE, left))


class Lull:
    """The backoff of a loop that reads with `wait`.

    A node with too many waiting requests answers at once, although there is nothing new. After each such answer comes a
    pause, twice as long as the last.
    """

    def __init__(self) -> None:
        self._pause = 0.0

    def after(self, took: float, wait: float, *, is_new: bool) -> float:
        """Return the seconds to pause before the next read. The last one `took` seconds, with a `wait` of `wait`."""
        if is_new or took >= wait * EARLY:
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, FIRST_LULL), LONGEST_LULL)
        return self._pause


class Follower(Generic[T]):
    """Reads the same entity repeatedly, and pauses between reads if the node does not wait."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._resource = resource
        self._lull = Lull()

    def read(self, call: Call[T], is_new: Callable[[T], object], ends: float = math.inf) -> Steps[T]:
        """Do as `patiently`, then pause before the next read. `is_new`: whether an answer has anything new."""
        clock = self._resource.relay.carrier.clock
        began = clock()
        answer = yield from patiently(self._resource, call, ends)
        now = clock()
        if pause := self._lull.after(now - began, call.wait, is_new=bool(is_new(answer))):
            yield Sleep(max(min(pause, ends - now), 0.0))
        return answer


def until(
    resource: Resource[Any], read: Callable[..., Call[Any]], over: Container[Any], within: float | None
) -> Steps[Any]:
    """Read a record until its status is in `over`.

    Raises DeadlineExceeded after `within` seconds, UsageError if `within` is not a number.
    """
    if within is not None and math.isnan(within):
        raise UsageError("within must be a number of seconds, not nan")
    clock = resource.relay.carrier.clock
    ends = math.inf if within is None else clock() + within
    follower = Follower[Any](resource)
    status: str | None = None
    known: dict[str, Any] = {}
    while True:
        record = yield from follower.read(read(**known), partial(_has_left, status), ends)
        status = record["status"]
        if status in over:
            return record
        wait = min(WAIT, ends - clock())
        if wait <= 0:
            raise DeadlineExceeded(f"still {status} after {within:g} s")
        known = {"status": status, "wait": wait}


def changed(resource: Resource[Any], record: Any, status: str, call: Call[Any]) -> Steps[Any]:
    """Return a record as soon as it no longer has this status. `call` reads it again, with a wait."""
    follower = Follower[Any](resource)
    while record["status"] == status:
        record = yield from follower.read(call, partial(_has_left, status))
    return record


def pages(resource: Resource[Any], page: Callable[..., Call[Any]], field: str, limit: int) -> Items[Any]:
    """Yield the entries of a list, page by page, and none twice, even if entries move between pages meanwhile.

    Any page may be short, because a node omits entries that no longer belong in the list, and removes them. If a whole
    page was removed, the next entries have moved up: the same offset is read again, as long as the list gets shorter.
    """
    offset = 0
    listed = math.inf
    given: set[str] = set()
    while True:
        answer = yield from patiently(resource, page(limit=limit, offset=offset))
        found = answer[field]
        for one in found:
            if one["id"] not in given:
                given.add(one["id"])
                yield Item(one)
        total = answer["total"]
        if offset + len(found) >= total:
            return
        if found or total >= listed:
            offset += len(found) or limit
            listed = math.inf
        else:
            listed = total


def _has_left(status: str | None, record: Any) -> bool:
    return record["status"] != status
