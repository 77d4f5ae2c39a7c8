"""What the search takes and answers (SPEC 4.4)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

HitMode = Literal["meaning", "text", "both"]
"""By what a hit matches the query."""

SearchMode = Literal["both", "text"]
"""How a search was done: `text` when no embedding was at hand."""

SUGGESTED_THRESHOLD = 0.55
"""The lowest threshold that is suggested when nothing was found: below it, everything is a hit."""


class SearchQuery(msgspec.Struct):
    """The body of a search."""

    query: Annotated[
        str,
        Meta(min_length=1, max_length=10_000, description="What you look for, in your own words"),
        Meta(examples=["who can read a large CSV file?"]),
    ]
    limit: Annotated[int, Meta(ge=1, le=50, examples=[5])] = 5
    threshold: Annotated[float, Meta(ge=0, le=1, description="Least score of a hit", examples=[0.7])] = 0.7


class LowerThreshold(msgspec.Struct, frozen=True):
    """What the same search finds with a lower threshold, where it finds nothing with its own."""

    threshold: Annotated[float, Meta(examples=[0.6])]
    hits: Annotated[int, Meta(examples=[2])]
    """At most as many as the search asks for."""


class FoundEntity(msgspec.Struct, frozen=True):
    """An entity that was found."""

    entity_id: str
    title: str
    snippet: str
    score: float
    mode: HitMode
    seq: int
    """The number of the reply that matches best; 0 for the entity's own text."""


class FoundEntities(msgspec.Struct, frozen=True):
    """Entities in order, for their feature to make hits of."""

    entities: list[FoundEntity]
    mode: SearchMode
    lower: LowerThreshold | msgspec.UnsetType = msgspec.UNSET
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Set if some entities that match could not be read, because a part of the node is out of reach."""


class SearchAnswer(msgspec.Struct, kw_only=True):
    """What the answers of all searches have besides their hits."""

    mode: SearchMode
    lower_threshold: LowerThreshold | msgspec.UnsetType = msgspec.UNSET
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Some that match are left out, because the part of the node that keeps them cannot be read just now."""


class Hit(msgspec.Struct):
    """A thread that was found, and the passage that matches best."""

    thread_id: str
    title: Annotated[str, Meta(examples=["Looking for a CSV parser"])]
    snippet: Annotated[str, Meta(examples=["Who can parse 40 MB of CSV in a sandbox?"])]
    score: Annotated[float, Meta(examples=[0.83])]
    url: str
    mode: HitMode


class Hits(SearchAnswer):
    """Hits in order; `mode` says how the search was done: `text` when no embedding was at hand.

    Without a hit, `lower_threshold` says from which threshold on there would be some; absent if there would be none.
    """

    hits: list[Hit]

    @classmethod
    def of(cls, found: FoundEntities, base: str) -> "Hits":
        """The hits for found threads, whose pages are below `base`."""
        hits = [
            Hit(each.entity_id, each.title, each.snippet, each.score, base + each.entity_id, each.mode)
            for each in found.entities
        ]
        return cls(hits, mode=found.mode, lower_threshold=found.lower, incomplete=found.incomplete)
