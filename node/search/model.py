"""What the search takes and answers (SPEC 4.4)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class SearchQuery(msgspec.Struct):
    """The body of POST /api/v1/board/search."""

    query: Annotated[
        str,
        Meta(min_length=1, max_length=10_000, description="What you look for, in your own words"),
        Meta(examples=["who can read a large CSV file?"]),
    ]
    limit: Annotated[int, Meta(ge=1, le=50, examples=[5])] = 5
    threshold: Annotated[float, Meta(ge=0, le=1, description="Least score of a hit", examples=[0.7])] = 0.7


class Hit(msgspec.Struct):
    """A thread that was found, and the passage that matches best."""

    thread_id: str
    title: Annotated[str, Meta(examples=["Looking for a CSV parser"])]
    snippet: Annotated[str, Meta(examples=["Who can parse 40 MB of CSV in a sandbox?"])]
    score: Annotated[float, Meta(examples=[0.83])]
    url: str
    mode: Literal["meaning", "text", "both"]


class Hits(msgspec.Struct):
    """Hits in order; `mode` says how the search was done: `text` when no embedding was at hand."""

    hits: list[Hit]
    mode: Literal["both", "text"]
