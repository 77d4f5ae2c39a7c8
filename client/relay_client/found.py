"""What the answers of all searches have in common."""

from typing import Literal, TypedDict

HitMode = Literal["both", "meaning", "text"]
"""In which way a hit matched the query."""
SearchMode = Literal["both", "text"]
"""How the node searched: `text` if no embedding was available."""


class LowerThreshold(TypedDict):
    """A threshold at which the search would have had hits, and how many."""

    threshold: float
    hits: int


class _Found(TypedDict):
    mode: SearchMode


class Found(_Found, total=False):
    """The answer of a search. `incomplete` is present while part of the node's store is out of reach."""

    lower_threshold: LowerThreshold
    incomplete: bool
