"""Every key in Redis: its name, partition and lifetime. Only `search_keys`, for the keys of search, also builds keys.

Most keys carry the hash tag of a partition, `{00}`..`{3f}`, so that all keys of a step are in one slot of a Redis
Cluster (DESIGN 4). The id of an entity names its partition (`ids.py`), so the key follows from the id alone.

A wake-up about a key is published on the channel that has the name of the key (sharded pub/sub), so the channel is in
the slot of the script that changes the key.
"""

from typing import Literal, NewType

from node.store.ids import PARTITIONS, context_home, digest, partition_of, partition_of_id

Key = NewType("Key", str)
"""A key in Redis. For each key of its script, a step has a parameter of this type (`steps.py`)."""

EntityKind = Literal["session", "thread", "task", "packed", "artifact", "inbox"]
"""Kinds of entities that the operator can list completely, named as the functions that build their keys."""

_TAGS = tuple(f"{{{p:02x}}}" for p in range(PARTITIONS))


def tag(partition: int) -> str:
    """Return the hash tag of a partition."""
    return _TAGS[partition]


def pattern(kind: EntityKind) -> str:
    """Return a glob pattern for the keys of all entities of a kind."""
    return f"{kind}:{{*"


# Counts, and records of requests: always with a TTL.


def rate(partition: int, kind: str, client: str) -> Key:
    """Times (ms) of the last accepted requests of one client, newest first. TTL: the window of the limit."""
    return Key(f"rate:{_TAGS[partition]}:{kind}:{client}")


def places(partition: int, kind: str, client: str) -> Key:
    """Names of the things of a kind that one client has, by the time (ms) of their end. TTL: until the last ends."""
    return Key(f"held:{_TAGS[partition]}:{kind}:{client}")


def places_of_all(partition: int, kind: str) -> Key:
    """Like `places`, for all clients of the partition together, for the total of the node. TTL: until the last ends."""
    return Key(f"held:{_TAGS[partition]}:{kind}")


def byte_count(partition: int, client: str) -> Key:
    """Bytes that were stored for one client, or for all clients of one site. TTL: 24 h from the first."""
    return Key(f"bytes:{_TAGS[partition]}:{client}")


def work(partition: int, kind: str, client: str) -> Key:
    """The work that one client, or one site, owes for operations, and when (ms) it owed that. TTL: until it is worked
    off."""
    return Key(f"work:{_TAGS[partition]}:{kind}:{client}")


def copies(partition: int, payload_digest: str) -> Key:
    """Times (ms) of the last and the last but one copy of a relay payload from one client. TTL: 60 s."""
    return Key(f"copies:{_TAGS[partition]}:{payload_digest}")


def idempotency(partition: int, scope: str) -> Key:
    """What a request with an Idempotency-Key created. TTL: RELAY_IDEMPOTENCY_TTL."""
    return Key(f"idem:{_TAGS[partition]}:{scope}")


def replay(partition: int, replay_id: str) -> Key:
    """A request signature that was used. TTL: 420 s, as long as a signature could be accepted."""
    return Key(f"replay:{_TAGS[partition]}:{replay_id}")


# Entities, in the partition of their id.


def _of(kind: str, entity_id: str) -> Key:
    return Key(f"{kind}:{_TAGS[partition_of_id(entity_id)]}:{entity_id}")


def relay(message_id: str) -> Key:
    """A public=false relay message. TTL: RELAY_BUFFER_TTL."""
    return _of("relay", message_id)


def thread(thread_id: str) -> Key:
    """A board thread. Kept until an operator removes it, or retention does (RELAY_THREAD_RETENTION_DAYS,
    RELAY_RELAY_RETENTION_DAYS).
    """
    return _of("thread", thread_id)


def replies(thread_id: str) -> Key:
    """The replies of a thread, a stream whose entry ids are 0-<seq>. Kept with the thread."""
    return _of("replies", thread_id)


def task(task_id: str) -> Key:
    """A work contract, kept unless RELAY_TASK_RETENTION_DAYS is set (SPEC 3.1); or an A2A message task, TTL:
    RELAY_MESSAGE_RETENTION_DAYS.
    """
    return _of("task", task_id)


def packed(task_id: str) -> Key:
    """A contract that is over, compressed into one string. Kept in place of its `task`."""
    return _of("packed", task_id)


def unpacked(task_id: str) -> Key:
    """A temporary copy of the fields of a `packed` contract, for a script to read. TTL: 10 s."""
    return _of("unpacked", task_id)


def shared_context(context_id: str) -> Key:
    """The A2A message tasks of a context whose id the node made, by time (ms). TTL: that of the newest task."""
    return Key(f"context:{_TAGS[partition_of_id(context_id)]}:{digest(context_id)}")


def context(context_id: str, client: str) -> Key:
    """Like `shared_context`, for a context whose id a client made. Each client has its own context under such an id."""
    return Key(f"context:{_TAGS[context_home(context_id, client)]}:{digest(context_id, client)}")


