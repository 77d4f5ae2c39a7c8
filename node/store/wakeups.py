"""Wake-ups: what a script publishes on a channel reaches everyone in this process who listens there.

Sharded pub/sub, so that a message stays with the slot of the key that changed, on one connection per
primary that all listeners of the process share. News is a hint, never the data: a lost message costs
its listener a delay until it looks by itself. Wherever one may have been lost, listeners get an
empty message, which says: look now.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias, cast

from hiredis import ReplyError

from node.store.address import Access, ServerAddress
from node.store.link import Link, ReconnectingLink, RedisReply, Stats, pack

QUEUE = 256  # messages kept for one listener; enough for the answers that one read from the socket can bring
BACKLOG = 512 * 1024  # bytes of them: twice what the largest message has, or one read can bring
UPKEEP = 1.0  # s between looks at what is not as it should be
LINGER = 5  # looks for which a channel without listeners stays subscribed: a poller comes back within that
HEARTBEAT = 5.0  # s of silence after which a server is asked whether it is there; twice that drops the link

Route: TypeAlias = Callable[[str], ServerAddress | None]
"""The server that publishes a channel; None while nobody knows."""


class Listener:
    """One party's ear on one channel. Use as a context manager."""

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._messages: deque[bytes] = deque()
        self.held = 0
        """Bytes that wait to be taken."""
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> "Listener":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.listeners.discard(self)

    async def next(self, timeout: float) -> bytes | None:
        """The next message; None after `timeout` seconds without; empty if some may have been lost.

        Of a backlog of more than 256 messages or 512 KiB the newest are kept, behind an empty one.
        """
        if not self._messages:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        return self._taken() if self._messages else None

    def forget(self) -> None:
        """Drop what has been heard so far: who looks now needs no hint to."""
        self._messages.clear()
        self.held = 0

    def hear(self, message: bytes) -> None:
        self._messages.append(message)
        self.held += len(message)
        if len(self._messages) > QUEUE or self.held > BACKLOG:
            while len(self._messages) >= QUEUE or self.held > BACKLOG:
                self._taken()
            self._messages.appendleft(b"")  # some are lost: who takes them for more than a hint has to know
        self._wake()

    def _taken(self) -> bytes:
        message = self._messages.popleft()
        self.held -= len(message)
        return message

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Channel:
    """A channel that this process wants to hear."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: set[Listener] = set()
        self.feed: ServerFeed | None = None
        self.subscribed = asyncio.Event()
        self.missed = False
        """Whether somebody listens already while nothing could be heard."""
        self.idle = 0
        """Looks of the upkeep that found no listener."""

    def hear(self, message: bytes) -> None:
        for listener in self.listeners:
            listener.hear(message)

    def confirm(self) -> None:
        """Messages arrive from now on."""
        self.subscribed.set()
        if self.missed:
            self.missed = False
            self.hear(b"")

    def interrupt(self) -> None:
        """Messages may be lost from now on."""
        self.subscribed.clear()
        self.missed = True


class ServerFeed(ReconnectingLink):
    """The subscriptions of this process at one server."""

    def __init__(
        self, server: ServerAddress, access: Access, timeout: float, stats: Stats, moved: Callable[[], None]
    ) -> None:
        self.channels: dict[bytes, Channel] = {}
        self._moved = moved
        super().__init__(server, access, timeout, stats)

    def add(self, channel: Channel) -> None:
        channel.feed = self
        self.channels[channel.name.encode()] = channel
        self._say("SSUBSCRIBE", channel.name)

    def remove(self, channel: Channel) -> None:
        channel.feed = None
        del self.channels[channel.name.encode()]
        self._say("SUNSUBSCRIBE", channel.name)

    def check(self) -> None:
        """Find out whether a server that says nothing is still there; ask again for what it has not granted."""
        if self._link is None:
            return
        silence = self._loop.time() - self._link.heard
        if silence > 2 * HEARTBEAT:
            self.drop()
        elif silence > HEARTBEAT:
            self._say("PING")
        for channel in self.channels.values():
            if not channel.subscribed.is_set():
                self._say("SSUBSCRIBE", channel.name)

    def linked(self, link: Link) -> None:
        link.deliver = self._deliver
        for channel in self.channels.values():
            self._say("SSUBSCRIBE", channel.name)

    def unlinked(self) -> None:
        for channel in self.channels.values():
            channel.interrupt()

    def _say(self, *command: str) -> None:
        if self._link:
            self._link.write(pack(command))

    def _deliver(self, reply: RedisReply | ReplyError) -> None:
        if isinstance(reply, ReplyError):
            self._moved()  # MOVED or CLUSTERDOWN: the upkeep asks again, where the map then says
        if not isinstance(reply, list) or len(reply) < 3:
            return
        kind, name, content = reply
        channel = self.channels.get(cast("bytes", name))
        if channel is None:
            return
        if kind == b"smessage":
            channel.hear(cast("bytes", content))
        elif kind == b"ssubscribe":
            channel.confirm()
        elif kind == b"sunsubscribe" and channel.subscribed.is_set():  # the slot has gone to another server
            channel.interrupt()
            self._moved()


class WakeUps:
    """All channels that this process listens on."""

    def __init__(
        self, route: Route, access: Access, timeout: float, stats: Stats, stale: Callable[[], None] = lambda: None
    ) -> None:
        self._route = route
        self._access = access
        self._timeout = timeout
        self._stats = stats
        self._stale = stale
        """Tells the owner of `route` that it has proved wrong."""
        self._channels: dict[str, Channel] = {}
        self._feeds: dict[ServerAddress, ServerFeed] = {}
        self._upkeep_task: asyncio.Task[None] | None = None

    async def listen(self, name: str) -> Listener:
        """Start to listen; on return, messages arrive.

        Never fails: if Redis does not answer in time the listener gets its empty message once it does.
        """
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(name)
            self._place(channel)
        if self._upkeep_task is None:
            self._upkeep_task = asyncio.get_running_loop().create_task(self._upkeep())
        listener = Listener(channel)
        channel.listeners.add(listener)  # before the wait: a channel that nobody listens on is forgotten
        if not channel.subscribed.is_set():
            try:
                await self._subscribed(channel)
            except asyncio.CancelledError:
                channel.listeners.discard(listener)
                raise
        return listener

    def reroute(self) -> None:
        """Listen to each channel at the server that publishes it now."""
        for channel in self._channels.values():
            self._place(channel)

    async def close(self) -> None:
        """Stop listening. Listeners hear nothing more."""
        if self._upkeep_task:
            self._upkeep_task.cancel()
            await asyncio.wait((self._upkeep_task,))
        for feed in self._feeds.values():
            await feed.close()

    async def _subscribed(self, channel: Channel) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await channel.subscribed.wait()
        except TimeoutError:
            channel.missed = True

    def _place(self, channel: Channel) -> None:
        server = self._route(channel.name)
        if server is None:
            return
        feed = self._feeds.get(server)
        if feed is None:
            feed = self._feeds[server] = ServerFeed(server, self._access, self._timeout, self._stats, self._stale)
            feed.on_change = self._stale
        if channel.feed is not feed:
            if channel.feed:
                channel.feed.remove(channel)
                channel.interrupt()
            feed.add(channel)

    async def _upkeep(self) -> None:
        """Let go of what nobody needs, and mend what a lost message or a moving slot has left behind."""
        while True:
            await asyncio.sleep(UPKEEP)
            for channel in list(self._channels.values()):
                channel.idle = 0 if channel.listeners else channel.idle + 1
                if channel.idle > LINGER:
                    self._forget(channel)
                elif channel.feed is None:
                    self._place(channel)
            for server, feed in list(self._feeds.items()):
                if feed.channels:
                    feed.check()
                else:
                    del self._feeds[server]
                    feed.let_go()

    def _forget(self, channel: Channel) -> None:
        del self._channels[channel.name]
        if channel.feed:
            channel.feed.remove(channel)
