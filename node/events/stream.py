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
"""Bounds of the random time after which a client reconnects, so that those of a stopping process do not all come back
at once."""

READ_FIRST, READ_AT_ONCE = 2, 100
"""Events read together: those that a stream begins with, while nobody knows how large they are, and then until it has
caught up."""

READ_BYTES = 256 * 1024
"""About how many bytes these have at most, as large as the last ones were: a stream whose client does not read keeps
them."""


class StreamNotice(msgspec.Struct):
    """What a stream says of itself. `heartbeat`: it lives, and has got to `id`. `reset`: events after the cursor that
    the client named are gone, and the oldest that there are follow."""

    id: str
    type: Literal["heartbeat", "reset"]
    at: str


class EventStream:
    """One stream."""

    _send: BodySender

    def __init__(self, topic: Topic, form: Form, first: EventBatch, *, is_reset: bool = False) -> None:
        """`first`: the events that it begins with. `is_reset`: the client asked for older ones, which are gone."""
        self._topic = topic
        self._form: Form = form
        self._first = first
        self._is_reset = is_reset
        self._loop = asyncio.get_running_loop()
        self._unsent: asyncio.Future[None] | None = None
        """The last piece, if the connection had no room for it."""
        self._rest = b""
        """What follows it, if it is the first part of an event that is larger than a piece."""
        self._sent_at = 0.0
        """When the last piece was sent."""

    async def run(self, send: BodySender) -> None:
        """Send events until the client is too slow, the thing is gone, the process stops or the time is over.

        The caller cancels it when the client is gone.
        """
        self._send = send
        ends = self._loop.time() + STREAM_SECONDS
        with suppress(StoreUnavailable, CursorTooOld, Refused, TimeoutError):  # the client comes back and is told why
            if follower := await self._catch_up(ends):
                follower.on_too_slow = cast("asyncio.Task[None]", asyncio.current_task()).cancel
                try:
                    await self._follow(follower, ends)
                finally:
                    follower.leave()
            if self._form == "sse":
                await self._write(b"retry: %d\n\n" % random.randint(MIN_RETRY_MS, MAX_RETRY_MS))

    async def _catch_up(self, ends: float) -> Follower | None:
        """Send what is stored, up to the present, and follow from there; None if the stream has to end before.

        A client that reads slowly can take hours for what is stored.
        """
        topic, batch = self._topic, self._first
        del self._first  # a stream that follows keeps nothing of what it began with
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
        """Pass on what comes. The broadcast hands most of it to `_push`, while this only waits."""
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
        """Return when the last piece is on its way. Raises TimeoutError if the client does not take it."""
        if self._unsent is not None:
            async with asyncio.timeout(SEND_SECONDS):
                await self._unsent
            self._unsent = None
        if self._rest:
            rest, self._rest = self._rest, b""
            await send_in_time(rest, self._send)
