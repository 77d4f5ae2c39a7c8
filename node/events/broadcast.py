"""One reader of a source for all its followers in this process: a follower costs Redis nothing.

The reader keeps the last events in memory as they are sent. Each follower has a place among them, so a new event costs
one append and a wake-up for each follower that wants it. Followers are woken a few at a time, and requests of others
are served in between.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

import msgspec

from node.common.refusal import Refused
from node.events.model import EventView
from node.events.source import START, Batch, CursorTooOld, EventSource, Position, SourceEvent, cursor_of
from node.store import Listener, StoreUnavailable, WakeUps

READ_AT_ONCE = 100
"""Events that are read together."""

POLL_SECONDS = 5.0
"""Between two reads without a wake-up, in case one was lost."""

RETRY_SECONDS = 0.5
"""Between two reads while Redis is out of reach."""

KEPT_BYTES = 4 * 1024 * 1024
"""Size of the events that are kept for followers who are behind, and for new ones."""

MAX_BEHIND_BYTES = 256 * 1024
"""A follower that has so much left to read is dropped: it is too slow, and would have to be kept for."""

REST = 2.0
"""For so many times as long as the last events took to send, no more are read: the followers of a source take a third
of a process, however many they are. What happens meanwhile is sent to each of them together."""

WOKEN_AT_ONCE = 40
"""Followers that are woken before others have their turn: sending to them takes about a millisecond."""


class Frame:
    """One event as it is sent, in each form that somebody has asked for."""

    __slots__ = ("_sse", "end", "json", "position", "view")

    def __init__(self, source: str, event: SourceEvent, bytes_before: int = 0) -> None:
        self.position = event.position
        self.view = EventView(cursor_of(source, event.position), event.type, event.at, event.data)
        self.json = msgspec.json.encode(self.view)
        self.end = bytes_before + len(self.json)
        """Bytes of all events of the broadcast up to this one."""
        self._sse: bytes | None = None

    @property
    def sse(self) -> bytes:
        """A server-sent event. JSON as msgspec writes it has no line break."""
        if self._sse is None:
            self._sse = b"id: %b\nevent: %b\ndata: %b\n\n" % (self.view.id.encode(), self.view.type.encode(), self.json)
        return self._sse

    @property
    def line(self) -> bytes:
        """A line of JSON."""
        return self.json + b"\n"


class Follower:
    """One reader of a broadcast. Created by `Broadcast.join`."""

    def __init__(self, broadcast: "Broadcast", after: Position, types: frozenset[str]) -> None:
        self._broadcast = broadcast
        self._after = after
        self._number = 0
        """Of the next frame to look at."""
        self._types = types
        self._news: asyncio.Future[None] | None = None
        """Resolved when there is something for `next`; None while nobody waits."""
        self.has_ended = False
        """Whether there will be nothing more: the thing is gone, or the process is about to stop."""
        self.on_too_slow: Callable[[], object] | None = None
        """Called if the follower does not keep up; it hears nothing more."""

    @property
    def position(self) -> Position:
        """The place up to which the follower has got everything."""
        return max(self._after, self._broadcast.position_of(self._number))

    async def next(self, seconds: float) -> Sequence[Frame]:
        """The next events, waiting for one for so long; none if the time is up or it has ended."""
        frames = self._take()
        if frames or self.has_ended:
            return frames
        self._news = asyncio.get_running_loop().create_future()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news
        finally:
            self._news = None
        return self._take()

    def wants(self, types: set[str]) -> bool:
        """Whether it waits for one of these types."""
        return self._news is not None and not self._types.isdisjoint(types)

    def wake(self) -> None:
        """Look for news."""
        if self._news and not self._news.done():
            self._news.set_result(None)

    def end(self) -> None:
        """There will be no more."""
        self.has_ended = True
        self.wake()

    def leave(self) -> None:
        """Stop following."""
        self._broadcast.leave(self)

    def drop_if_too_slow(self) -> None:
        """Drop it if it has been busy with sending for too long."""
        if self._news is None and self.on_too_slow and self._broadcast.bytes_from(self._number) > MAX_BEHIND_BYTES:
            self.leave()
            self.on_too_slow()

    def _take(self) -> Sequence[Frame]:
        frames, self._number = self._broadcast.frames_from(self._number)
        return [frame for frame in frames if frame.position > self._after and frame.view.type in self._types]


class Broadcast:
    """The followers of one source, and the task that reads for them; it runs while there are any."""

    def __init__(self, source: EventSource, wakeups: WakeUps) -> None:
        self._source = source
        self._wakeups = wakeups
        self._followers: set[Follower] = set()
        self._frames: deque[Frame] = deque()
        self._first_number = 0
        """Of the frames that are kept; frames are numbered from 0."""
        self._floor: Position = START
        """All events after it are among the frames."""
        self._position: Position = START
        """Up to where the source has been read."""
        self._bytes = 0
        """Size of all frames so far."""
        self._reading: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    def __len__(self) -> int:
        return len(self._followers)

    async def newest(self) -> Position:
        """A position that a follower can join at now. Raises Refused, StoreUnavailable."""
        return self._position if self._reading else await self._source.newest()

    def join(self, after: Position, types: frozenset[str]) -> Follower | None:
        """A follower of what comes after a position; None if what is between that and now has to be read first."""
        if self._reading is None:
            self._floor = self._position = after
            self._reading = asyncio.create_task(self._read())
        elif after < self._floor:
            return None
        follower = Follower(self, after, types)
        self._followers.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        """One follower less."""
        self._followers.discard(follower)
        if not self._followers and self._listener:
            self._listener.hear(b"")

    def end(self) -> None:
        """End all followers with what they have got."""
        for follower in self._followers:
            follower.end()

    def frames_from(self, number: int) -> tuple[Sequence[Frame], int]:
        """The frames from a number on, and the number of the next one."""
        after_last = self._first_number + len(self._frames)
        wanted = min(after_last - number, len(self._frames))
        return [self._frames[place] for place in range(-wanted, 0)], after_last

    def position_of(self, number: int) -> Position:
        """Before the frame of that number, or the newest position if there is none yet."""
        place = number - self._first_number
        if place >= len(self._frames):
            return self._position
        return self._frames[place - 1].position if place > 0 else self._floor

    def bytes_from(self, number: int) -> int:
        """Size of the frames from a number on."""
        place = number - self._first_number
        return self._bytes - self._frames[place - 1].end if 0 < place <= len(self._frames) else self._bytes

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            with await self._wakeups.listen(self._source.channel) as self._listener:
                while self._followers:
                    self._listener.forget()
                    try:
                        batch = await self._source.read(self._position, READ_AT_ONCE, self._source.types)
                    except StoreUnavailable:
                        await asyncio.sleep(RETRY_SECONDS)
                        continue
                    began = loop.time()
                    await self._publish(batch)
                    await asyncio.sleep(REST * (loop.time() - began))
                    if not batch.has_more:
                        await self._listener.next(POLL_SECONDS)
        except (Refused, CursorTooOld):
            pass  # the thing is gone; or this process was cut off for so long that its followers have to begin anew
        finally:
            self._listener = self._reading = None
            self._frames.clear()
            self.end()

    async def _publish(self, batch: Batch) -> None:
        for event in batch.events:
            self._frames.append(frame := Frame(self._source.name, event, self._bytes))
            self._bytes = frame.end
        self._position = batch.position
        while self._frames and self._bytes - self._frames[0].end >= KEPT_BYTES:
            self._floor = self._frames.popleft().position
            self._first_number += 1
        types = {event.type for event in batch.events}
        for number, follower in enumerate(list(self._followers) if types else (), 1):
            follower.drop_if_too_slow()
            if follower.wants(types):
                follower.wake()
            if number % WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)


class Broadcasts:
    """The broadcasts of a process, one for each topic that somebody follows, or is about to. Nobody else keeps one."""

    def __init__(self, wakeups: WakeUps, most: int) -> None:
        """`most`: requests that may wait for an event in this process at a time."""
        self._wakeups = wakeups
        self._most = most
        self._by_topic: WeakValueDictionary[str, Broadcast] = WeakValueDictionary()
        self.has_ended = False
        """Whether the process is about to stop."""

    def of(self, topic: str, source: EventSource) -> Broadcast:
        """The broadcast of a topic; `topic` names also what was shown for it, so that nobody follows by what another
        has shown.
        """
        broadcast = self._by_topic.get(topic)
        if broadcast is None:
            broadcast = self._by_topic[topic] = Broadcast(source, self._wakeups)
        return broadcast

    @property
    def may_wait(self) -> bool:
        """Whether another request may wait for an event."""
        return not self.has_ended and self.counts().total() < self._most

    def counts(self) -> Counter[str]:
        """Followers by the first word of their topic."""
        counts: Counter[str] = Counter()
        for topic, broadcast in list(self._by_topic.items()):
            counts[topic.partition(":")[0]] += len(broadcast)
        return counts

    def end(self) -> None:
        """End all followers: the process is about to stop."""
        self.has_ended = True
        for broadcast in list(self._by_topic.values()):
            broadcast.end()
