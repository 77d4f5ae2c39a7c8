"""Encodes events for sending, once for all followers that get the same events."""

from asyncio import sleep
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from node.events.model import EventView
from node.events.source import SourceEvent, cursor_of
from node.web.streams import PIECE_BYTES, one_line

Form = Literal["sse", "ndjson"]
"""Server-sent events, or lines of JSON."""


ENCODED_BYTES = 512 * 1024
"""Bytes of events encoded before the event loop does other work: about two milliseconds. A hundred replies that are
read together may have 8 MB."""


class Frame:
    """One event in the form in which it is sent."""

    __slots__ = ("end", "json", "position", "view")

    def __init__(self, source: str, event: SourceEvent) -> None:
        self.position = event.position
        self.view = EventView(cursor_of(source, event.position), event.type, event.at, event.data)
        self.json = one_line(msgspec.json.encode(self.view))
        self.end = 0
        """Total bytes of the broadcast's events up to and including this one."""


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
        """Return all events in one piece."""
        piece = self._by_form.get(form)
        if piece is None:
            piece = b"".join([written(form, each.view.id, each.view.type, each.json) for each in self._frames])
            self._by_form[form] = piece
        return piece


async def encoded(source: str, events: Iterable[SourceEvent]) -> list[Frame]:
    """Encode events of a source for all its followers."""
    frames: list[Frame] = []
    left = ENCODED_BYTES
    for event in events:
        frames.append(frame := Frame(source, event))
        left -= len(frame.json)
        if left < 0:
            await sleep(0)
            left = ENCODED_BYTES
    return frames


def together(frames: Iterable[Frame]) -> Iterator[Frames]:
    """Group events so that each group fits into one piece; a larger event is a group by itself. Lazy."""
    found: list[Frame] = []
    size = 0
    for frame in frames:
        if found and size + len(frame.json) > PIECE_BYTES:
            yield Frames(found)
            found, size = [], 0
        found.append(frame)
        size += len(frame.json)
    if found:
        yield Frames(found)


def written(form: Form, cursor: str, kind: str, content: bytes) -> bytes:
    """Return one event, or one notice of a stream, in a stream's form. `content` is JSON on one line."""
    if form == "ndjson":
        return content + b"\n"
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), kind.encode(), content)
