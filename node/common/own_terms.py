"""The terms of a new entity's own text, which the step that keeps the entity can keep as well.

Then search finds the entity by its text from that moment on, and Redis has one step to run instead of two.
"""

from typing import Protocol

import msgspec


class OwnTerms(msgspec.Struct, frozen=True, gc=False):
    """Arguments of a step that keeps the search document of an entity (`lua/lib/keep_terms.lua`)."""

    whole: int | str
    """1 if these are the terms of the whole text, 0 if of its beginning; empty if there are none to keep."""
    terms: str
    """Separated by spaces."""
    marks: bytes
    """Hashes of the terms (`node.text.terms.marks_of`)."""


NO_TERMS = OwnTerms("", "", b"")


class TextIndex(Protocol):
    """Has new entities found by their text at once."""

    def own_terms(self, title: str, body: str, /) -> OwnTerms:
        """What the step that keeps the entity is to keep as well; NO_TERMS where it cannot, and `note` is to follow."""
        ...

    async def note(self, entity_id: str, title: str, body: str, /) -> None:
        """Index an entity that is kept. Raises StoreUnavailable."""
        ...
