"""Every key in Redis: its name, its partition, its lifetime. No other module builds a key, except `search_keys` for the
keys of search.

Most keys carry the hash tag of a partition, `{00}`..`{3f}`, so that all keys of a step are in one slot of a Redis
Cluster (DESIGN 4). The id of an entity names its partition (`ids.py`), so the key follows from the id alone.

A wake-up about a key is published on the channel that bears the key's name (sharded pub/sub), and so from the slot of
the script that changes the key.
"""

from typing import Literal, NewType

from node.store.ids import PARTITIONS, context_home, digest, partition_of, partition_of_id

Key = NewType("Key", str)
"""A key in Redis. A step takes nothing else where its script has a key (`steps.py`)."""

EntityKind = Literal["session", "thread", "task", "packed", "artifact", "inbox"]
"""Entities of which the operator finds all, by the functions that make their keys."""

_TAGS = tuple(f"{{{p:02x}}}" for p in range(PARTITIONS))


def tag(partition: int) -> str:
    """The hash tag of a partition."""
    return _TAGS[partition]


def pattern(kind: EntityKind) -> str:
    """A glob pattern for the names of all entities of a kind."""
    return f"{kind}:{{*"


# Counts and records of what was done: always with a TTL.


def rate(partition: int, kind: str, client: str) -> Key:
    """Times (ms) of the last accepted requests of one client, newest first. TTL: the window of the limit."""
    return Key(f"rate:{_TAGS[partition]}:{kind}:{client}")


def places(partition: int, kind: str, client: str) -> Key:
    """Names of the things of a kind that one client has, by the time (ms) at which they end. TTL: that of the last."""
    return Key(f"held:{_TAGS[partition]}:{kind}:{client}")


def places_of_all(partition: int, kind: str) -> Key:
    """The same for all clients of the partition, for the total of the node. TTL: that of the last."""
    return Key(f"held:{_TAGS[partition]}:{kind}")


def byte_count(partition: int, client: str) -> Key:
    """Bytes that were kept for one client, or for all of one site. TTL: 24 h from the first."""
    return Key(f"bytes:{_TAGS[partition]}:{client}")


def work(partition: int, kind: str, client: str) -> Key:
    """What one client owes for its operations, and when (ms) it owed that. TTL: until it is worked off."""
    return Key(f"work:{_TAGS[partition]}:{kind}:{client}")


def copies(partition: int, payload_digest: str) -> Key:
    """When one client sent one relay payload last, and the time before (ms). TTL: 60 s."""
    return Key(f"copies:{_TAGS[partition]}:{payload_digest}")


def idempotency(partition: int, scope: str) -> Key:
    """What an Idempotency-Key created. TTL: RELAY_IDEMPOTENCY_TTL."""
    return Key(f"idem:{_TAGS[partition]}:{scope}")


def replay(partition: int, replay_id: str) -> Key:
    """A request signature that was used. TTL: 420 s, longer than a signature is fresh."""
    return Key(f"replay:{_TAGS[partition]}:{replay_id}")


# Entities, in the partition of their id.


def _of(kind: str, entity_id: str) -> Key:
    return Key(f"{kind}:{_TAGS[partition_of_id(entity_id)]}:{entity_id}")


def relay(message_id: str) -> Key:
    """A public=false relay message. TTL: RELAY_BUFFER_TTL."""
    return _of("relay", message_id)


def thread(thread_id: str) -> Key:
    """A board thread. Kept until it is removed by an operator, or for its age (RELAY_THREAD_RETENTION_DAYS,
    RELAY_RELAY_RETENTION_DAYS).
    """
    return _of("thread", thread_id)


def replies(thread_id: str) -> Key:
    """The replies of a thread, a stream whose entry ids are 0-<seq>. Kept with the thread."""
    return _of("replies", thread_id)


def task(task_id: str) -> Key:
    """A work contract, kept unless RELAY_TASK_RETENTION_DAYS is set (SPEC 3.1); or an A2A message task. TTL of that:
    RELAY_MESSAGE_RETENTION_DAYS.
    """
    return _of("task", task_id)


def packed(task_id: str) -> Key:
    """A work contract that is over, as one string. Kept in the place of its `task`."""
    return _of("packed", task_id)


def unpacked(task_id: str) -> Key:
    """A copy of a `packed` contract's fields, for a script to judge by. TTL: 10 s."""
    return _of("unpacked", task_id)


def shared_context(context_id: str) -> Key:
    """The A2A message tasks of a context that the node named, by time (ms). TTL: that of its newest task."""
    return Key(f"context:{_TAGS[partition_of_id(context_id)]}:{digest(context_id)}")


