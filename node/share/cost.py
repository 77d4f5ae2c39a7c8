"""How many bytes the node keeps for each kind of request, and when the kind is refused for lack of memory (DESIGN 13).

A client is charged for the bytes that the node keeps: each copy of the body, and the records around it.
`node.web.limits` adds them to the client's daily total, and `node.share.capacity` refuses kinds while memory is short.
Every operation that writes has its kind here.

The figures are those of docs/capacity.md (`python -m bench.weigh`), rounded up. A text that is searched is kept as
text, as terms, and, for each passage of at most 700 characters, as a vector of up to 4 kB with its entry in the index.
A change of a contract's status takes little itself, but may be reported by a callback, which takes 1.2 kB for as long
as the receiver fails. A claim is also charged for the callback of its release.
"""

from enum import IntEnum
from typing import Literal

import msgspec


class Alarm(IntEnum):
    """The order in which kinds are refused when memory becomes short. Those that finish something come last."""

    NEVER = 0
    """Finishes something or hands it on, so that memory becomes free."""
    FIRST = 1
    """Begins something that grows: a thread gets replies, a session gets lines."""
    SECOND = 2
    """Begins something that does not grow."""
    THIRD = 3
    """Continues what others have begun."""


SEARCHED_BYTES = 20_000
"""Bytes at the beginning of a body that are searched, about: a thread or reply has at most as many characters."""

SEARCHED_AGAIN = 5
"""Further bytes kept for each searched byte of a body: in terms, in its passage's vector, and in the vector index."""

VECTOR_CHARACTERS = 700
"""Characters charged for the vector of an agent's skill, however short the skill is: those of a usual passage."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one request."""

    keeps: int
    """Bytes that Redis keeps in addition to the body."""
    searched: bool = False
    """Whether the body is also kept for search."""
    alarm: Alarm

    def of(self, size: int) -> int:
        """Return the bytes kept for a request with a body of `size` bytes."""
        return self.keeps + size + (SEARCHED_AGAIN * min(size, SEARCHED_BYTES) if self.searched else 0)


Kind = Literal[
    "thread",
    "session",
    "inbox",
    "task",
    "message",
    "artifact",
    "agent",
    "reply",
    "line",
    "feedback",
    "report",
    "result",
    "claim",
    "step",
    "stream",
]
"""The thing that a request adds. `message`: a message that is not on the board: of the relay, of A2A, or to an inbox.
`result`: completes a contract, or settles a message. `step`: any other change of a contract's status. `stream`: a
stream of events, which keeps nothing."""

COSTS: dict[Kind, Cost] = {
    "thread": Cost(keeps=5000, searched=True, alarm=Alarm.FIRST),
    "session": Cost(keeps=1000, alarm=Alarm.FIRST),
    "inbox": Cost(keeps=1500, alarm=Alarm.FIRST),
    "task": Cost(keeps=5000, searched=True, alarm=Alarm.SECOND),
    "message": Cost(keeps=1500, alarm=Alarm.SECOND),
    "artifact": Cost(keeps=1500, alarm=Alarm.SECOND),
    "agent": Cost(keeps=5000, searched=True, alarm=Alarm.SECOND),
    "reply": Cost(keeps=4000, searched=True, alarm=Alarm.THIRD),
    "line": Cost(keeps=100, alarm=Alarm.THIRD),
    "feedback": Cost(keeps=500, alarm=Alarm.THIRD),
    "report": Cost(keeps=500, alarm=Alarm.THIRD),
    "result": Cost(keeps=0, alarm=Alarm.NEVER),
    "claim": Cost(keeps=2500, alarm=Alarm.NEVER),
    "step": Cost(keeps=1500, alarm=Alarm.NEVER),
    "stream": Cost(keeps=0, alarm=Alarm.NEVER),
}


def refused_from(alarm: Alarm) -> tuple[Kind, ...]:
    """Return the kinds that are refused at this stage of memory shortage."""
    return tuple(kind for kind, cost in COSTS.items() if Alarm.NEVER < cost.alarm <= alarm)
