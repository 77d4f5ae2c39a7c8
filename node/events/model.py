"""Requests and answers of the event feed (NETWORK 3)."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

CURSOR = "an event's id, the `cursor` of a page, `earliest` or `now` (the default)"

TOPICS = "board, tasks, agents, thread:{id}, task:{id}, session:{id} or inbox:{address}"


class EventQuery(msgspec.Struct):
    """The query of GET /api/v1/events."""

    topic: Annotated[str, Meta(max_length=300, description=f"What to follow: {TOPICS}", examples=["board"])]
    types: Annotated[
        str, Meta(max_length=400, description="Types of events to return, separated by commas; all if empty")
    ] = ""
    cursor: Annotated[str, Meta(max_length=200, description=f"Return events after this: {CURSOR}")] | None = None
    limit: Annotated[
        int, Meta(ge=1, le=100, description="Maximum number of events in a page; streams have no maximum")
    ] = 50
    wait: Annotated[
        float, Meta(ge=0, le=30, description="Seconds to wait for an event before an empty page is returned")
    ] = 0


class EventView(msgspec.Struct):
    """Something that happened. `data` is the state of the entity when the event is sent, and never has a token."""

    id: Annotated[str, Meta(description="Also the cursor after this event", examples=["ZmVlZC4x"])]
    type: Annotated[str, Meta(examples=["thread.posted"])]
    at: str
    data: Annotated[Any, Meta(examples=[{"id": "0192f0c1-2d3e-7a4b-8c5d-6e7f80910203", "title": "Solar panels"}])]


class EventPage(msgspec.Struct):
    """Events after a cursor, the oldest first."""

    events: list[EventView]
    cursor: Annotated[str, Meta(description="Send it as cursor to get what follows", examples=["ZmVlZC4x"])]
    has_more: Annotated[
        bool,
        Meta(
            description="true: read on at once, even if this page is empty (it skipped 600 events of other types)",
            examples=[False],
        ),
    ]
