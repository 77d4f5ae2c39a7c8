"""What iterations have in common: they page, they wait, and they go on after the node was away."""

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

WAIT = 25.0  # s that a follower asks the node to wait, below the 30 that it waits at most
RETURN_PAUSE = 5.0  # s before a follower asks a node again that did not answer
EARLY = 0.5  # share of the seconds that the node was asked to wait: a faster answer has not waited
FIRST_LULL = 0.2  # s after a first read that did not wait and found nothing; doubles with each further one
LONGEST_LULL = 5.0  # s
LAST_LOOK = 1.0  # s that the last answer may take, even if the time is over before
PASSING = (Unreachable, Unavailable, Limited, DeadlineExceeded)
"""What a follower waits out."""


def patiently(resource: Resource[Any], call: Call[T], ends: float = math.inf) -> Steps[T]:
    """The answer to a read, however long the node is away. Raises DeadlineExceeded at `ends` by the carrier's clock,
    or a moment later.
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
    """The backoff of a loop that reads with `wait`. A node with too many waiting requests answers at once, though there
    is nothing new. After each such answer comes a pause, twice as long as the last.
    """

    def __init__(self) -> None:
        self._pause = 0.0

    def after(self, took: float, wait: float, *, is_new: bool) -> float:
        """Seconds to pause before the next read, after one that `took` seconds and might have taken `wait`."""
        if is_new or took >= wait * EARLY:
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, FIRST_LULL), LONGEST_LULL)
        return self._pause


class Follower(Generic[T]):
    """Reads the same thing again and again, patiently, and with pauses where the node does not wait."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._resource = resource
        self._lull = Lull()

    def read(self, call: Call[T], is_new: Callable[[T], object], ends: float = math.inf) -> Steps[T]:
        """As `patiently`, then the pause before the next read. `is_new`: whether an answer says anything new."""
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
    """Read a record until its status is in `over`. Raises DeadlineExceeded after `within` seconds, UsageError if
    that is no number.
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
    """A record once it no longer has that status; `call` reads it again, and waits."""
    follower = Follower[Any](resource)
    while record["status"] == status:
        record = yield from follower.read(call, partial(_has_left, status))
    return record


def pages(resource: Resource[Any], page: Callable[..., Call[Any]], field: str, limit: int) -> Items[Any]:
    """What is listed, page by page; nothing twice, even if it moves between pages meanwhile.

    Any page may be short: a node leaves out, and takes off its list, what no longer belongs there. If that was a whole
    page, what followed has its place now: the same offset is read again, for as long as the list gets shorter.
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
