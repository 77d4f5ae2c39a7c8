"""The stream of changed documents, which the indexes in workers' memories follow; a query engine needs none."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from node.search.corpus import EVERY, PostRef
from node.search.engines.choice import EngineChoice
from node.store import Store
from node.store.decoding import entries_of
from node.store.search_keys import SearchKeys

KEPT_CHANGES = 10_000
"""Entries kept in the stream; an index in memory that is further behind reloads everything."""

CHANGES_AT_ONCE = 200
"""Entries read together."""

BEGINNING = "0-0"
"""Before all entries."""


class DocumentChange(NamedTuple):
    """A post whose documents changed."""

    entry: str
    """The id of the entry in the stream."""
    ref: PostRef


class DocumentChanges:
    """Writes and reads the stream. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys, choice: EngineChoice) -> None:
        self._store = store
        self._keys = keys
        self._choice = choice

    async def publish(self, refs: Sequence[PostRef]) -> None:
        """Tell indexes in memory that the documents of these posts changed."""
        if not refs or await self._choice.query_engine():
            return
        entry = ("XADD", self._keys.changes, "MAXLEN", "~", KEPT_CHANGES, "*")
        added = [(*entry, "id", ref.entity_id, "seq", ref.seq) for ref in refs]
        await self._store.run_all([*added, ("SPUBLISH", self._keys.changes, "")])

    async def after(self, entry: str) -> tuple[bool, list[DocumentChange]]:
        """Whether no entry after this one has been trimmed, and the next changes after it, oldest first."""
        reply = await self._store.command("XRANGE", self._keys.changes, entry, "+", "COUNT", CHANGES_AT_ONCE + 1)
        found = entries_of(reply)
        if entry == BEGINNING:  # a stream that was trimmed is never shorter than that; asked for after it was read
            is_complete = cast("int", await self._store.command("XLEN", self._keys.changes)) < KEPT_CHANGES
        else:  # while the entry itself is there, nothing behind it has been trimmed
            is_complete = bool(found) and found[0][0] == entry
        changes = [
            DocumentChange(name, PostRef(fields[b"id"].decode(), int(fields.get(b"seq", EVERY))))
            for name, fields in found
        ]
        return is_complete, [change for change in changes if change.entry != entry][:CHANGES_AT_ONCE]

    async def last(self) -> str:
        """The newest entry."""
        newest = entries_of(await self._store.command("XREVRANGE", self._keys.changes, "+", "-", "COUNT", 1))
        return newest[0][0] if newest else BEGINNING
