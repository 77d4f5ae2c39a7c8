"""The keys of the search in Redis. Each corpus (`node.search.corpus`) has keys of its own.

Documents lie in the partition of their entity. What web processes and workers send each other, and which index is in
use, is in one slot.
"""

from node.store.ids import digest, partition_of_id
from node.store.keys import Key, tag


class SearchKeys:
    """The keys of one corpus."""

    def __init__(self, corpus: str) -> None:
        # The board was searched before there were other corpora, so its keys do not have the name of one.
        own = "search:" if corpus == "board" else f"search:{corpus}:"
        self._own = own
        self.doc_prefix = "doc:" if corpus == "board" else f"{own}doc:"
        """How the keys of all `doc` begin."""
        self.reply_doc_prefix = f"{own}reply:"
        """How the keys of all `reply_doc` begin."""
        self.pending = Key(f"{own}pending:{{search}}")
        """Posts whose vectors are to be made, by their turn (below 0), or by when (ms) the lease of a worker ends."""
        self.turns = Key(f"{own}turns:{{search}}")
        """The turn of the last post of each site in `pending`, a hash. TTL: a day; gone sooner when nothing waits."""
        self.backlog = Key(f"{own}backlog:{{search}}")
        """Like `pending`, for entities to be reindexed, after everything that is pending."""
        self.current = Key(f"{own}live:{{search}}")
        """The version of the vector index that queries use. Its channel wakes the reconcilers."""
        self.built = Key(f"{own}target:{{search}}")
        """The version that is being built to take its place; absent most of the time."""
        self.versions = Key(f"{own}generations:{{search}}")
        """Names of all versions of which vectors may be left."""
        self.epoch = Key(f"{own}epoch:{{search}}")
        """How often an operator asked for everything to be reindexed."""
        self.changes = Key(f"{own}changes:{{search}}")
        """Posts whose documents changed, for indexes in memory, a stream. Trimmed to a number of entries."""

    def doc(self, entity_id: str) -> Key:
        """The terms of an entity's own text, for search by text. A projection, deleted when the entity is not open."""
        return Key(f"{self.doc_prefix}{_tag(entity_id)}:{entity_id}")

    def reply_doc(self, entity_id: str, seq: int) -> Key:
        """The terms of one reply. A projection, like `doc`."""
        return Key(f"{self.reply_doc_prefix}{_tag(entity_id)}:{entity_id}:{seq}")

    def reply_docs(self, entity_id: str) -> Key:
        """Numbers of the replies that have a `reply_doc`, a set. Kept with them."""
        return Key(f"{self._own}replies:{_tag(entity_id)}:{entity_id}")

    def reply_marks(self, entity_id: str) -> Key:
        """Marks of the terms in the newest replies of an entity, in the order of the replies. Kept with the
        `reply_doc`s."""
        return Key(f"{self._own}marks:{_tag(entity_id)}:{entity_id}")

    def next_marks(self, entity_id: str) -> Key:
        """The `reply_marks` of an entity that is being reindexed, until they are complete and take their place. TTL:
        a day."""
        return Key(f"{self._own}next-marks:{_tag(entity_id)}:{entity_id}")

    def vector(self, version: str, entity_id: str, passage: str) -> Key:
        """The vector of one passage of an entity, in one version of the index. A projection, like `doc`."""
        return Key(f"{self.vectors_prefix(version)}{_tag(entity_id)}:{entity_id}:{passage}")

    def vectors_prefix(self, version: str) -> str:
        """How the keys of all vectors of an index version begin."""
        return f"{self._own}vector:{version}:"

    def aside(self, version: str, entity_id: str, passage: str) -> Key:
        """The `vector` of a passage of an entity that is not open and may be open again. TTL: a day, or until it is
        back."""
        return Key(f"{self._own}aside:{version}:{_tag(entity_id)}:{entity_id}:{passage}")

    def passages(self, version: str, entity_id: str) -> Key:
        """Names of the passages of an entity that have a vector in an index version, a set. Kept with the vectors,
        also with those that lie aside."""
        return Key(f"{self.passages_prefix(version)}{_tag(entity_id)}:{entity_id}")

    def passages_prefix(self, version: str) -> str:
        """How the keys of all `passages` of an index version begin."""
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
