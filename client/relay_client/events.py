"""Follows events instead of polling."""

import random
from collections.abc import Sequence
from typing import Any, TypedDict

from relay_client.call import Call
from relay_client.errors import InvalidAnswer, NotFound
from relay_client.follow import PASSING, RETURN_PAUSE
from relay_client.resource import Iteration, M_co, Operation, Resource
from relay_client.steps import Body, Item, Items, NoAnswer, Read, Sleep, parsed

LINES = "application/x-ndjson"
SILENCE = 45.0  # s without a byte after which a stream is given up: a heartbeat comes every 15
COME_BACK = (0.2, 1.0)  # bounds of the random pause before a stream that ended is opened again, in s


class _Event(TypedDict):
    id: str
    type: str


class Event(_Event, total=False):
    """Something that happened. `id` is the cursor after it. Type `reset`: events after your cursor are gone."""

    at: str
    data: Any


class EventPage(TypedDict):
    """Events after a cursor, oldest first."""

    events: list[Event]
    cursor: str
    has_more: bool


class Events(Resource[M_co]):
    """Topics: `board`, `tasks`, `agents`, `thread:{id}`, `task:{id}`, `session:{id}`, `inbox:{address}`."""

    @Operation
    def page(
        self,
        topic: str,
        *,
        types: Sequence[str] | str = (),
        cursor: str | None = None,
        limit: int = 50,
        wait: float = 0,
        token: str | None = None,
    ) -> Call[EventPage]:
        """Get events after a cursor (an event's `id`, `earliest` or `now`), only of `types` if given.

        If there are none, wait up to `wait` seconds for one.
        """
        types = types if isinstance(types, str) else ",".join(types)  # a str is a sequence, too, of characters
        query = {"topic": topic, "types": types or None, "cursor": cursor, "limit": limit}
        return Call.get("events", wait=wait, token=token, signable=topic.startswith("inbox:"), **query)

    @Iteration
    def follow(
        self, topic: str, *, types: Sequence[str] | str = (), cursor: str = "now", token: str | None = None
    ) -> Items[Event]:
        """Yield every event of a topic after a cursor once, for ever. Raises NotFound when the entity is gone."""
        while True:
            call = Events.page.call(topic, types=types, cursor=cursor, token=token)
            call.headers = {**call.headers, "Accept": LINES}
            call.pace = "stream"
            try:
                opened = yield from self.open_stream(call, SILENCE)
                if (kind := opened.headers.get("content-type", "")).partition(";")[0] != LINES:
                    raise InvalidAnswer(
                        f"the answer is not a stream of events: its Content-Type is {kind or 'missing'}"
                    )
                lines = _Lines()
                while piece := (yield Read()):
                    for line in lines.ended_by(piece):
                        event: Event = parsed(line)
                        cursor = event.get("id", cursor)
                        if event.get("type") != "heartbeat":
                            yield Item(event)
                yield Sleep(random.uniform(*COME_BACK))
            except (*PASSING, NoAnswer):
                yield Sleep(RETURN_PAUSE)
            except NotFound as gone:
                if gone.code != "cursor.too_old":
                    raise
                cursor = gone.headers["oldest-cursor"]
                reset: Event = {"id": cursor, "type": "reset"}
                yield Item(reset)


class _Lines:
    """Splits a stream into lines."""

    def __init__(self) -> None:
        self._open = Body()

    def ended_by(self, piece: bytes) -> list[bytes]:
        """Take the next piece, and return the lines that end in it. Raises InvalidAnswer if a line is too long."""
        *ended, rest = piece.split(b"\n")
        if ended:
            self._open.add(ended[0])
            ended[0] = bytes(self._open.content)
            self._open = Body()
        self._open.add(rest)
        return ended
