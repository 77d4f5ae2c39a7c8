"""Wake-ups: what a script publishes on a channel reaches everybody in this process who listens there.

A read that waits for a change, and a worker that waits for events, listen on the channel that is named like the key
that will change. The script that changes it publishes there. This is sharded pub/sub (SSUBSCRIBE), so a message stays
within the slot of the key; all listeners of a process share one connection for each primary.

A wake-up is a hint, not the data: whoever hears one reads the key, so a lost message costs a delay and nothing more.
Only requests to a search worker, and answers to a waiting process (from search workers, on MCP streams), are carried in
the message itself. What holds:

- When `listen` returns, messages arrive. So whoever listens first and reads then misses no change.
- Wherever a message may have been lost (with a connection, a slot that moved, a full queue), the listener gets an empty
  message, which says: read now.
- Listening never fails. While Redis is out of reach a listener hears nothing, and gets its empty message afterwards.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

from hiredis import ReplyError

from node.store.address import Access, ServerAddress
from node.store.link import Link, ReconnectingLink, RedisReply, Stats, pack
from node.store.waiting import Waiters

MAX_MESSAGES = 256
"""Messages queued for one listener. One read of the socket brings no more answers than that."""

MAX_QUEUED_BYTES = 512 * 1024
"""Size of these messages: twice the largest one, and twice what one read of the socket brings."""

UPKEEP_SECONDS = 1.0
"""Time between two rounds of upkeep, which repairs subscriptions after a lost message or a moved slot."""

IDLE_ROUNDS = 5
"""Rounds of upkeep for which a channel without listeners stays subscribed: a polling client is back by then."""

PING_SECONDS = 5.0
"""A server silent for this long is pinged; after twice that the connection is dropped."""

Route: TypeAlias = Callable[[str], ServerAddress | None]
"""The server on which a channel is published; None while that is unknown."""


class Listener:
    """Hears one channel for one caller, from `WakeUps.listen` until it is left as a context manager."""

    def __init__(self, channel: "Channel", prefix: bytes) -> None:
        """`prefix`: it hears only messages that begin with it."""
        self._channel = channel
        self._prefix = prefix
        self._messages: deque[bytes] = deque()
        self.queued_bytes = 0
        """Size of the messages that were heard and not taken yet."""
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.listeners.discard(self)

    async def next(self, timeout: float) -> bytes | None:
        """The next message; None if there was none for `timeout` seconds; empty if some may have been lost.

        If more are queued than MAX_MESSAGES or MAX_QUEUED_BYTES, the oldest are dropped and an empty one put first.
        """
        await self.wait(timeout)
        return self._take() if self._messages else None

    async def wait(self, timeout: float) -> None:
        """Return when there is a message, or after `timeout` seconds."""
        if not self._messages:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None

    def forget(self) -> None:
        """Drop what was heard so far, for a caller that is about to read anyway."""
        self._messages.clear()
        self.queued_bytes = 0

    def heard(self) -> list[bytes]:
        """Take all queued messages, without waiting for more."""
        messages = list(self._messages)
        self.forget()
        return messages

    def hear(self, message: bytes) -> None:
        """Queue a message, and end a wait for it."""
        if message and not message.startswith(self._prefix):
            return
        self._messages.append(message)
        self.queued_bytes += len(message)
        if len(self._messages) > MAX_MESSAGES or self.queued_bytes > MAX_QUEUED_BYTES:
            while len(self._messages) >= MAX_MESSAGES or self.queued_bytes > MAX_QUEUED_BYTES:
                self._take()
            self._messages.appendleft(b"")  # says that some are lost
        self._wake()

    def _take(self) -> bytes:
        message = self._messages.popleft()
        self.queued_bytes -= len(message)
        return message

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Channel:
    """A channel that somebody in this process listens on, or did a moment ago."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: set[Listener] = set()
        self.feed: ServerFeed | None = None
        """Where it is subscribed; None while its server is unknown."""
        self.subscribed = asyncio.Event()
        """Set while the server has confirmed the subscription."""
        self.may_have_missed = False
        """Whether somebody listened while no message could arrive."""
        self.idle_rounds = 0
        """Consecutive rounds of upkeep that found no listener."""

    def hear(self, message: bytes) -> None:
        for listener in self.listeners:
            listener.hear(message)

    def confirm(self) -> None:
        """The server has confirmed: messages arrive from now on."""
        self.subscribed.set()
        if self.may_have_missed:
            self.may_have_missed = False
            self.hear(b"")

    def interrupt(self) -> None:
        """The subscription has ended: messages may be lost from now on."""
        self.subscribed.clear()
        self.may_have_missed = True


