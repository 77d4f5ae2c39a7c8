"""What Redis holds of a thread for search, read into a worker's memory: commands, and what becomes of the answers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from node.search.engines.memory import MemoryIndex
from node.search.indexing.documents import marks_of_replies
from node.search.passages import place_of
from node.search.threads import EVERY, OWN
from node.store import Arg, RedisReply, keys

Read = tuple[tuple[Arg, ...], Callable[[RedisReply], None]]
"""A command, and what takes its answer."""


class Loaded:
    """What Redis holds of some posts of a thread, or of all; read in two steps: names first, then what they name."""

    def __init__(self, thread_id: str, changed: set[int]) -> None:
        """`changed`: numbers of the posts; EVERY among them stands for all that there are."""
        self.thread_id = thread_id
        self.whole = EVERY in changed
        self.replies = changed - {EVERY, OWN}
        self.has_own = self.whole or OWN in changed
        self.terms = self.marks = self.reply_marks = b""
        self.reply_terms: dict[int, bytes] = {}
        self._vectors: dict[int, dict[str, bytes]] = {}
        self._names: list[str] = []

    def names(self, generation: str) -> list[Read]:
        """The first step."""
        thread = self.thread_id
        reads: list[Read] = [
            (("SMEMBERS", keys.passages(generation, thread)), self._take_names),
            (marks_of_replies(thread), self._take_reply_marks),
        ]
        if self.has_own:
            reads.append((("HMGET", keys.doc(thread), "terms", "marks"), self._take_own))
        if self.whole:
            reads.append((("SMEMBERS", keys.reply_docs(thread)), self._take_numbers))
        return reads

    def contents(self, generation: str) -> list[Read]:
        """The second step."""
        thread = self.thread_id
        reads: list[Read] = [
            (("HGET", keys.reply_doc(thread, seq), "terms"), partial(self._take_terms, seq)) for seq in self.replies
        ]
        for name in self._names:
            seq, _ = place_of(name)
            if seq in self.replies or (self.has_own and seq == OWN):
                key = keys.vector(generation, thread, name)
                reads.append((("HGET", key, "vector"), partial(self._take_vector, seq, name)))
        return reads

    def put_into(self, index: MemoryIndex) -> None:
        """Make an index hold what was read, in place of what it has of these posts."""
        thread = self.thread_id
        if self.whole:
            index.remove(thread)
        own = self._vectors.get(OWN, {})
        if self.terms or own:
            index.put(thread, self.terms.decode(), self.marks, own)
        for seq in self.replies:
            index.put_reply(thread, seq, self.reply_terms.get(seq, b"").decode(), self._vectors.get(seq, {}))
        index.put_reply_marks(thread, self.reply_marks)

    def _take_names(self, reply: RedisReply) -> None:
        self._names = sorted(name.decode() for name in cast("Sequence[bytes]", reply))

    def _take_reply_marks(self, reply: RedisReply) -> None:
        self.reply_marks = cast("bytes", reply)

    def _take_own(self, reply: RedisReply) -> None:
        terms, marks = cast("list[bytes | None]", reply)
        self.terms, self.marks = terms or b"", marks or b""

    def _take_numbers(self, reply: RedisReply) -> None:
        self.replies = {int(number) for number in cast("Sequence[bytes]", reply)}

    def _take_terms(self, seq: int, reply: RedisReply) -> None:
        self.reply_terms[seq] = cast("bytes | None", reply) or b""

    def _take_vector(self, seq: int, name: str, reply: RedisReply) -> None:
        if reply:
            self._vectors.setdefault(seq, {})[name] = cast("bytes", reply)