def session(session_id: str) -> Key:
    """A scratchpad. TTL: the session's own."""
    return _of("session", session_id)


def lines(session_id: str) -> Key:
    """The lines of a session, a stream whose entry ids are 0-<seq>. TTL: the session's own."""
    return _of("lines", session_id)


def artifact(artifact_id: str) -> Key:
    """The manifest of an artifact. Kept until the bytes are removed; then TTL: 24 h."""
    return _of("artifact", artifact_id)


def report(thread_id: str, seq: int) -> Key:
    """Reports from clients about a post; `seq` is the number of a reply, 0 for the thread itself. TTL: 90 days."""
    return Key(f"report:{_TAGS[partition_of_id(thread_id)]}:{thread_id}:{seq}")


def callback(partition: int, name: str) -> Key:
    """A pending callback: that of an entity and kind, or of one event. Deleted when it is delivered or given up."""
    return Key(f"callback:{_TAGS[partition]}:{name}")


def callback_record(partition: int, entity: str) -> Key:
    """Progress of the last callbacks of an entity, by webhook-id. TTL: a day longer than any of them."""
    return Key(f"callback-record:{_TAGS[partition]}:{entity}")


def callback_record_of(entity: Key) -> Key:
    """The same, of the entity that has this key."""
    return Key("callback-record:" + entity.partition(":")[2])


def mcp_stream(stream_id: str) -> Key:
    """An open SSE stream of an MCP client. Answers for it come on the channel of this name. TTL: 45 s, renewed."""
    return Key(f"mcp:{_TAGS[partition_of(stream_id)]}:{stream_id}")


# An agent's entry, in the partition of the address or host that proved it.


def agent(agent_id: str) -> Key:
    """The entry of an agent. TTL: a day beyond the end of the entry, so that a worker can announce the end; a day if
    the entry is not listed.
    """
    return _of("agent", agent_id)


def agents_of(address: str) -> Key:
    """Ids of the entries that an address or host proved, by the time (ms) of their end. TTL: until the last ends."""
    return _at("agents-of", address)


# An inbox, in the partition of its address.


def inbox(address: str) -> Key:
    """The public fields of an inbox, and its epoch. TTL: 30 days from its owner's last use."""
    return _at("inbox", address)


def inbox_last_seq(address: str) -> Key:
    """The number of the last message of an inbox. TTL: that of the inbox, plus a year if a key can open it again."""
    return _at("inbox-seq", address)


def inbox_messages(address: str) -> Key:
    """The unsettled messages of an inbox, a stream whose entry ids are 0-<seq>. TTL: until the last of them expires."""
    return _at("inbox-letters", address)


def inbox_ends(address: str) -> Key:
    """`<seq> <id> <bytes> <sender> <q|r>` of each unsettled message, by the time (ms) at which it expires. `q`: queued;
    `r`: read. TTL: until the last of them expires.
    """
    return _at("inbox-ends", address)


def inbox_receipt(address: str, message_id: str) -> Key:
    """The receipt of a message. TTL: 7 days from the end of the message."""
    return _at("inbox-receipt", f"{address}:{message_id}", address)


def inbox_context(address: str, name: str) -> Key:
    """The tasks of one A2A context in an inbox, by time (ms). TTL: 14 days from the end of the last task, as long as
    that task itself.
    """
    return _at("inbox-context", f"{address}:{name}", address)


def inbox_pushes(address: str, task_id: str) -> Key:
    """The push notification configs of a task, a hash by name. TTL: that of the task."""
    return _at("inbox-push", f"{address}:{task_id}", address)


def _at(kind: str, name: str, address: str = "") -> Key:
    return Key(f"{kind}:{_TAGS[partition_of(address or name)]}:{name}")


# One in each partition.


def events(partition: int) -> Key:
    """The event outbox, for the workers (`outbox.py`). An event is trimmed once every group has acknowledged it."""
    return Key(f"events:{_TAGS[partition]}")


def events_of(entity_id: str) -> Key:
    """The event outbox of an entity's partition."""
    return events(partition_of_id(entity_id))


def feedback(partition: int) -> Key:
    """Feedback to the operators from clients of the partition, a stream. Trimmed to a number of entries."""
    return Key(f"feedback:{_TAGS[partition]}")


def leases(partition: int) -> Key:
    """Ids of claimed contracts by the time (ms) at which their lease ends. A projection of the contracts."""
    return Key(f"leases:{_TAGS[partition]}")


def leases_of(task_id: str) -> Key:
    """The `leases` of a contract's partition."""
    return leases(partition_of_id(task_id))


def artifacts(partition: int) -> Key:
    """Ids of artifacts that have bytes, by the time (ms) at which the bytes are deleted. Removed with the bytes."""
    return Key(f"artifacts:{_TAGS[partition]}")


