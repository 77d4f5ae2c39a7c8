"""One reader of a source for all its followers in this process: a follower costs Redis nothing.

The reader keeps the last events in memory, encoded as they are sent. Each follower has a place among them, so a new
event costs one append, and one call for each follower that wants it: as long as its connection has room, no task is
woken. Followers are notified some at a time, and other requests are served in between.
"""

import asyncio
import math
import sys
from asyncio import sleep
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from weakref import WeakValueDictionary

from node.common.refusal import Refused
from node.events.frames import Frame, Frames, encoded
from node.events.source import START, CursorTooOld, EventBatch, EventSource, Position, count_within
from node.store import Listener, StoreUnavailable, WakeUps
from node.web.streams import PIECE_BYTES

READ_AT_ONCE = 100
"""Events read together."""

READ_BYTES = 1024 * 1024
"""About how many bytes they have at most, as large as the last ones were."""

POLL_SECONDS = 5.0
"""The longest time between two reads without a wake-up, in case one was lost."""

RETRY_SECONDS = 0.5
"""Pause between two reads while Redis is out of reach."""

MAX_BEHIND_BYTES = 256 * 1024
"""A follower with this much left to read is dropped: it is too slow, and all of that would have to be kept for it."""

CATCH_UP_SECONDS = 2.0
"""How long a broadcast waits before it reads on for followers that have more than that left of events that came
together. They get one piece after the other, as they read them, and those who read at all shall not be dropped."""

CHECK_SECONDS = 0.02
"""How often it looks meanwhile."""

KEPT_BYTES = 4 * MAX_BEHIND_BYTES
"""Size of the events kept for followers that are behind, and for new ones, besides the last that were read. Followers
that have not been dropped are not behind by more than half of it when more is read."""

REST, SHORT_REST = 8.0, 4.0
"""How long a broadcast rests after notifying its followers of events, as a multiple of the time that took, so that they
take a ninth of a process, however many they are. What happens meanwhile is sent to each of them together. The rest is
short if events come seldom, so that the next one does not wait for long, and while there are more than can be read at
once, so that followers catch up."""

NOTIFIED_AT_ONCE = 100
"""Followers notified before other work has its turn: sending to them takes about a millisecond."""

NOTIFIED_BYTES = 4 * 1024 * 1024
"""Bytes sent to them before that, if their events are large: as many are copied in about a millisecond, too."""

SELDOM_SECONDS = 0.25
"""Events that come at least this long after the ones before reach all followers without a rest in between, so that they
get them soonest. Where events come faster there is a rest after every NOTIFIED_AT_ONCE followers, or NOTIFIED_BYTES,
and none for fewer; otherwise the threads that write to sockets would have all the processors for as long as it takes to
write to thousands."""

MAX_SHARED = 64
"""Pieces of a batch that are kept until all followers have been notified of it, for the next one that wants the same.
The bound keeps many different selections of types from multiplying its size in memory."""

NOTHING = Frames(())

