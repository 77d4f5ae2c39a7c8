"""Requests and answers of the event feed (NETWORK 3)."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

CURSOR = "an event's id, the `cursor` of a page, `earliest` or `now`; none = now"

TOPICS = "board, tasks, agents, thread:{id}, task:{id}, session:{id} or inbox:{address}"


class EventQuery(msgspec.Struct):
    """The query of GET /api/v1/events."""

    topic: Annotated[str, Meta(max_length=300, description=TOPICS, examples=["board"])]
    types: Annotated[
        str, Meta(max_length=400, description="Types of the events wanted, comma separated; none = all")
    ] = ""
    cursor: Annotated[str, Meta(max_length=200, description=f"Events after this: {CURSOR}")] | None = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Events of a page; a stream has no end")] = 50
    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds that a page waits for an event if there is none")] = 0


class EventView(msgspec.Struct):
    """Something that happened. `data` is the state of the entity when the event is sent, and never has a token."""

    id: Annotated[str, Meta(description="The cursor after this event", examples=["ZmVlZC4x"])]
    type: Annotated[str, Meta(examples=["thread.posted"])]
    at: str
    data: Annotated[Any, Meta(examples=[{"id": "0192f0c1-2d3e-7a4b-8c5d-6e7f80910203", "title": "Solar panels"}])]


class EventPage(msgspec.Struct):
    """Events after a cursor, the oldest first."""

    events: list[EventView]
    cursor: Annotated[str, Meta(description="Ask for what follows with this", examples=["ZmVlZC4x"])]
    has_more: Annotated[
        bool,
        Meta(
            description="Whether to ask again at once, even after an empty page (of 600 events of other types)",
            examples=[False],
        ),
    ]
