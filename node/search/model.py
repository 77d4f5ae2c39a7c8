"""What the search takes and answers (SPEC 4.4)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class SearchQuery(msgspec.Struct):
    """The body of POST /api/v1/board/search."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="What you look for, in your own words")]
    limit: Annotated[int, Meta(ge=1, le=50)] = 5
    threshold: Annotated[float, Meta(ge=0, le=1, description="Least score of a hit")] = 0.7


class Hit(msgspec.Struct):
    """A thread that was found, and the passage that matches best."""

    thread_id: str
    title: str
    snippet: str
    score: float
    url: str
    mode: Literal["meaning", "text", "both"]


class Hits(msgspec.Struct):
    """Hits in order; `mode` says how the search was done: `text` when no embedding was at hand."""

    hits: list[Hit]
    mode: Literal["both", "text"]
