"""Reads a source once for all its followers in this process, so that a follower costs Redis nothing.

The reader keeps the last events in memory, encoded as they are sent, and each follower has a position among them. So a
new event costs one append, and one call for each follower that wants it. No task is woken while the follower's
connection has room. Followers are notified in groups, and other requests are served in between.
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
"""Maximum number of events read at a time."""

READ_BYTES = 1024 * 1024
"""Approximate maximum size of the events read at a time, estimated from the size of the last ones."""

POLL_SECONDS = 5.0
"""Maximum time between two reads without a wake-up, in case a wake-up was lost."""

RETRY_SECONDS = 0.5
"""Pause between two reads while Redis is out of reach."""

MAX_BEHIND_BYTES = 256 * 1024
"""Maximum bytes that a follower may be behind. A follower that is further behind is dropped as too slow, because all
those events would have to be kept for it."""

CATCH_UP_SECONDS = 2.0
"""After a batch larger than MAX_BEHIND_BYTES, how long a broadcast waits for followers that are behind by more than
that before it reads on. They get the batch piece by piece, and a follower that reads at all should not be dropped."""

CHECK_SECONDS = 0.02
"""Interval at which the broadcast checks the followers meanwhile."""

KEPT_BYTES = 4 * MAX_BEHIND_BYTES
"""Size of the events kept in memory, besides the last batch, for new followers and for those that are behind. When more
is read, followers that were not dropped are behind by at most half of this."""

REST, SHORT_REST = 8.0, 4.0
"""How long a broadcast rests after notifying its followers, as a multiple of the time that the notifying took. So they
take a ninth of a process, however many they are, and events that come during a rest are sent together. The rest is
short if events are rare, so that the next event does not wait for long, and while more events are stored than one read
returns, so that followers catch up."""

NOTIFIED_AT_ONCE = 100
"""Followers notified before the event loop does other work: sending to them takes about a millisecond."""

NOTIFIED_BYTES = 4 * 1024 * 1024
"""Bytes sent to followers before the event loop does other work: copying them also takes about a millisecond."""

SELDOM_SECONDS = 0.25
"""Events that come at least this long after the previous ones reach all followers without a rest in between, so that
they arrive as soon as possible. If events come faster, there is a rest after every NOTIFIED_AT_ONCE followers or
NOTIFIED_BYTES, and none for fewer. Otherwise the threads that write to sockets would occupy all processors for as long
as it takes to write to thousands of followers."""

MAX_SHARED = 64
"""Maximum number of pieces of a batch that are kept for reuse by followers that want the same, until all followers have
been notified. The limit keeps many different selections of types from multiplying the size of a batch in memory."""

NOTHING = Frames(())

Push = Callable[[Frames], bool]
"""Sends events immediately. Returns False if the connection has no room for more: the events are on their way, and the
follower's own task must wait until they are sent."""


