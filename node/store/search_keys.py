"""The keys of the search in Redis. Each corpus (`node.search.corpus`) has its own keys.

Documents lie in the partition of their entity. What web processes and workers exchange, and the record of which index
is in use, share one slot.
"""

from node.store.ids import digest, partition_of_id
from node.store.keys import Key, tag


class SearchKeys:
    """The keys of one corpus."""

    def __init__(self, corpus: str) -> None:
        # The keys of the board do not contain the name of the corpus; existing data has them in this form.
        own = "search:" if corpus == "board" else f"search:{corpus}:"
        self._own = own
        self.doc_prefix = "doc:" if corpus == "board" else f"{own}doc:"
        """Prefix of the keys of all `doc`s."""
        self.reply_doc_prefix = f"{own}reply:"
        """Prefix of the keys of all `reply_doc`s."""
        self.pending = Key(f"{own}pending:{{search}}")
        """Posts whose vectors are to be made, by their turn (below 0), or by the end (ms) of a worker's lease."""
        self.turns = Key(f"{own}turns:{{search}}")
        """The turn of the last post of each site in `pending`, a hash. TTL: a day; deleted sooner if nothing waits."""
        self.backlog = Key(f"{own}backlog:{{search}}")
        """Like `pending`, for entities to be reindexed, which come after everything in `pending`."""
        self.current = Key(f"{own}live:{{search}}")
        """The version of the vector index that queries use. Its channel wakes the reconcilers."""
        self.built = Key(f"{own}target:{{search}}")
        """The version that is being built to replace `current`; absent most of the time."""
        self.versions = Key(f"{own}generations:{{search}}")
        """Names of all versions that may still have vectors."""
        self.epoch = Key(f"{own}epoch:{{search}}")
        """How many times an operator has asked for a reindex of everything."""
        self.changes = Key(f"{own}changes:{{search}}")
        """Posts whose documents changed, a stream, for indexes in memory. Trimmed to a number of entries."""

    def doc(self, entity_id: str) -> Key:
        """The terms of an entity's own text, for search by text. A projection, deleted when the entity is not open."""
        return Key(f"{self.doc_prefix}{_tag(entity_id)}:{entity_id}")

    def reply_doc(self, entity_id: str, seq: int) -> Key:
        """The terms of one reply. A projection, like `doc`."""
        return Key(f"{self.reply_doc_prefix}{_tag(entity_id)}:{entity_id}:{seq}")

    def reply_docs(self, entity_id: str) -> Key:
        """Numbers of the replies that have a `reply_doc`, a set. Kept as long as the `reply_doc`s."""
        return Key(f"{self._own}replies:{_tag(entity_id)}:{entity_id}")

    def reply_marks(self, entity_id: str) -> Key:
        """Marks of the terms in the newest replies of an entity, in the order of the replies. Kept as long as the
        `reply_doc`s."""
        return Key(f"{self._own}marks:{_tag(entity_id)}:{entity_id}")

    def next_marks(self, entity_id: str) -> Key:
        """The new `reply_marks` of an entity that is being reindexed, until they are complete and replace the old ones.
        TTL: a day."""
        return Key(f"{self._own}next-marks:{_tag(entity_id)}:{entity_id}")

    def vector(self, version: str, entity_id: str, passage: str) -> Key:
        """The vector of one passage of an entity, in one version of the index. A projection, like `doc`."""
        return Key(f"{self.vectors_prefix(version)}{_tag(entity_id)}:{entity_id}:{passage}")

    def vectors_prefix(self, version: str) -> str:
        """Return the prefix of the keys of all vectors of an index version."""
        return f"{self._own}vector:{version}:"

    def aside(self, version: str, entity_id: str, passage: str) -> Key:
        """The `vector` of a passage, set aside while its entity is not open but may be reopened. TTL: a day, or until
        the vector is back in its place."""
        return Key(f"{self._own}aside:{version}:{_tag(entity_id)}:{entity_id}:{passage}")

    def passages(self, version: str, entity_id: str) -> Key:
        """Names of the passages of an entity that have a vector in an index version, a set. Kept as long as the
        vectors, including those set `aside`."""
        return Key(f"{self.passages_prefix(version)}{_tag(entity_id)}:{entity_id}")

    def passages_prefix(self, version: str) -> str:
        """Return the prefix of the keys of all `passages` of an index version."""
        return f"{self._own}passages:{version}:"

    def workers(self, service: str) -> Key:
        """The channels on which workers hear requests for `service` (`vectors` or `hits`), by the time (ms) until which
        their last heartbeat holds. TTL: 3 s."""
        return Key(f"{self._own}workers:{service}:{{search}}")

    def requests(self, service: str, worker: str) -> str:
        """The channel on which one worker hears requests for a service. Never a key."""
        return f"{self._own}requests:{service}:{worker}:{{search}}"

    def answers(self, process: str) -> str:
        """The channel on which one process hears answers. Never a key."""
        return f"{self._own}answers:{process}:{{search}}"

    def query_vector(self, query: str) -> Key:
        """The vector of a query. TTL: 600 s."""
        return Key(f"{self._own}query:{digest(query)}:{{search}}")


BOARD_KEYS = SearchKeys("board")
TASK_KEYS = SearchKeys("tasks")


def _tag(entity_id: str) -> str:
    return tag(partition_of_id(entity_id))
