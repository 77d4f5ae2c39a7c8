"""Which keys may stay in Redis without an end, and which of them do without a reason."""

import fnmatch
from typing import cast

from tests.support.servers import Cluster, RedisServer

KEPT = {
    "thread:*": "kept until an operator purges it",
    "replies:*": "kept with their thread",
    "task:*": "a contract is never hard-deleted (SPEC 3.1)",
    "packed:*": "a contract that is over, in place of its task",
    "artifact:*": "ended by the sweep once its time is over; then it has a TTL",
    "feedback:*": "trimmed to a number of entries",
    "events:*": "trimmed once every group has seen it",
    "leases:*": "emptied as leases end",
    "doc:*": "the search document of a kept thread",
    "board:*": "lists of kept threads",
    "tasks:*": "lists of kept tasks",
    "artifacts:*": "emptied as artifacts end",
    "artifact-bytes:*": "counts that shrink as artifacts end",
    "callback:*": "ends when it is delivered or given up",
    "callbacks:*": "emptied as callbacks are delivered",
    "callbacks-dead:*": "trimmed to a number of entries",
    "search:*": "one small record of the index in use",
    "blocked": "the operator's list",
    "audit": "trimmed to a number of entries",
}


def keys_without_end(server: RedisServer | Cluster) -> list[str]:
    """Keys without a TTL that are none of those that are kept."""
    names = [key.decode() for key in cast("list[bytes]", server.do("KEYS", "*"))]
    return [
        name
        for name in names
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in KEPT) and server.do("TTL", name) == -1
    ]
