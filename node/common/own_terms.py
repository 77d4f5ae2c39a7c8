"""The terms of a new entity's own text, which the step that keeps the entity can keep in the search index, too.

Then search finds the entity by its text at once, and Redis runs one step instead of two.
"""

from typing import Protocol

import msgspec


class OwnTerms(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a step that also keeps the search document of an entity (`lua/lib/keep_terms.lua`)."""

    whole: int | str
    """1 if these are the terms of the whole text, 0 if only of its beginning; empty if there are none to keep."""
    terms: str
    """Separated by spaces."""
    marks: bytes
    """Hashes of the terms (`node.text.terms.marks_of`)."""


NO_TERMS = OwnTerms("", "", b"")


class TextIndex(Protocol):
    """Makes new entities searchable by text at once."""

    def own_terms(self, title: str, body: str, /) -> OwnTerms:
        """Return the terms that the step which keeps the entity must keep, too.

        NO_TERMS if the step cannot; then the caller calls `note` after the step.
        """
        ...

    async def note(self, entity_id: str, title: str, body: str, /) -> None:
        """Index an entity after it was kept. Raises StoreUnavailable."""
        ...
