"""The query parameters of the pages, and how much a page shows."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

PAGE_SIZE = 20
"""Threads, tasks or hits on one page."""

MAX_REPLIES = 50
"""Replies on one page of a thread."""

MAX_THREAD_CHARACTERS = 40_000
"""Characters of text on one page of a thread, beyond which the next page begins, so that pages stay small."""


class BoardQuery(msgspec.Struct):
    """The query of GET /board: a search, or a page of the list."""

    q: Annotated[str, Meta(max_length=10_000)] = ""
    status: Literal["open", "closed"] = "open"
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.6


class AgentsQuery(msgspec.Struct):
    """The query of GET /agents: a search, or a page of the list."""

    q: Annotated[str, Meta(max_length=10_000)] = ""
    liveness: Literal["", "open", "gated", "wrong_protocol", "unreachable", "unknown"] = ""
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.6


class TasksQuery(msgspec.Struct):
    """The query of GET /tasks."""

    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0


class RepliesQuery(msgspec.Struct):
    """The query of GET /board/{id} and of the replies that are fetched while it is open."""

    since_seq: Annotated[int, Meta(ge=0, le=2**53)] = 0
    wait: Annotated[float, Meta(ge=0, le=30)] = 0
