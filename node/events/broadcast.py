"""One reader of a source for all its followers in this process: a follower costs Redis nothing.

The reader keeps the last events in memory, encoded as they are sent. Each follower has a place among them, so a new
event costs one append, and one call for each follower that wants it: as long as its connection has room, no task is
woken. Followers are told some at a time, and other requests are served in between.
"""

import asyncio
import math
from asyncio import sleep
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from weakref import WeakValueDictionary

from node.common.refusal import Refused
from node.events.frames import Frame, Frames
from node.events.source import START, Batch, CursorTooOld, EventSource, Position
from node.store import Listener, StoreUnavailable, WakeUps

READ_AT_ONCE = 100
"""Events read together."""

POLL_SECONDS = 5.0
"""The longest time between two reads without a wake-up, in case one was lost."""

RETRY_SECONDS = 0.5
"""Pause between two reads while Redis is out of reach."""

KEPT_BYTES = 4 * 1024 * 1024
"""Size of the events kept for followers that are behind, and for new ones, besides the last that were read."""

MAX_BEHIND_BYTES = 256 * 1024
"""A follower with this much left to read is dropped: it is too slow, and all of that would have to be kept for it."""

REST = 4.0
"""How long a broadcast rests after telling its followers of events, as a multiple of the time that took, so that they
take a fifth of a process, however many they are. What happens meanwhile is sent to each of them together."""

TOLD_AT_ONCE = 100
"""Followers told before other work has its turn: sending to them takes about a millisecond."""

TOLD_BYTES = 4 * 1024 * 1024
"""Bytes sent to them before that, if their events are large: as many are copied in about a millisecond, too. A hundred
replies that come together may have 8 MB, which each follower gets in one piece."""

SELDOM_SECONDS = 0.25
"""Events that come at least this long after the ones before reach all followers without a rest in between, so that they
hear them soonest. Where events come faster there is a rest after every TOLD_AT_ONCE followers, or TOLD_BYTES, and none
for fewer; otherwise the threads that write to sockets would have all the processors for as long as it takes to write to
thousands.
"""

MAX_SHARED = 8
"""Selections of types for which the pieces of a batch are kept until all followers have it. The bound keeps many
different selections from multiplying its size in memory."""

Hear = Callable[[Frames], bool]
"""Sends events at once. Returns False if the connection has no room for more: they are on their way, and the follower's
own task has to wait until they are sent."""


class Follower:
    """One reader of a broadcast. Created by `Broadcast.join`."""

    def __init__(self, broadcast: "Broadcast", after: Position, types: frozenset[str]) -> None:
        self._broadcast = broadcast
        self._after = after
        self._number = 0
        """Number of the next frame to look at."""
        self._types = types
        self._news: asyncio.Future[None] | None = None
        """Resolved when there is something for `next`; None while nobody waits."""
        self._hear: Hear | None = None
        self.has_ended = False
        """Whether there will be no more: the entity is gone, or the process is about to stop."""
        self.on_too_slow: Callable[[], object] | None = None
        """Called if the follower does not keep up; it hears nothing more."""

    @property
    def position(self) -> Position:
        """The place up to which the follower has got everything."""
        return max(self._after, self._broadcast.position_of(self._number))

    async def next(self, seconds: float, hear: Hear | None = None) -> Frames:
        """The next events, waiting up to `seconds` for one; none if the time is up or the follower has ended.

        With `hear`, events go there while it waits, and it returns without any when that returns False.
        """
        frames = self._take()
        if frames or self.has_ended:
            return frames
        self._news, self._hear = asyncio.get_running_loop().create_future(), hear
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news
        finally:
            self._news = self._hear = None
        return self._take()

    def tell(self, types: set[str]) -> None:
        """There are events of these types. Drops the follower if it has fallen too far behind."""
        if self._news is None:  # its task is busy: it is sending, or about to wait again
            self._drop_if_too_slow()
        elif self._news.done() or self._types.isdisjoint(types):
            return
        elif self._hear is None or not self._hear_next(self._hear):
            self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.has_ended = True
        self._wake()

    def leave(self) -> None:
        """Stop following."""
        self._broadcast.leave(self)

    def _hear_next(self, hear: Hear) -> bool:
        frames = self._take()
        return not frames or hear(frames)

    def _wake(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)

    def _drop_if_too_slow(self) -> None:
        if self.on_too_slow and self._broadcast.bytes_from(self._number) > MAX_BEHIND_BYTES:
            self.leave()
            self.on_too_slow()

    def _take(self) -> Frames:
        frames, self._number = self._broadcast.frames_from(self._number, self._after, self._types)
        return frames


