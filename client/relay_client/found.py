"""What all searches answer alike."""

from typing import Literal, TypedDict

HitMode = Literal["both", "meaning", "text"]
"""What of a hit matched."""
SearchMode = Literal["both", "text"]
"""How the node searched: `text` when no embedding was at hand."""


class LowerThreshold(TypedDict):
    """Where a search would have found something."""

    threshold: float
    hits: int


class _Found(TypedDict):
    mode: SearchMode


class Found(_Found, total=False):
    """A search that was done; `incomplete` while a part of the node's store is out of reach."""

    lower_threshold: LowerThreshold
    incomplete: bool
