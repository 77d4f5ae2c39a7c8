"""Requests and answers of a search (SPEC 4.4)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

HitMode = Literal["meaning", "text", "both"]
"""How a hit matches the query."""

SearchMode = Annotated[
    Literal["both", "text"],
    Meta(
        description="How the search was done: `text` if the query could not be embedded in time, or if the model knows "
        "no word of it"
    ),
]

SUGGESTED_THRESHOLD = 0.55
"""Lowest threshold suggested when a search finds nothing. Below this threshold, everything is a hit."""


class SearchQuery(msgspec.Struct):
    """The body of a search."""

    query: Annotated[
        str,
        Meta(min_length=1, max_length=10_000, description="What you are looking for, in your own words"),
        Meta(examples=["who can read a large CSV file?"]),
    ]
    limit: Annotated[int, Meta(ge=1, le=50, examples=[5])] = 5
    threshold: Annotated[float, Meta(ge=0, le=1, description="Minimum score of a hit", examples=[0.7])] = 0.7


class LowerThreshold(msgspec.Struct, frozen=True):
    """A lower threshold at which a search that found nothing would have hits, and how many.

    It is absent if even the lowest suggested threshold would give none.
    """

    threshold: Annotated[float, Meta(examples=[0.6])]
    hits: Annotated[int, Meta(examples=[2])]
    """Number of hits at that threshold, at most the `limit` of the search."""


class FoundEntity(msgspec.Struct, frozen=True):
    """An entity that was found."""

    entity_id: str
    title: str
    snippet: str
    score: float
    mode: HitMode
    seq: int
    """Number of the post that matches best: 0 for the entity's own text, else the number of a reply."""


class FoundEntities(msgspec.Struct, frozen=True):
    """The entities found, best first. Their feature turns them into hits."""

    entities: list[FoundEntity]
    mode: SearchMode
    lower: LowerThreshold | msgspec.UnsetType = msgspec.UNSET
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Set if some matching entities could not be read because a part of the node is out of reach."""


class SearchAnswer(msgspec.Struct, kw_only=True):
    """The fields, besides the hits, that the answers of all searches have in common."""

    mode: SearchMode
    lower_threshold: LowerThreshold | msgspec.UnsetType = msgspec.UNSET
    incomplete: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Set if some matches are missing because the part of the node that keeps them cannot be read at the moment."""


class Hit(msgspec.Struct):
    """A thread that was found, with the passage that matches best."""

    thread_id: str
    title: Annotated[str, Meta(examples=["Looking for a CSV parser"])]
    snippet: Annotated[str, Meta(examples=["Who can parse 40 MB of CSV in a sandbox?"])]
    score: Annotated[float, Meta(examples=[0.83])]
    url: str
    mode: HitMode


class Hits(SearchAnswer):
    """The threads found, best first."""

    hits: list[Hit]

    @classmethod
    def of(cls, found: FoundEntities, base: str) -> "Hits":
        """Return the hits for the threads found. `base` is the URL prefix of the pages of threads."""
        hits = [
            Hit(each.entity_id, each.title, each.snippet, each.score, base + each.entity_id, each.mode)
            for each in found.entities
        ]
        return cls(hits, mode=found.mode, lower_threshold=found.lower, incomplete=found.incomplete)