class Broadcast:
    """The followers of one source, and the task that reads for them; it runs while there are any."""

    def __init__(self, source: EventSource, wakeups: WakeUps, everybody: set[Follower]) -> None:
        """`everybody`: the followers of all broadcasts of the process, among which this one keeps its own."""
        self._source = source
        self._wakeups = wakeups
        self._everybody = everybody
        self._followers: set[Follower] = set()
        self._frames: deque[Frame] = deque()
        self._first_number = 0
        """Number of the oldest frame that is kept; frames are numbered from 0."""
        self._floor: Position = START
        """All events after it are among the frames."""
        self._position: Position = START
        """Up to where the source has been read."""
        self._bytes = 0
        """Size of all frames since the reader was started."""
        self._batch_after: Position = START
        """Where the last batch began."""
        self._batch_number = 0
        """Number of its first frame."""
        self._shared: dict[frozenset[str], Frames] = {}
        """Its frames by the types that followers want, kept while they are told."""
        self._reading: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    def __len__(self) -> int:
        return len(self._followers)

    async def newest(self) -> Position:
        """The position at which a follower can join now. Raises Refused, StoreUnavailable."""
        return self._position if self._reading else await self._source.newest()

    def join(self, after: Position, types: frozenset[str]) -> Follower | None:
        """A follower of what comes after a position; None if the events between that and now must be read first."""
        if self._reading is None:
            self._floor = self._position = after
            self._reading = asyncio.create_task(self._run())
        elif after < self._floor:
            return None
        follower = Follower(self, after, types)
        self._followers.add(follower)
        self._everybody.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        """One follower less."""
        self._followers.discard(follower)
        self._everybody.discard(follower)
        if not self._followers and self._listener:
            self._listener.hear(b"")

    def end(self) -> None:
        """End all followers with what they have got."""
        for follower in self._followers:
            follower.end()

    def frames_from(self, number: int, after: Position, types: frozenset[str]) -> tuple[Frames, int]:
        """The frames of these types from a number and from behind a position on, and the number of the next one."""
        after_last = self._first_number + len(self._frames)
        if number == self._batch_number and after <= self._batch_after and (shared := self._shared.get(types)):
            return shared, after_last
        wanted = min(after_last - number, len(self._frames))
        found = (self._frames[place] for place in range(-wanted, 0))
        frames = Frames([frame for frame in found if frame.position > after and frame.view.type in types])
        if number == self._batch_number and after <= self._batch_after and len(self._shared) < MAX_SHARED:
            self._shared[types] = frames
        return frames, after_last

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

    async def _run(self) -> None:
        """Read for the followers until the last one has left, or there is nothing to follow any more."""
        try:
            with await self._wakeups.listen(self._source.channel) as self._listener:
                await self._read(self._listener)
        except (Refused, CursorTooOld):
            pass  # the entity is gone, or this process was cut off for so long that its followers must start again
        finally:
            self._listener = self._reading = None
            # A reader that is started later counts bytes from 0 again, and goes on with the numbers of the frames.
            self._first_number += len(self._frames)
            self._frames.clear()
            self._shared.clear()
            self._bytes = 0
            self.end()

    async def _read(self, listener: Listener) -> None:
        told_at = -math.inf
        loop = asyncio.get_running_loop()
        while self._followers:
            listener.forget()
            try:
                batch = await self._source.read(self._position, READ_AT_ONCE, self._source.types)
            except StoreUnavailable:
                await sleep(RETRY_SECONDS)
                continue
            is_seldom = loop.time() - told_at >= SELDOM_SECONDS
            bytes_before = self._bytes
            self._keep(batch)
            if batch.events:
                size = self._bytes - bytes_before
                await self._tell({event.type for event in batch.events}, size, is_seldom=is_seldom)
                told_at = loop.time()
            if not batch.has_more:
                await listener.next(POLL_SECONDS)

    def _keep(self, batch: Batch) -> None:
        """Add the events of a batch to those in memory, and drop the oldest if they are too many."""
        # Before the new ones are added: a whole batch stays until those who wait for it have it, however large it is.
        while self._frames and self._bytes - self._frames[0].end >= KEPT_BYTES:
            self._floor = self._frames.popleft().position
            self._first_number += 1
        self._batch_after, self._batch_number = self._position, self._first_number + len(self._frames)
        self._shared.clear()
        for event in batch.events:
            self._frames.append(frame := Frame(self._source.name, event, self._bytes))
            self._bytes = frame.end
        self._position = batch.position

    async def _tell(self, types: set[str], size: int, *, is_seldom: bool) -> None:
        """Tell all followers of events of these types and this size, and rest: after the last, or in between."""
        loop = asyncio.get_running_loop()
        at_once = max(1, min(TOLD_AT_ONCE, TOLD_BYTES // size))
        all_began = began = loop.time()
        for number, follower in enumerate(list(self._followers), 1):
            follower.tell(types)
            if number % at_once == 0:
                await sleep(0 if is_seldom else REST * (loop.time() - began))
                began = loop.time()
        self._shared.clear()
        if is_seldom:
            await sleep(REST * (loop.time() - all_began))


class Broadcasts:
    """The broadcasts of a process, one for each topic that somebody follows or is about to. They are held weakly."""

    def __init__(self, wakeups: WakeUps, most: int) -> None:
        """`most`: requests that may wait for an event in this process at a time."""
        self._wakeups = wakeups
        self._most = most
        self._followers: set[Follower] = set()
        """Those of all broadcasts: each request that would wait asks how many there are, however many topics."""
        self._by_topic: WeakValueDictionary[tuple[str, Hashable], Broadcast] = WeakValueDictionary()
        self.has_ended = False
        """Whether the process is about to stop."""

    def of(self, topic: str, shown: Hashable, source: EventSource) -> Broadcast:
        """The broadcast of a topic for those who have shown the same proof, so that nobody follows by another's.

        `topic` and `shown` are not joined: clients write both, and could make one look like a part of the other.
        """
        name = topic, shown
        broadcast = self._by_topic.get(name)
        if broadcast is None:
            broadcast = self._by_topic[name] = Broadcast(source, self._wakeups, self._followers)
        return broadcast

    @property
    def may_wait(self) -> bool:
        """Whether another request may wait for an event."""
        return not self.has_ended and len(self._followers) < self._most

    def counts(self) -> Counter[str]:
        """Followers by the first word of their topic."""
        counts: Counter[str] = Counter()
        for (topic, _), broadcast in list(self._by_topic.items()):
            counts[topic.partition(":")[0]] += len(broadcast)
        return counts

    def end(self) -> None:
        """End all followers: the process is about to stop."""
        self.has_ended = True
        for broadcast in list(self._by_topic.values()):
            broadcast.end()