class Follower:
    """One reader of a broadcast. Created by `Broadcast.join`."""

    def __init__(self, broadcast: "Broadcast", after: Position, types: frozenset[str]) -> None:
        self._broadcast = broadcast
        self._after = after
        self._number = 0
        """Number of the next frame to read."""
        self._types = types
        self._news: asyncio.Future[None] | None = None
        """Resolved when there are events for `next`, or the follower has ended; None while nobody waits."""
        self._push: Push | None = None
        self.has_ended = False
        """Whether there will be no more events: the entity is gone, or the process is about to stop."""
        self.on_too_slow: Callable[[], object] | None = None
        """Called if the follower does not keep up. The follower then gets no more events."""

    @property
    def position(self) -> Position:
        """The position up to which the follower has got everything."""
        return max(self._after, self._broadcast.position_of(self._number))

    async def next(self, seconds: float, push: Push | None = None) -> Frames:
        """Return the next events, waiting up to `seconds` for one; none after that, or if the follower has ended.

        With `push`, events are passed to `push` while this waits, until `push` returns False; then the events after
        those are returned. In both cases, no more than one piece is given at a time.
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
        """Notify the follower of `size` bytes of new events of these types, or drop it if it was too far behind."""
        if self._news is None:  # its task is busy: it is sending, or about to wait again
            if self.is_behind(MAX_BEHIND_BYTES + size):
                self.drop()
        elif self._news.done() or self._types.isdisjoint(types):
            return
        elif self._push is None or not self._push_all(self._push):
            self._wake()

    def end(self) -> None:
        """Tell the follower that there will be no more events."""
        self.has_ended = True
        self._wake()

    def leave(self) -> None:
        """Stop following."""
        # The callback refers to a task whose exception refers back here, a cycle that only the collector would free.
        self.on_too_slow = None
        self._broadcast.leave(self)

    def is_behind(self, most: int) -> bool:
        """Whether more than `most` bytes are left to send, and the follower may be dropped for that."""
        is_busy = self._news is None or self._news.done()
        return is_busy and self.on_too_slow is not None and self._broadcast.bytes_from(self._number) > most

    def drop(self) -> None:
        """Stop following because the follower is too slow."""
        on_too_slow = self.on_too_slow
        self.leave()
        if on_too_slow:
            on_too_slow()

    def _push_all(self, push: Push) -> bool:
        """Push all available events. Returns whether the connection had room for them."""
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
    """The followers of one source, and the task that reads for them. The task runs while there are followers."""

    def __init__(self, source: EventSource, wakeups: WakeUps, everybody: set[Follower]) -> None:
        """`everybody`: the followers of all broadcasts of the process. This broadcast adds its own to them."""
        self._source = source
        self._wakeups = wakeups
        self._everybody = everybody
        self._followers: set[Follower] = set()
        self._frames: deque[Frame] = deque()
        self._first_number = 0
        """Number of the oldest frame in memory. Frames are numbered from 0."""
        self._floor: Position = START
        """Position after which all events are among the frames."""
        self._position: Position = START
        """Position up to which the source has been read."""
        self._bytes = 0
        """Total bytes of all frames since the reader was started."""
        self._batch_after: Position = START
        """Position at which the last batch began."""
        self._batch_number = 0
        """Number of the first frame of the last batch."""
        self._shared: dict[tuple[int, frozenset[str], int], tuple[Frames, int]] = {}
        """Results of `frames_from` for the last batch, kept while followers are notified."""
        self._reading: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    def __len__(self) -> int:
        return len(self._followers)

    async def newest(self) -> Position:
        """Return the position at which a follower can join now. Raises Refused, StoreUnavailable."""
        return self._position if self._reading else await self._source.newest()

    def join(self, after: Position, types: frozenset[str]) -> Follower | None:
        """Add a follower of the events after a position. Returns None if older events than those kept are needed."""
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
        """Remove a follower."""
        self._followers.discard(follower)
        self._everybody.discard(follower)
        if not self._followers and self._listener:
            self._listener.hear(b"")

    def end(self) -> None:
        """End all followers."""
        for follower in self._followers:
            follower.end()

    def frames_from(self, number: int, after: Position, types: frozenset[str], most: int) -> tuple[Frames, int]:
        """Return frames of these types from a number on and after the position `after`, and the number to go on from.

        The frames have at most `most` bytes together. If the first one is larger, it is the only one.
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
        """Return the position before the frame with a number, or the newest position if there is no such frame yet."""
        index = number - self._first_number
        if index >= len(self._frames):
            return self._position
        return self._frames[index - 1].position if index > 0 else self._floor

    def bytes_from(self, number: int) -> int:
        """Return the total bytes of the frames from a number on."""
        index = number - self._first_number
        return self._bytes - self._frames[index - 1].end if 0 < index <= len(self._frames) else self._bytes

    async def _run(self) -> None:
        """Read for the followers until the last one has left, or the source has ended."""
        try:
            with await self._wakeups.listen(self._source.channel) as self._listener:
                await self._read(self._listener)
        except (Refused, CursorTooOld):
            # The entity is gone, or this process was cut off for so long that its followers must start again.
            await self._let_catch_up(0)
        finally:
            self._listener = self._reading = None
            # A reader that is started later counts bytes from 0 again, but continues the numbers of the frames.
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
        """Add the events of a batch to those in memory, and return their total bytes."""
        # Done before adding: a batch stays whole, however large it is, until all who wait for it have it.
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
        """Drop the oldest events beyond KEPT_BYTES from memory."""
        while self._frames and self._bytes - self._frames[0].end >= KEPT_BYTES:
            self._floor = self._frames.popleft().position
            self._first_number += 1

    async def _notify(self, types: set[str], size: int, rest: float, *, is_seldom: bool) -> None:
        """Notify all followers, and rest for `rest` times as long as that takes.

        The rests are in between, or all at the end if `is_seldom`. `size`: bytes of the new events.
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
        """Wait until no follower is behind by more than `most` bytes, and drop those that are after CATCH_UP_SECONDS.

        Then drop events from memory that are no longer needed.
        """
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
        """`most`: maximum number of requests that may wait for an event in this process at a time."""
        self._wakeups = wakeups
        self._most = most
        self._followers: set[Follower] = set()
        """The followers of all broadcasts, in one set: every request that is about to wait needs their number."""
        self._by_topic: WeakValueDictionary[tuple[str, Hashable], Broadcast] = WeakValueDictionary()
        self.has_ended = False
        """Whether the process is about to stop."""

    def of(self, topic: str, shown: Hashable, source: EventSource) -> Broadcast:
        """Return the broadcast of a topic for clients with the same proof, so that nobody follows by another's proof.

        `topic` and `shown` are not concatenated: clients choose both, and could make one look like part of the other.
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
        """Return the number of followers by the first word of their topic."""
        counts: Counter[str] = Counter()
        for (topic, _), broadcast in list(self._by_topic.items()):
            counts[topic.partition(":")[0]] += len(broadcast)
        return counts

    def end(self) -> None:
        """End all followers, because the process is about to stop."""
        self.has_ended = True
        for broadcast in list(self._by_topic.values()):
            broadcast.end()