Push = Callable[[Frames], bool]
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
        self._push: Push | None = None
        self.has_ended = False
        """Whether there will be no more: the entity is gone, or the process is about to stop."""
        self.on_too_slow: Callable[[], object] | None = None
        """Called if the follower does not keep up; it hears nothing more."""

    @property
    def position(self) -> Position:
        """The place up to which the follower has got everything."""
        return max(self._after, self._broadcast.position_of(self._number))

    async def next(self, seconds: float, push: Push | None = None) -> Frames:
        """The next events, waiting up to `seconds` for one; none if the time is up or the follower has ended.

        With `push`, events go there while it waits, until that returns False, and it returns what follows. Either gets
        no more than a piece at a time.
        """
        most = PIECE_BYTES if push else sys.maxsize
        frames = self._take(most)
        if frames or self.has_ended:
            return frames
        self._news, self._push = asyncio.get_running_loop().create_future(), push
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news
        finally:
            self._news = self._push = None
        return self._take(most)

    def notify(self, types: set[str], size: int) -> None:
        """Notify it of new events of these types, of `size` bytes in all; drop it if it was too far behind before."""
        if self._news is None:  # its task is busy: it is sending, or about to wait again
            if self.is_behind(MAX_BEHIND_BYTES + size):
                self.drop()
        elif self._news.done() or self._types.isdisjoint(types):
            return
        elif self._push is None or not self._push_all(self._push):
            self._wake()

    def end(self) -> None:
        """There will be no more."""
        self.has_ended = True
        self._wake()

    def leave(self) -> None:
        """Stop following."""
        # It leads to the task, whose failure, once cancelled, leads back here: only the collector would free both.
        self.on_too_slow = None
        self._broadcast.leave(self)

    def is_behind(self, most: int) -> bool:
        """Whether it has more bytes than that left to send, and is to be dropped for it."""
        is_busy = self._news is None or self._news.done()
        return is_busy and self.on_too_slow is not None and self._broadcast.bytes_from(self._number) > most

    def drop(self) -> None:
        """End it: it is too slow."""
        on_too_slow = self.on_too_slow
        self.leave()
        if on_too_slow:
            on_too_slow()

    def _push_all(self, push: Push) -> bool:
        """Whether the connection had room for all that there is."""
        while frames := self._take(PIECE_BYTES):
            if not push(frames):
                return False
        return True

    def _wake(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)

    def _take(self, most: int) -> Frames:
        frames, self._number = self._broadcast.frames_from(self._number, self._after, self._types, most)
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
        self._shared: dict[tuple[int, frozenset[str], int], tuple[Frames, int]] = {}
        """What `frames_from` has found in it, kept while followers are notified."""
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

    def frames_from(self, number: int, after: Position, types: frozenset[str], most: int) -> tuple[Frames, int]:
        """The frames of these types from a number on and behind the position `after`, and the number to go on from.

        They have `most` bytes together at most, unless a larger one comes first, which is then the only one.
        """
        next_number = self._first_number + len(self._frames)
        if number >= next_number:
            return NOTHING, next_number
        is_new = number >= self._batch_number and after <= self._batch_after
        wanted = number, types, most
        if is_new and (shared := self._shared.get(wanted)):
            return shared
        found: list[Frame] = []
        start = max(number - self._first_number, 0)
        for index, frame in enumerate(islice(self._frames, start, None), start):
            if frame.position > after and frame.view.type in types:
                most -= len(frame.json)
                if found and most < 0:
                    next_number = self._first_number + index
                    break
                found.append(frame)
        if is_new and found and len(self._shared) < MAX_SHARED:
            self._shared[wanted] = Frames(found), next_number
            return self._shared[wanted]
        return Frames(found), next_number

    def position_of(self, number: int) -> Position:
        """The position before the frame of that number, or the newest position if there is no such frame yet."""
        index = number - self._first_number
        if index >= len(self._frames):
            return self._position
        return self._frames[index - 1].position if index > 0 else self._floor

    def bytes_from(self, number: int) -> int:
        """Size of the frames from a number on."""
        index = number - self._first_number
        return self._bytes - self._frames[index - 1].end if 0 < index <= len(self._frames) else self._bytes

    async def _run(self) -> None:
        """Read for the followers until the last one has left, or there is nothing to follow any more."""
        try:
            with await self._wakeups.listen(self._source.channel) as self._listener:
                await self._read(self._listener)
        except (Refused, CursorTooOld):
            # The entity is gone, or this process was cut off for so long that its followers must start again.
            await self._let_catch_up(0)
        finally:
            self._listener = self._reading = None
            # A reader that is started later counts bytes from 0 again, and goes on with the numbers of the frames.
            self._first_number += len(self._frames)
            self._frames.clear()
            self._shared.clear()
            self._bytes = 0
            self.end()

    async def _read(self, listener: Listener) -> None:
        notified_at = -math.inf
        at_once = READ_AT_ONCE
        while self._followers:
            listener.forget()
            try:
                batch = await self._source.read(self._position, at_once, self._source.types)
            except StoreUnavailable:
                await sleep(RETRY_SECONDS)
                continue
            is_seldom = monotonic() - notified_at >= SELDOM_SECONDS
            frames = await encoded(self._source.name, batch.events)
            size = self._keep(batch, frames)
            if frames:
                rest = SHORT_REST if is_seldom or batch.has_more else REST
                await self._notify({event.type for event in batch.events}, size, rest, is_seldom=is_seldom)
                if size > MAX_BEHIND_BYTES:
                    await self._let_catch_up(MAX_BEHIND_BYTES)
                notified_at = monotonic()
                at_once = min(READ_AT_ONCE, count_within(READ_BYTES, len(frames), size))
            if not batch.has_more:
                await listener.next(POLL_SECONDS)

    def _keep(self, batch: EventBatch, frames: Sequence[Frame]) -> int:
        """Add the events of a batch to those in memory, and return their size."""
        # Before the new ones are added: a whole batch stays until those who wait for it have it, however large it is.
        self._forget()
        self._batch_after, self._batch_number = self._position, self._first_number + len(self._frames)
        self._shared.clear()
        bytes_before = self._bytes
        for frame in frames:
            self._bytes += len(frame.json)
            frame.end = self._bytes
        self._frames += frames
        self._position = batch.position
        return self._bytes - bytes_before

    def _forget(self) -> None:
        """Drop the oldest events in memory if they are too many."""
        while self._frames and self._bytes - self._frames[0].end >= KEPT_BYTES:
            self._floor = self._frames.popleft().position
            self._first_number += 1

    async def _notify(self, types: set[str], size: int, rest: float, *, is_seldom: bool) -> None:
        """Notify all followers, and rest `rest` times as long as that takes: in between, or afterwards if `is_seldom`.

        `size`: bytes of the new events.
        """
        at_once = max(1, min(NOTIFIED_AT_ONCE, NOTIFIED_BYTES // size))
        all_began = began = monotonic()
        for number, follower in enumerate(list(self._followers), 1):
            follower.notify(types, size)
            if number % at_once == 0:
                await sleep(0 if is_seldom else rest * (monotonic() - began))
                began = monotonic()
        self._shared.clear()
        if is_seldom:
            await sleep(rest * (monotonic() - all_began))

    async def _let_catch_up(self, most: int) -> None:
        """Wait until no follower has more bytes than that left, drop those who do not take them, and forget them."""
        ends = monotonic() + CATCH_UP_SECONDS
        while behind := [each for each in self._followers if each.is_behind(most)]:
            if monotonic() >= ends:
                for follower in behind:
                    follower.drop()
                break
            await sleep(CHECK_SECONDS)
        self._shared.clear()
        self._forget()


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
