"""A stream of events to one client, as server-sent events or as lines of JSON, until the client leaves (NETWORK 3)."""

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from time import time
from typing import Literal

import msgspec

from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.events.broadcast import Follower, Frame
from node.events.service import Topic
from node.events.source import Batch, CursorTooOld
from node.store.errors import StoreUnavailable
from node.web.http import Piece

HEARTBEAT_SECONDS = 15.0
"""Longest silence: balancers and proxies cut a silent connection, the usual ones after 60 s."""

STREAM_SECONDS = 900.0
"""A stream ends after this, so that followers spread over the processes again; the client comes back at its cursor."""

MIN_RETRY_MS, MAX_RETRY_MS = 500, 3000
"""When a client comes back, at random in between, so that those of a process that stops do not come in one moment."""

SEND_SECONDS = 30.0
"""How long a client may take to read one piece."""

READ_AT_ONCE = 100
"""Events that are read together until the stream has caught up."""

Form = Literal["sse", "ndjson"]


class Notice(msgspec.Struct):
    """What a stream says of itself. `heartbeat`: it lives, and has got to `id`. `reset`: events after the cursor that
    the client named are gone, and the oldest that there are follow."""

    id: str
    type: Literal["heartbeat", "reset"]
    at: str


class EventStream:
    """One stream."""

    def __init__(self, topic: Topic, form: Form, first: Batch, *, is_reset: bool = False) -> None:
        """`first`: the events that it begins with. `is_reset`: the client asked for older ones, which are gone."""
        self._topic = topic
        self._form: Form = form
        self._batch = first
        self._is_reset = is_reset

    async def run(self, send: Piece) -> None:
        """Send events until the client is too slow, the thing is gone, the process stops or the time is over.

        Whoever calls it cancels it when the client is gone.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + STREAM_SECONDS
        with suppress(StoreUnavailable, CursorTooOld, Refused, TimeoutError):  # the client comes back and is told why
            follower = await self._catch_up(send)
            try:
                task = asyncio.current_task()
                follower.on_too_slow = task.cancel if task else None
                await self._follow(follower, ends, send)
            finally:
                follower.leave()
            if self._form == "sse":
                await _send(b"retry: %d\n\n" % random.randint(MIN_RETRY_MS, MAX_RETRY_MS), send)

    async def _catch_up(self, send: Piece) -> Follower:
        """Send what is stored, up to the present, and follow from there."""
        topic, batch = self._topic, self._batch
        cursor = topic.cursor(batch.start)
        await _send(self._notice("reset" if self._is_reset else "heartbeat", cursor), send)
        while True:
            if batch.events:
                await _send(self._written(topic.frames(batch)), send)
            if not batch.has_more and (follower := topic.join(batch.position)):
                return follower
            batch = await topic.read(batch.position, READ_AT_ONCE)

    async def _follow(self, follower: Follower, ends: float, send: Piece) -> None:
        loop = asyncio.get_running_loop()
        while not follower.has_ended and (left := ends - loop.time()) > 0:
            frames = await follower.next(min(HEARTBEAT_SECONDS, left))
            if frames:
                await _send(self._written(frames), send)
            elif not follower.has_ended:
                await _send(self._notice("heartbeat", self._topic.cursor(follower.position)), send)

    def _written(self, frames: Iterable[Frame]) -> bytes:
        return b"".join([frame.sse if self._form == "sse" else frame.line for frame in frames])

    def _notice(self, kind: Literal["heartbeat", "reset"], cursor: str) -> bytes:
        content = msgspec.json.encode(Notice(cursor, kind, timestamp(int(time() * 1000))))
        if self._form == "ndjson":
            return content + b"\n"
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), kind.encode(), content)


async def _send(piece: bytes, send: Piece) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send(piece)
