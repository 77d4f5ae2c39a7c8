"""What one request of each kind leaves in the node, and when it is refused for want of memory (DESIGN 13).

One table for all rooms. A request is charged for the bytes that it has the node keep: those of its body, as often as
they are kept, and those of the records around it. `node.web.limits` charges them to the client's total of a day,
`node.share.capacity` refuses them while memory is short. A new operation that writes gets its kind here.

The bytes are those of docs/capacity.md (`python -m bench.weigh`), rounded up. A text that is searched is kept as it is,
as terms, and as one vector of up to 4 kB, its place in the index included, for each passage of at most 700 characters.
"""

from enum import IntEnum
from typing import Literal

import msgspec


class Alarm(IntEnum):
    """The order in which kinds are refused while memory runs short: what finishes something is refused last."""

    NEVER = 0
    """Ends something or hands it on, and so frees memory sooner than it takes any."""
    FIRST = 1
    """Begins something that grows: a thread brings replies, a session brings lines."""
    SECOND = 2
    """Begins something that stays as it is."""
    THIRD = 3
    """Goes on with what others have begun."""


SEARCHED_BYTES = 20_000
"""Bytes of a body that can be searched, about: characters of a thread or reply."""

SEARCHED_AGAIN = 5
"""How often each of them is kept beside the body: as terms, and in the vector of its passage and that one's index."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one request is charged."""

    keeps: int
    """Bytes that Redis keeps for it beside its body."""
    searched: bool = False
    """Whether the body is kept for search as well."""
    alarm: Alarm

    def of(self, size: int) -> int:
        """Bytes kept for a request with a body of `size` bytes."""
        return self.keeps + size + (SEARCHED_AGAIN * min(size, SEARCHED_BYTES) if self.searched else 0)


Kind = Literal[
    "thread", "session", "task", "message", "artifact", "reply", "line", "feedback", "result", "claim", "step"
]
"""What a request adds: `message` are those kept off the board, of the relay and of A2A; `result` completes a
contract, `step` is any other change of its status."""

COSTS: dict[Kind, Cost] = {
    "thread": Cost(keeps=5000, searched=True, alarm=Alarm.FIRST),
    "session": Cost(keeps=1000, alarm=Alarm.FIRST),
    "task": Cost(keeps=1500, alarm=Alarm.SECOND),
    "message": Cost(keeps=1500, alarm=Alarm.SECOND),
    "artifact": Cost(keeps=1500, alarm=Alarm.SECOND),
    "reply": Cost(keeps=4000, searched=True, alarm=Alarm.THIRD),
    "line": Cost(keeps=100, alarm=Alarm.THIRD),
    "feedback": Cost(keeps=500, alarm=Alarm.THIRD),
    "result": Cost(keeps=0, alarm=Alarm.NEVER),
    "claim": Cost(keeps=300, alarm=Alarm.NEVER),
    "step": Cost(keeps=300, alarm=Alarm.NEVER),
}


def refused_from(alarm: Alarm) -> tuple[Kind, ...]:
    """The kinds that are refused once memory has come to that stage."""
    return tuple(kind for kind, cost in COSTS.items() if Alarm.NEVER < cost.alarm <= alarm)
