"""Events as they are sent: written once for all who get the same ones."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from node.events.model import EventView
from node.events.source import SourceEvent, cursor_of
from node.web.streams import one_line

Form = Literal["sse", "ndjson"]
"""Server-sent events, or lines of JSON."""


class Frame:
    """One event as it is sent."""

    __slots__ = ("end", "json", "position", "view")

    def __init__(self, source: str, event: SourceEvent, bytes_before: int = 0) -> None:
        self.position = event.position
        self.view = EventView(cursor_of(source, event.position), event.type, event.at, event.data)
        self.json = one_line(msgspec.json.encode(self.view))
        self.end = bytes_before + len(self.json)
        """Bytes of all events of the broadcast up to this one."""


class Frames:
    """Events that are sent together."""

    __slots__ = ("_by_form", "_frames")

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = frames
        self._by_form: dict[Form, bytes] = {}

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def written(self, form: Form) -> bytes:
        """All of them in one piece."""
        piece = self._by_form.get(form)
        if piece is None:
            piece = b"".join([written(form, each.view.id, each.view.type, each.json) for each in self._frames])
            self._by_form[form] = piece
        return piece


def written(form: Form, cursor: str, kind: str, content: bytes) -> bytes:
    """One event, or what a stream says of itself; `content` is JSON on one line."""
    if form == "ndjson":
        return content + b"\n"
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), kind.encode(), content)
