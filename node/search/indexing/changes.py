"""The stream of changed documents, which the indexes in workers' memory follow. A query engine does not need it."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from node.search.corpus import EVERY, PostRef
from node.search.engines.choice import EngineChoice
from node.store import Store
from node.store.decoding import entries_of
from node.store.search_keys import SearchKeys

KEPT_CHANGES = 10_000
"""Entries kept in the stream. An index in memory that is further behind reloads everything."""

CHANGES_AT_ONCE = 200
"""Maximum number of entries read in one round trip."""

BEGINNING = "0-0"
"""An entry id before those of all entries."""


class DocumentChange(NamedTuple):
    """A post whose document changed."""

    entry: str
    """Id of the entry in the stream."""
    ref: PostRef


class DocumentChanges:
    """Writes and reads the stream. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, keys: SearchKeys, choice: EngineChoice) -> None:
        self._store = store
        self._keys = keys
        self._choice = choice

    async def publish(self, refs: Sequence[PostRef]) -> None:
        """Tell indexes in memory that the documents of these posts changed. Does nothing if there is a query engine."""
        if not refs or await self._choice.query_engine():
            return
        entry = ("XADD", self._keys.changes, "MAXLEN", "~", KEPT_CHANGES, "*")
        added = [(*entry, "id", ref.entity_id, "seq", ref.seq) for ref in refs]
        await self._store.run_all([*added, ("SPUBLISH", self._keys.changes, "")])

    async def after(self, entry: str) -> tuple[bool, list[DocumentChange]]:
        """Return whether all entries after this one still exist, and the next changes after it, oldest first."""
        reply = await self._store.command("XRANGE", self._keys.changes, entry, "+", "COUNT", CHANGES_AT_ONCE + 1)
        found = entries_of(reply)
        if entry == BEGINNING:  # a trimmed stream has at least KEPT_CHANGES entries; the length is read last
            is_complete = cast("int", await self._store.command("XLEN", self._keys.changes)) < KEPT_CHANGES
        else:  # while the entry itself exists, no later entry has been trimmed
            is_complete = bool(found) and found[0][0] == entry
        changes = [
            DocumentChange(name, PostRef(fields[b"id"].decode(), int(fields.get(b"seq", EVERY))))
            for name, fields in found
        ]
        return is_complete, [change for change in changes if change.entry != entry][:CHANGES_AT_ONCE]

    async def last(self) -> str:
        """Return the id of the newest entry, or BEGINNING if there is none."""
        newest = entries_of(await self._store.command("XREVRANGE", self._keys.changes, "+", "-", "COUNT", 1))
        return newest[0][0] if newest else BEGINNING