def context(context_id: str, client: str) -> Key:
    """The same for a context that a client named. Another client has another context of the same name."""
    return Key(f"context:{_TAGS[context_home(context_id, client)]}:{digest(context_id, client)}")


def session(session_id: str) -> Key:
    """A scratchpad. TTL: the session's own."""
    return _of("session", session_id)


def lines(session_id: str) -> Key:
    """The lines of a session, a stream whose entry ids are 0-<seq>. TTL: the session's own."""
    return _of("lines", session_id)


def artifact(artifact_id: str) -> Key:
    """A manifest. Kept until its bytes are removed; then TTL 24 h."""
    return _of("artifact", artifact_id)


def report(thread_id: str, seq: int) -> Key:
    """What clients reported about a post; `seq` is the number of a reply, 0 for the thread itself. TTL: 90 days."""
    return Key(f"report:{_TAGS[partition_of_id(thread_id)]}:{thread_id}:{seq}")


def callback(partition: int, name: str) -> Key:
    """A callback under way: of an entity and kind, or of one event. Ends when it is delivered, or dead."""
    return Key(f"callback:{_TAGS[partition]}:{name}")


def callback_record(partition: int, entity: str) -> Key:
    """How far the last callbacks of an entity are, by webhook-id. TTL: a day after all of them."""
    return Key(f"callback-record:{_TAGS[partition]}:{entity}")


def mcp_stream(stream_id: str) -> Key:
    """An open SSE stream of an MCP client. Its answers come on the channel of that name. TTL: 45 s, renewed."""
    return Key(f"mcp:{_TAGS[partition_of(stream_id)]}:{stream_id}")


# An agent's entry, in the partition of the address or host that proved it.


def agent(agent_id: str) -> Key:
    """The entry of an agent. TTL: a day longer than the entry lives, so that a worker can announce its end; a day if it
    is not listed.
    """
    return _of("agent", agent_id)


def agents_of(address: str) -> Key:
    """Ids of the entries of an address or host, by the time (ms) at which they end. TTL: that of the last."""
    return _at("agents-of", address)


# An inbox, in the partition of its address.


def inbox(address: str) -> Key:
    """What an inbox shows of itself, and its epoch. TTL: 30 days from when its owner last used it."""
    return _at("inbox", address)


def inbox_last_seq(address: str) -> Key:
    """The number of the last message of an inbox. TTL: that of the inbox; a year more if its key can open it anew."""
    return _at("inbox-seq", address)


def inbox_messages(address: str) -> Key:
    """The unsettled messages of an inbox, a stream whose entry ids are 0-<seq>. TTL: until the last of them expires."""
    return _at("inbox-letters", address)


def inbox_ends(address: str) -> Key:
    """`<seq> <id> <bytes> <sender> <q|r>` of each unsettled message, by the time (ms) at which it expires; `r`: it was
    read. TTL: until the last of them expires.
    """
    return _at("inbox-ends", address)


def inbox_receipt(address: str, message_id: str) -> Key:
    """What became of a message. TTL: 7 days from its end."""
    return _at("inbox-receipt", f"{address}:{message_id}", address)


def inbox_context(address: str, name: str) -> Key:
    """The tasks of one A2A context in an inbox, by time (ms). TTL: 14 days from the end of the last, when its task is
    gone, too.
    """
    return _at("inbox-context", f"{address}:{name}", address)


def inbox_pushes(address: str, task_id: str) -> Key:
    """The push notification configs of a task, by name; a hash. TTL: that of the task."""
    return _at("inbox-push", f"{address}:{task_id}", address)


def _at(kind: str, name: str, address: str = "") -> Key:
    return Key(f"{kind}:{_TAGS[partition_of(address or name)]}:{name}")


# One of each partition.


def events(partition: int) -> Key:
    """The event outbox: what happened, for the workers (`outbox.py`). Trimmed once every group has acknowledged it."""
    return Key(f"events:{_TAGS[partition]}")


def events_of(entity_id: str) -> Key:
    """The event outbox of the partition of an entity."""
    return events(partition_of_id(entity_id))


def feedback(partition: int) -> Key:
    """Reports to the operators from clients of the partition, a stream. Kept; trimmed to a number of entries."""
    return Key(f"feedback:{_TAGS[partition]}")


def leases(partition: int) -> Key:
    """Claimed tasks by the time their lease ends. A projection of the tasks."""
    return Key(f"leases:{_TAGS[partition]}")


def leases_of(task_id: str) -> Key:
    """The `leases` of the partition of a contract."""
    return leases(partition_of_id(task_id))


def artifacts(partition: int) -> Key:
    """Ids of artifacts that have bytes, by the time (ms) at which these are deleted. Emptied as they end."""
    return Key(f"artifacts:{_TAGS[partition]}")


