"""Every key in Redis: its name, its partition, its lifetime. Nothing else builds a key.

Most keys carry the hash tag of a partition, `{00}`..`{3f}`, so that all keys of a step are in one slot of a Redis
Cluster (DESIGN 4). The id of an entity names its partition (`ids.py`), so the key follows from the id alone.

A wake-up about a key is published on the channel that bears the key's name (sharded pub/sub), and so from the slot of
the script that changes the key.
"""

from typing import NewType

from node.store.ids import PARTITIONS, context_home, digest, partition_of, partition_of_id

Key = NewType("Key", str)
"""A key in Redis. A step takes nothing else where its script has a key (`steps.py`)."""

_TAGS = tuple(f"{{{p:02x}}}" for p in range(PARTITIONS))


def tag(partition: int) -> str:
    """The hash tag of a partition."""
    return _TAGS[partition]


# Counts and records of what was done: always with a TTL.


def rate(partition: int, kind: str, client: str) -> Key:
    """Times of the last accepted requests of one client, newest first. TTL: the limit's window."""
    return Key(f"rate:{_TAGS[partition]}:{kind}:{client}")


def places(partition: int, kind: str, client: str) -> Key:
    """Names of the things of a kind that one client has, by the time (ms) at which they end. TTL: that of the last."""
    return Key(f"held:{_TAGS[partition]}:{kind}:{client}")


def places_of_all(partition: int, kind: str) -> Key:
    """The same of all clients of the partition, for the total of the node. TTL: that of the last."""
    return Key(f"held:{_TAGS[partition]}:{kind}")


def byte_count(partition: int, client: str) -> Key:
    """Bytes that were kept for one client, or for all of one site. TTL: 24 h from the first."""
    return Key(f"bytes:{_TAGS[partition]}:{client}")


def work(partition: int, kind: str, client: str) -> Key:
    """What one client owes for its operations, and the time (ms) of that figure. TTL: until it is worked off."""
    return Key(f"work:{_TAGS[partition]}:{kind}:{client}")


def loop(partition: int, payload: str) -> Key:
    """How often one client sent one relay payload. TTL: 60 s."""
    return Key(f"loop:{_TAGS[partition]}:{payload}")


def idempotency(partition: int, scope: str) -> Key:
    """What an Idempotency-Key created. TTL: RELAY_IDEMPOTENCY_TTL."""
    return Key(f"idem:{_TAGS[partition]}:{scope}")


def replay(partition: int, replay_id: str) -> Key:
    """A request signature that was used. TTL: 420 s, longer than a signature is fresh."""
    return Key(f"replay:{_TAGS[partition]}:{replay_id}")


# Entities, in the partition of their id.


def _of(room: str, entity_id: str) -> Key:
    return Key(f"{room}:{_TAGS[partition_of_id(entity_id)]}:{entity_id}")


def relay(message_id: str) -> Key:
    """A public=false relay message. TTL: RELAY_BUFFER_TTL."""
    return _of("relay", message_id)


def thread(thread_id: str) -> Key:
    """A board thread. Kept until an operator purges it."""
    return _of("thread", thread_id)


def replies(thread_id: str) -> Key:
    """The replies of a thread, a stream whose entry ids are 0-<seq>. Kept with the thread."""
    return _of("replies", thread_id)


def task(task_id: str) -> Key:
    """A work contract or an A2A message task. Kept: a contract is never hard-deleted (SPEC 3.1)."""
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
    """The same of a context that a client named. A context of that name of another client is another one."""
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


def doc(thread_id: str) -> Key:
    """The terms of a thread's own text, for search by text. A projection, deleted when the thread is closed."""
    return _of("doc", thread_id)


DOCS = "doc:"
"""How the keys of all `doc` begin."""

REPLY_DOCS = "search:reply:"
"""How the keys of all `reply_doc` begin."""


def reply_doc(thread_id: str, seq: int) -> Key:
    """The terms of one reply. A projection, like `doc`."""
    return Key(f"{REPLY_DOCS}{_TAGS[partition_of_id(thread_id)]}:{thread_id}:{seq}")


def reply_docs(thread_id: str) -> Key:
    """Numbers of the replies that have a `reply_doc`, a set. Kept with them."""
    return Key(f"search:replies:{_TAGS[partition_of_id(thread_id)]}:{thread_id}")


def reply_marks(thread_id: str) -> Key:
    """Marks of the terms in the newest replies of a thread, in the order of the replies. Kept with the `reply_doc`s."""
    return Key(f"search:marks:{_TAGS[partition_of_id(thread_id)]}:{thread_id}")


def vector(version: str, thread_id: str, passage: str) -> Key:
    """The vector of one passage of a thread, in one version of the index. A projection, like `doc`."""
    return Key(f"{vectors_prefix(version)}{_TAGS[partition_of_id(thread_id)]}:{thread_id}:{passage}")