class ServerFeed(ReconnectingLink):
    """The subscriptions of this process at one server, on a connection of their own."""

    USE = "wake-ups"

    def __init__(self, server: ServerAddress, access: Access, timeout: float, stats: Stats) -> None:
        self.channels: dict[bytes, Channel] = {}
        self._pinged_at = 0.0
        """Loop time of the last PING."""
        self._unanswered = 0
        """PINGs since something was heard."""
        super().__init__(server, access, timeout, stats)

    def add(self, channel: Channel) -> None:
        channel.feed = self
        self.channels[channel.name.encode()] = channel
        self._send("SSUBSCRIBE", channel.name)

    def remove(self, channel: Channel) -> None:
        channel.feed = None
        del self.channels[channel.name.encode()]
        self._send("SUNSUBSCRIBE", channel.name)

    def check(self) -> None:
        """Find out whether a silent server is still there, and subscribe again to what it has not confirmed."""
        if self._link is None:
            return
        now = self._loop.time()
        silence = now - self._link.heard_at
        if self._link.heard_at >= self._pinged_at:
            self._unanswered = 0
        # A process that was held up has sent one PING at most, and not read what came meanwhile: it asks once more.
        if silence > 2 * PING_SECONDS and self._unanswered > 1:
            self.drop(f"silent for {silence:.1f} s")
        elif silence > PING_SECONDS:
            self._pinged_at = now
            self._unanswered += 1
            self._send("PING")
        for channel in self.channels.values():
            if not channel.subscribed.is_set():
                self._send("SSUBSCRIBE", channel.name)

    def linked(self, link: Link) -> None:
        link.deliver = self._deliver
        for channel in self.channels.values():
            self._send("SSUBSCRIBE", channel.name)

    def unlinked(self) -> None:
        for channel in self.channels.values():
            channel.interrupt()

    def _send(self, *command: str) -> None:
        if self._link:
            self._link.write(pack(command))

    def _deliver(self, reply: RedisReply | ReplyError) -> None:
        if isinstance(reply, ReplyError):
            self.on_change()  # MOVED or CLUSTERDOWN; the upkeep subscribes again, where the map of slots then says
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
        elif kind == b"sunsubscribe" and channel.subscribed.is_set():  # by the server: the slot has moved away
            channel.interrupt()
            self.on_change()


class WakeUps:
    """All channels that this process listens on. One for each store (`Store.wakeups`)."""

    def __init__(
        self, route: Route, access: Access, timeout: float, stats: Stats, on_stale: Callable[[], None] = lambda: None
    ) -> None:
        """`timeout`, in seconds, bounds a subscription. `on_stale` is called when `route` has proved wrong."""
        self._route = route
        self._access = access
        self._timeout = timeout
        self._stats = stats
        self._on_stale = on_stale
        self.waiters = Waiters()
        """The listeners of waiting clients (`long_poll`)."""
        self._channels: dict[str, Channel] = {}
        self._feeds: dict[ServerAddress, ServerFeed] = {}
        self._upkeep_task: asyncio.Task[None] | None = None

    async def listen(self, name: str, prefix: bytes = b"") -> Listener:
        """Start to listen to what begins with `prefix`. When this returns, messages arrive.

        It never fails: if Redis does not confirm in time, the listener gets an empty message once it has.
        """
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(name)
            self._subscribe(channel)
        if self._upkeep_task is None:
            self._upkeep_task = asyncio.get_running_loop().create_task(self._upkeep())
        listener = Listener(channel, prefix)
        channel.listeners.add(listener)  # before the wait, since the upkeep forgets channels without listeners
        if not channel.subscribed.is_set():
            try:
                await self._subscribed(channel)
            except asyncio.CancelledError:
                channel.listeners.discard(listener)
                raise
        return listener

    def reroute(self) -> None:
        """Move each subscription to where its channel is published now: the map of slots has changed."""
        for channel in self._channels.values():
            self._subscribe(channel)

    async def close(self) -> None:
        """Drop all connections. Listeners hear nothing more."""
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
            channel.may_have_missed = True

    def _subscribe(self, channel: Channel) -> None:
        server = self._route(channel.name)
        if server is None:
            return
        feed = self._feeds.get(server)
        if feed is None:
            feed = self._feeds[server] = ServerFeed(server, self._access, self._timeout, self._stats)
            feed.on_change = self._on_stale
        if channel.feed is not feed:
            if channel.feed:
                channel.feed.remove(channel)
                channel.interrupt()
            feed.add(channel)

    async def _upkeep(self) -> None:
        """Drop channels and connections that nobody needs, and subscribe again where that is needed."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            for channel in list(self._channels.values()):
                channel.idle_rounds = 0 if channel.listeners else channel.idle_rounds + 1
                if channel.idle_rounds > IDLE_ROUNDS:
                    self._forget(channel)
                elif channel.feed is None:
                    self._subscribe(channel)
            for server, feed in list(self._feeds.items()):
                if feed.channels:
                    feed.check()
                else:
                    del self._feeds[server]
                    feed.end()

    def _forget(self, channel: Channel) -> None:
        del self._channels[channel.name]
        if channel.feed:
            channel.feed.remove(channel)
