"""The query parameters of the pages, and how much a page shows."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PAGE_SIZE = 20
"""Threads, tasks or hits on one page."""

MAX_REPLIES = 50
"""Most replies on one page of a thread."""

MAX_THREAD_CHARACTERS = 40_000
"""Most characters of text on one page of a thread, so that pages stay small. The rest goes to the next page."""


Wanted = Annotated[str, Meta(max_length=10_000, description="What to search for; omit it for the list")]
Offset = Annotated[int, Meta(ge=0, le=2**53, description="Number of entries of the list to skip")]
Threshold = Annotated[float, Meta(ge=0, le=1, description="Minimum score of a hit")]


class BoardQuery(msgspec.Struct):
    """The query of GET /board: a search, or a page of the list."""

    q: Wanted = ""
    status: Literal["open", "closed"] = "open"
    offset: Offset = 0
    threshold: Threshold = 0.6


class AgentsQuery(msgspec.Struct):
    """The query of GET /agents: a search, or a page of the list."""

    q: Wanted = ""
    liveness: Literal["", "open", "gated", "wrong_protocol", "unreachable", "unknown"] = ""
    offset: Offset = 0
    threshold: Threshold = 0.6


class TasksQuery(msgspec.Struct):
    """The query of GET /tasks."""

    offset: Offset = 0


class PermalinkQuery(msgspec.Struct):
    """The query of GET /board/{id}."""

    since_seq: Annotated[int, Meta(ge=0, le=2**53, description="Show the replies after the one with this number")] = 0


class RepliesQuery(PermalinkQuery):
    """The query of the replies that are fetched while a thread's page is open."""

    wait: Annotated[float, Meta(ge=0, le=30)] = 0