def vectors_prefix(version: str) -> str:
    """How the keys of all vectors of an index version begin."""
    return f"search:vector:{version}:"


def passages(version: str, thread_id: str) -> Key:
    """Names of the passages of a thread that have a vector in an index version, a set. Kept with the vectors."""
    return Key(f"search:passages:{version}:{_TAGS[partition_of_id(thread_id)]}:{thread_id}")


def callback(partition: int, name: str) -> Key:
    """A callback under way: of an entity and kind, or of one event. Ends when it is delivered, or dead."""
    return Key(f"callback:{_TAGS[partition]}:{name}")


def mcp_stream(stream_id: str) -> Key:
    """An open SSE stream of an MCP client. Its answers come on the channel of that name. TTL: 45 s, renewed."""
    return Key(f"mcp:{_TAGS[partition_of(stream_id)]}:{stream_id}")


# One of each partition.


def events(partition: int) -> Key:
    """The event outbox: what happened, for the workers (`outbox.py`). Trimmed once every group has acknowledged it."""
    return Key(f"events:{_TAGS[partition]}")


def feedback(partition: int) -> Key:
    """Reports to the operators from clients of the partition, a stream. Kept; trimmed to a number of entries."""
    return Key(f"feedback:{_TAGS[partition]}")


def leases(partition: int) -> Key:
    """Claimed tasks by the time their lease ends. A projection of the tasks."""
    return Key(f"leases:{_TAGS[partition]}")


def artifacts(partition: int) -> Key:
    """Ids of artifacts that have bytes, by the time (ms) at which these are deleted. Emptied as they end."""
    return Key(f"artifacts:{_TAGS[partition]}")


def artifact_bytes(partition: int) -> Key:
    """Sums of the artifacts of the partition. Fields: `all` (bytes); for each client and IPv6 /48 its name (bytes),
    `number:<name>` (artifacts) and `reserved:<name>` (bytes not uploaded yet). Goes with the artifacts.
    """
    return Key(f"artifact-bytes:{_TAGS[partition]}")


def callbacks_due(partition: int) -> Key:
    """Names of callbacks under way by the time of their next attempt (ms)."""
    return Key(f"callbacks:{_TAGS[partition]}")


def callbacks_dead(partition: int) -> Key:
    """Callbacks that were given up, a stream; trimmed to a number of entries."""
    return Key(f"callbacks-dead:{_TAGS[partition]}")


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


# The operator's own.

BLOCKED = Key("blocked")
"""Networks whose requests are refused, and until when; a hash. Kept until the operator takes one off."""

AUDIT = Key("audit")
"""What the operators did, a stream. Trimmed to a number of entries."""

WORKERS = Key("workers:{workers}")
"""Names of the workers by the time (ms) of their last heartbeat. TTL: 120 s, renewed."""

# Search, all in one slot: what web processes and workers send each other, and which index is in use.

SEARCH_PENDING = Key("search:pending:{search}")
"""Posts whose vectors are to be made, by their turn (below 0), or by the time (ms) until which a worker has them."""

SEARCH_TURNS = Key("search:turns:{search}")
"""Where in that queue the last post of each site ends, a hash. TTL: a day; gone sooner when nothing waits."""

SEARCH_BACKLOG = Key("search:backlog:{search}")
"""Like SEARCH_PENDING, for threads that are indexed anew. Their turn comes after all that are pending."""

SEARCH_LIVE = Key("search:live:{search}")
"""The version of the vector index that queries use."""

SEARCH_TARGET = Key("search:target:{search}")
"""The version that is being built to take its place; absent most of the time."""

SEARCH_GENERATIONS = Key("search:generations:{search}")
"""Names of all generations of which vectors may be left."""

SEARCH_EPOCH = Key("search:epoch:{search}")
"""How often an operator asked for everything to be indexed anew."""

SEARCH_CHANGES = Key("search:changes:{search}")
"""Threads and replies whose documents changed, for indexes in memory, a stream. Trimmed to a number of entries."""


def search_asks(service: str) -> Key:
    """Questions to the workers that offer `service`, a list. TTL: a little longer than anybody waits for the answer."""
    return Key(f"search:asks:{service}:{{search}}")


def search_alive(service: str) -> Key:
    """There while a worker offers `service`: `vectors` or `hits`. TTL: 3 s."""
    return Key(f"search:alive:{service}:{{search}}")


def search_answers(process: str) -> str:
    """The channel on which one process hears answers. Never a key."""
    return f"search:answers:{process}:{{search}}"


def query_vector(query: str) -> Key:
    """The vector of a query. TTL: 600 s."""
    return Key(f"search:query:{digest(query)}:{{search}}")