def artifact_bytes(partition: int) -> Key:
    """Sums of the artifacts of the partition. Fields: `all` (bytes); for each client and IPv6 /48 its name (bytes),
    `number:<name>` (artifacts) and `reserved:<name>` (bytes not uploaded yet). These go with the last artifact that
    they count; `all` stays, as 0.
    """
    return Key(f"artifact-bytes:{_TAGS[partition]}")


def callbacks_due(partition: int) -> Key:
    """Names of callbacks under way by the time of their next attempt (ms)."""
    return Key(f"callbacks:{_TAGS[partition]}")


def agents_due(partition: int) -> Key:
    """Ids of agents by the time of their next check (ms). Emptied as entries end."""
    return Key(f"agents-due:{_TAGS[partition]}")


def callbacks_dead(partition: int) -> Key:
    """Callbacks that were given up, a stream; trimmed to a number of entries."""
    return Key(f"callbacks-dead:{_TAGS[partition]}")


def callbacks_dead_of(partition: int, site: str) -> Key:
    """Ids of the entries of `callbacks_dead` that are of one site of publishers, a list. TTL: 30 days."""
    return Key(f"callbacks-dead-of:{_TAGS[partition]}:{site}")


def inbox_push_ends(partition: int) -> Key:
    """`<address> <id>` of unsettled messages whose tasks have push notification configs, by when they expire (ms).
    Emptied as they end.
    """
    return Key(f"inbox-push-ends:{_TAGS[partition]}")


def posters(partition: int) -> Key:
    """Which client posted what is in the partition, by time (ms): for the operator, for RELAY_PROVENANCE_DAYS."""
    return Key(f"posters:{_TAGS[partition]}")


def activity(partition: int, what: str, day: int) -> Key:
    """Clients by their bytes, or their refused requests, on a day (days since 1970). TTL: RELAY_PROVENANCE_DAYS."""
    return Key(f"activity:{_TAGS[partition]}:{what}:{day}")


def reports(partition: int) -> Key:
    """Reported posts, as `<thread>:<seq>`, by time of the last report (ms), until the operator has looked at them or
    they are removed.
    """
    return Key(f"reports:{_TAGS[partition]}")


# Projections over all partitions; the worker can rebuild them from events.

OPEN_THREADS = Key("board:open")
"""Ids of open threads by time of their last activity (ms)."""

CLOSED_THREADS = Key("board:closed")
"""Ids of closed threads by time of their last activity (ms)."""

HIDDEN_THREADS = Key("board:hidden")
"""Ids of threads that the operator has hidden, by time of their last activity (ms). Only the operator sees it."""


def tasks_with(status: str) -> Key:
    """Ids of the work contracts with that status, by time of their creation (ms)."""
    return Key(f"tasks:{status}")


AGENTS = Key("agents:listed")
"""Ids of the agents in the directory by the time (ms) at which they were first listed."""

AGENT_ENDS = Key("agents:ends")
"""Ids of all entries, hidden ones included, by the time (ms) at which they end."""


def agents_with(liveness: str) -> Key:
    """Ids of the agents in the directory with that liveness, by the time (ms) at which they were first listed."""
    return Key(f"agents:with:{liveness}")


LAST_CHECK = Key("agents:last-check")
"""When a check of an agent last ended (ms); before the first check, when a worker first looked for one."""

# The public feed of events, in one slot (`node/events`).

FEED = Key("feed:{feed}")
"""Events of the board and of contracts, a stream, copied from the outboxes. Trimmed to RELAY_FEED_EVENTS."""

FEED_MARKS = Key("feed:marks:{feed}")
"""How far each outbox has been copied, by partition, and in `trimmed` the last entry that the feed lost; a hash."""

OFFERS = Key("offers:{offers}")
"""Work contracts as they were put on offer, for all who wait for work, a stream. Trimmed to a number of entries."""

KNOWN_OFFERS = Key("offers:known:{offers}")
"""Ids of the contracts in OFFERS by when they were put on offer (ms). Trimmed with it."""

# The operator's own.

IDENTITY = Key("node:{identity}")
"""Whose data this Redis holds, and in which schema. Kept."""

LAST_BACKUP = Key("node:backup:{identity}")
"""When the last whole backup began (ms). Kept."""

BLOCKED = Key("blocked")
"""Networks and keys whose requests are refused, and until when; a hash. Kept until the operator takes one off."""

AUDIT = Key("audit")
"""What the operators did, a stream. Trimmed to a number of entries."""

WORKERS = Key("workers:{workers}")
"""Names of the workers by the time (ms) of their last heartbeat. TTL: 120 s, renewed."""