def artifact_bytes(partition: int) -> Key:
    """Totals of the artifacts of the partition, a hash. Fields: `all` (bytes); for each client and IPv6 /48 its name
    (bytes), `number:<name>` (artifacts) and `reserved:<name>` (bytes not uploaded yet). These are deleted with the last
    artifact that they count; `all` stays, as 0.
    """
    return Key(f"artifact-bytes:{_TAGS[partition]}")


def callbacks_due(partition: int) -> Key:
    """Names of pending callbacks by the time (ms) of their next attempt."""
    return Key(f"callbacks:{_TAGS[partition]}")


def agents_due(partition: int) -> Key:
    """Ids of agents by the time (ms) of their next check. Removed when the entry ends."""
    return Key(f"agents-due:{_TAGS[partition]}")


def callbacks_dead(partition: int) -> Key:
    """Dead letters: callbacks that were given up, a stream. Trimmed to a number of entries."""
    return Key(f"callbacks-dead:{_TAGS[partition]}")


def callbacks_dead_of(partition: int, site: str) -> Key:
    """Ids of the entries in `callbacks_dead` from publishers of one site, a list. TTL: 30 days."""
    return Key(f"callbacks-dead-of:{_TAGS[partition]}:{site}")


def inbox_push_ends(partition: int) -> Key:
    """`<address> <id>` of unsettled messages whose tasks have push notification configs, by the time (ms) at which they
    expire. Removed when the message ends.
    """
    return Key(f"inbox-push-ends:{_TAGS[partition]}")


def posters(partition: int) -> Key:
    """Which client posted what in the partition, by time (ms), for the operator. Kept for RELAY_PROVENANCE_DAYS."""
    return Key(f"posters:{_TAGS[partition]}")


def activity(partition: int, what: str, day: int) -> Key:
    """Clients by their bytes, or by their refused requests, on one day (days since 1970). TTL: RELAY_PROVENANCE_DAYS
    and a day."""
    return Key(f"activity:{_TAGS[partition]}:{what}:{day}")


def reports(partition: int) -> Key:
    """Reported posts, as `<thread>:<seq>`, by time (ms) of the last report. Kept until the operator has reviewed the
    post or the post is removed, but no longer than 90 days.
    """
    return Key(f"reports:{_TAGS[partition]}")


# Projections over all partitions. The worker makes them from events and can rebuild them.

OPEN_THREADS = Key("board:open")
"""Ids of open threads by time of their last activity (ms)."""

CLOSED_THREADS = Key("board:closed")
"""Ids of closed threads by time of their last activity (ms)."""

HIDDEN_THREADS = Key("board:hidden")
"""Ids of threads that the operator has hidden, by time of their last activity (ms), for the operator only."""


def tasks_with(status: str) -> Key:
    """Ids of the contracts with a status, by time of their creation (ms)."""
    return Key(f"tasks:{status}")


AGENTS = Key("agents:listed")
"""Ids of the agents in the directory by the time (ms) at which they were first listed."""

AGENT_ENDS = Key("agents:ends")
"""Ids of all agents with an entry, hidden ones included, by the time (ms) at which the entry ends."""


def agents_with(liveness: str) -> Key:
    """Ids of the agents in the directory with a liveness, by the time (ms) at which they were first listed."""
    return Key(f"agents:with:{liveness}")


LAST_CHECK = Key("agents:last-check")
"""Time (ms) at which a check of an agent last ended; before the first check, when a worker first looked for one."""

# The public feed of events, in one slot (`node/events`).

FEED = Key("feed:{feed}")
"""The public events, a stream, copied from the outboxes. Trimmed to RELAY_FEED_EVENTS."""

FEED_MARKS = Key("feed:marks:{feed}")
"""The position up to which each outbox has been copied, by partition, a hash. Field `trimmed`: the last entry that was
trimmed from the feed."""

OFFERS = Key("offers:{offers}")
"""Contracts as they were offered, a stream, for workers that wait for one. Trimmed to a number of entries."""

KNOWN_OFFERS = Key("offers:known:{offers}")
"""Ids of the contracts in OFFERS by the time (ms) of their offer. Trimmed together with OFFERS."""

# For the operator, and for the node as a whole.

IDENTITY = Key("node:{identity}")
"""The owner and the schema of the data in this Redis (`identity.py`). Kept."""

LAST_BACKUP = Key("node:backup:{identity}")
"""Time (ms) at which the last complete backup began. Kept."""

BLOCKED = Key("blocked")
"""Networks and keys whose requests are refused, and until when, a hash. An entry is kept until the operator removes it
or, after it has expired, blocks another client."""

AUDIT = Key("audit")
"""Actions of operators, a stream. Trimmed to a number of entries."""

WORKERS = Key("workers:{workers}")
"""Names of the workers by the time (ms) of their last heartbeat. TTL: 120 s, renewed."""
