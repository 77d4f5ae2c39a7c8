"""The queries of the paths that A2A clients and readers of contracts share, as the documents describe them.

These structs are for the documents only: the parameters of contracts are read as structs of `node.tasks.model`, those
of A2A as `ListQuery` and `HistoryQuery`. No A2A parameter has a default here, since a client that sent it unasked
would get the A2A list.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from node.a2a.model import DEFAULT_PAGE, LARGEST_PAGE, State
from node.tasks.model import OfferPublisher, OfferSkill, OfferWait, PageLimit, PageOffset, TaskQuery, TaskStatus

HistoryLength = Annotated[int, Meta(ge=0, description="A2A: messages of a task's history, all if left out")]


class ListParameters(msgspec.Struct, rename="camel", kw_only=True):
    """The query of GET /api/v1/tasks."""

    status: (
        Annotated[
            Literal[TaskStatus, State],
            Meta(description="Contracts of that status, offered with limit or offset only; else A2A tasks are listed"),
        ]
        | None
    ) = None
    limit: PageLimit = 20
    offset: PageOffset = 0
    wait: OfferWait | None = None
    since: (
        Annotated[str, Meta(description="Offers: `next_since` of an earlier answer, for what can be claimed since")]
        | None
    ) = None
    skill: OfferSkill | None = None
    publisher_id: OfferPublisher | None = msgspec.field(name="publisher_id", default=None)
    context_id: (
        Annotated[
            str,
            Meta(
                description="A2A: tasks of this context, without it none; one that a client named shows that client's"
            ),
        ]
        | None
    ) = None
    page_size: (
        Annotated[int, Meta(ge=1, le=LARGEST_PAGE, description=f"A2A: tasks a page, {DEFAULT_PAGE} if left out")] | None
    ) = None
    page_token: Annotated[str, Meta(description="A2A: nextPageToken of the page before")] | None = None
    history_length: HistoryLength | None = None
    include_artifacts: Annotated[bool, Meta(description="A2A: shows artifacts, which are left out else")] | None = None
    status_timestamp_after: Annotated[str, Meta(description="A2A: tasks of this time (RFC 3339) or later")] | None = (
        None
    )


class ReadParameters(TaskQuery, rename="camel", kw_only=True):
    """The query of GET /api/v1/tasks/{id}."""

    history_length: HistoryLength | None = None
