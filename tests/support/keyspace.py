"""Which keys may stay in Redis for ever, and why. All others must have a TTL."""

import fnmatch
from collections.abc import Iterable

from tests.support.servers import Cluster, RedisServer

WITHOUT_END = """
local found = {}
for _, name in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TTL', name) == -1 then
    local said = {}
    if redis.call('TYPE', name).ok == 'hash' then said = redis.call('HMGET', name, 'kind', 'status', 'attempt') end
    local kind = said[1] or said[2] or said[3] and 'queued'
    table.insert(found, name .. (kind and ' ' .. kind or ''))
  end
end
return found
"""

LASTING = {
    # Names of hashes are followed by their kind or status.
    "thread:*": "kept until an operator purges it",
    "replies:*": "kept with their thread",
    "task:*": "a contract is never hard-deleted (SPEC 3.1)",
    "packed:*": "a contract that is over, in place of its task",
    "artifact:*": "ended by the sweep once its time is over; then it has a TTL",
    "feedback:*": "trimmed to a number of entries",
    "events:*": "trimmed once every group has seen it",
    "feed:{feed}": "trimmed to a number of entries",
    "feed:marks:*": "a few dozen fields",
    "leases:*": "emptied as leases end",
    "inbox-push-ends:*": "emptied as messages end",
    "offers:*": "trimmed to a number of entries",
    "doc:*": "the search document of a kept thread",
    "board:*": "lists of kept threads",
    "tasks:*": "lists of kept tasks",
    "agents:*": "lists of entries that end, trimmed by time",
    "artifacts:*": "emptied as artifacts end",
    "artifact-bytes:*": "counts that shrink as artifacts end",
    "callback:* queued": "ends when it is delivered or given up",
    "agents-due:*": "emptied as entries of agents end",
    "callbacks:*": "emptied as callbacks are delivered",
    "posters:*": "trimmed by time",
    "reports:*": "emptied as the operator looks at them or they are removed, and trimmed by time",
    "callbacks-dead:*": "trimmed to a number of entries",
    "search:*doc:*": "the search document of what a feature keeps",
    "search:*reply:*": "the search document of a kept reply",
    "search:*replies:*": "which replies of a kept thread have one",
    "search:*marks:*": "marks of a kept thread's terms",
    "search:*vector:*": "the vector of a passage of a kept thread",
    "search:*passages:*": "which passages of a kept thread have one",
    "search:*pending:*": "emptied as posts are indexed",
    "search:*backlog:*": "emptied as threads are reindexed",
    "search:*live:*": "one name: the index in use",
    "search:*target:*": "one name: the index that is being built",
    "search:*generations:*": "a few names",
    "search:*epoch:*": "one number",
    "search:*changes:*": "trimmed to a number of entries",
    "node:*": "whose data the Redis holds, and when its last backup began",
    "blocked": "the operator's list",
    "audit": "trimmed to a number of entries",
}

ENDING = ("task:* message", "artifact:* expired")
"""Names that LASTING has, of what must have a TTL all the same."""


def keys_without_end(server: RedisServer | Cluster) -> list[str]:
    """Return the keys without a TTL that LASTING does not allow."""
    servers = server.running_primaries() if isinstance(server, Cluster) else [server]
    names = [name.decode() for each in servers for name in each.do("EVAL", WITHOUT_END, 0)]

    def is_in(patterns: Iterable[str], name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return [name for name in names if is_in(ENDING, name) or not is_in(LASTING, name)]
