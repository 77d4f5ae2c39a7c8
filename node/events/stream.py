"""A stream of events to one client, as server-sent events or as lines of JSON, until the client leaves (NETWORK 3)."""

import asyncio
import random
from contextlib import suppress
from time import time
from typing import Literal, cast

import msgspec

from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.events.broadcast import Follower
from node.events.frames import Form, Frames, written
from node.events.service import Topic
from node.events.source import CursorTooOld, EventBatch, count_within
from node.store.errors import StoreUnavailable
from node.web.streams import HEARTBEAT_SECONDS, PIECE_BYTES, SEND_SECONDS, STREAM_SECONDS, BodySender, send_in_time

MIN_RETRY_MS, MAX_RETRY_MS = 500, 3000
"""Bounds of the random time after which a client reconnects, so that the clients of a stopping process do not all come
back at once."""

READ_FIRST, READ_AT_ONCE = 2, 100
"""Events read at a time: when a stream begins and their size is not known, and afterwards until it has caught up."""

READ_BYTES = 256 * 1024
"""Approximate maximum size of the events read at a time, estimated from the size of the last ones. A stream keeps them
in memory while its client does not read."""


class StreamNotice(msgspec.Struct):
    """A stream's message about itself. `heartbeat`: the stream is alive and has reached the position `id`. `reset`:
    events after the client's cursor are gone, and the oldest remaining events follow."""

    id: str
    type: Literal["heartbeat", "reset"]
    at: str


class EventStream:
    """One stream of events to a client."""

    _send: BodySender

    def __init__(self, topic: Topic, form: Form, first: EventBatch, *, is_reset: bool = False) -> None:
        """`first`: the events to begin with. `is_reset`: the client asked for older events, which are gone."""
        self._topic = topic
        self._form: Form = form
        self._first = first
        self._is_reset = is_reset
        self._loop = asyncio.get_running_loop()
        self._unsent: asyncio.Future[None] | None = None
        """Resolved when the connection has taken the last piece; None if it had room at once."""
        self._rest = b""
        """The rest of an event that is larger than a piece, of which the last piece was the first part."""
        self._sent_at = 0.0
        """When the last piece was sent."""

    async def run(self, send: BodySender) -> None:
        """Send events until the client is too slow, the entity is gone, the process stops or STREAM_SECONDS are over.

        The caller cancels this when the client has disconnected.
        """
        self._send = send
        ends = self._loop.time() + STREAM_SECONDS
        with suppress(StoreUnavailable, CursorTooOld, Refused, TimeoutError):  # the client reconnects and is told why
            if follower := await self._catch_up(ends):
                follower.on_too_slow = cast("asyncio.Task[None]", asyncio.current_task()).cancel
                try:
                    await self._follow(follower, ends)
                finally:
                    follower.leave()
            if self._form == "sse":
                await self._write(b"retry: %d\n\n" % random.randint(MIN_RETRY_MS, MAX_RETRY_MS))

    async def _catch_up(self, ends: float) -> Follower | None:
        """Send the stored events up to the present, then follow from there. Returns None if the stream must end before.

        A slow client can take hours to read the stored events.
        """
        topic, batch = self._topic, self._first
        del self._first  # do not keep the first events in memory as long as the stream
        await self._send_notice("reset" if self._is_reset else "heartbeat", topic.cursor(batch.start))
        while not self._is_over(ends):
            size = 0
            for frames in topic.frames(batch):
                if self._is_over(ends):
                    return None
                await self._write(piece := frames.written(self._form))
                size += len(piece)
            if not batch.has_more and (follower := topic.join(batch.position)):
                return follower
            at_once = count_within(READ_BYTES, len(batch.events), size) if size else READ_AT_ONCE
            batch = await topic.read(batch.position, min(READ_AT_ONCE, at_once))
        return None

    def _is_over(self, ends: float) -> bool:
        return self._topic.has_ended or self._loop.time() >= ends

    async def _follow(self, follower: Follower, ends: float) -> None:
        """Pass on new events. The broadcast hands most of them to `_push` while this only waits."""
        while not follower.has_ended and (now := self._loop.time()) < ends:
            silent_until = self._sent_at + HEARTBEAT_SECONDS
            frames = await follower.next(min(silent_until, ends) - now, self._push)
            await self._sent()
            if frames:
                await self._write(frames.written(self._form))
            elif not follower.has_ended and self._loop.time() >= self._sent_at + HEARTBEAT_SECONDS:
                await self._send_notice("heartbeat", self._topic.cursor(follower.position))

    def _push(self, frames: Frames) -> bool:
        self._begin(frames.written(self._form))
        return self._unsent is None and not self._rest

    async def _send_notice(self, kind: Literal["heartbeat", "reset"], cursor: str) -> None:
        content = msgspec.json.encode(StreamNotice(cursor, kind, timestamp(int(time() * 1000))))
        await self._write(written(self._form, cursor, kind, content))

    async def _write(self, piece: bytes) -> None:
        self._begin(piece)
        await self._sent()

    def _begin(self, piece: bytes) -> None:
        self._sent_at = self._loop.time()
        self._unsent, self._rest = self._send.begin(piece[:PIECE_BYTES]), piece[PIECE_BYTES:]

    async def _sent(self) -> None:
        """Return when the connection has taken the last piece. Raises TimeoutError if the client does not read."""
        if self._unsent is not None:
            async with asyncio.timeout(SEND_SECONDS):
                await self._unsent
            self._unsent = None
        if self._rest:
            rest, self._rest = self._rest, b""
            await send_in_time(rest, self._send)
