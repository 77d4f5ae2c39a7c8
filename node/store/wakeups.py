"""Wake-ups: a message that a script publishes on a channel reaches all listeners of that channel in this process.

A read that waits for a change, or a worker that waits for events, listens on the channel that has the name of the key.
The script that changes the key publishes there. This is sharded pub/sub (SSUBSCRIBE), so a message stays within the
slot of the key. All listeners of a process share one connection to each primary.

A wake-up is a hint, not the data: the listener then reads the key, so a lost message costs only a delay. The exceptions
are requests to a search worker, and answers to a waiting process (from search workers, on MCP streams): these are
carried in the message itself. Invariants:

- When `listen` returns, messages arrive. So a caller that listens first and then reads misses no change.
- If a message may have been lost (with a connection, a moved slot, a full queue), the listener gets an empty message,
  which means: read now.
- Listening never fails. While Redis is out of reach, a listener hears nothing; afterwards it gets an empty message.
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
"""Most messages queued for one listener. One read of the socket brings no more answers than that."""

MAX_QUEUED_BYTES = 512 * 1024
"""Most bytes queued for one listener: twice the largest message, and twice what one read of the socket brings."""

UPKEEP_SECONDS = 1.0
"""Time between two rounds of upkeep, which repairs subscriptions after a lost message or a moved slot."""

IDLE_ROUNDS = 5
"""Rounds of upkeep for which a channel without listeners stays subscribed; a polling client returns within them."""

PING_SECONDS = 5.0
"""A server that is silent for this long is pinged; after twice this long the connection is dropped."""

Prefix: TypeAlias = bytes | tuple[bytes, ...]
"""How messages begin: with this, or with one of these."""

Route: TypeAlias = Callable[[str], ServerAddress | None]
"""Returns the server on which a channel is published; None while it is unknown."""


class Listener:
    """One caller's subscription to channels, from `WakeUps.listen` until the caller leaves its `with` block."""

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self._messages: deque[bytes] = deque()
        self.queued_bytes = 0
        """Total size of the queued messages."""
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        for channel in self.channels:
            channel.listeners.pop(self, None)

    async def next(self, timeout: float) -> bytes | None:
        """Return the next message; None if none came within `timeout` seconds; empty if messages may have been lost.

        If MAX_MESSAGES or MAX_QUEUED_BYTES is exceeded, the oldest messages are replaced by one empty message.
        """
        await self.wait(timeout)
        return self._take() if self._messages else None

    async def wait(self, timeout: float) -> None:
        """Wait until there is a message, at most `timeout` seconds."""
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
        """Drop all queued messages, for a caller that is about to read anyway."""
        self._messages.clear()
        self.queued_bytes = 0

    def heard(self) -> list[bytes]:
        """Take all queued messages, without waiting for more."""
        messages = list(self._messages)
        self.forget()
        return messages

    def hear(self, message: bytes) -> None:
        """Queue a message, and wake the caller that waits for it."""
        self._messages.append(message)
        self.queued_bytes += len(message)
        if len(self._messages) > MAX_MESSAGES or self.queued_bytes > MAX_QUEUED_BYTES:
            while len(self._messages) >= MAX_MESSAGES or self.queued_bytes > MAX_QUEUED_BYTES:
                self._take()
            self._messages.appendleft(b"")  # means that messages were lost
        self._wake()

    def _take(self) -> bytes:
        message = self._messages.popleft()
        self.queued_bytes -= len(message)
        return message

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Channel:
    """A channel that has listeners in this process, or had some a moment ago."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: dict[Listener, Prefix] = {}
        """The listeners, and how the messages that each of them wants begin."""
        self.feed: ServerFeed | None = None
        """The ServerFeed that subscribes to it; None while its server is unknown."""
        self.subscribed = asyncio.Event()
        """Set while the server has confirmed the subscription."""
        self.may_have_missed = False
        """Whether there were listeners while no message could arrive."""
        self.idle_rounds = 0
        """Consecutive rounds of upkeep that found no listener."""

    def hear(self, message: bytes) -> None:
        for listener, prefix in self.listeners.items():
            if not message or message.startswith(prefix):
                listener.hear(message)

    def confirm(self) -> None:
        """Note that the server has confirmed the subscription: messages arrive from now on."""
        self.subscribed.set()
        if self.may_have_missed:
            self.may_have_missed = False
            self.hear(b"")

    def interrupt(self) -> None:
        """Note that the subscription has ended: messages may be lost from now on."""
        self.subscribed.clear()
        self.may_have_missed = True


class ServerFeed(ReconnectingLink):
    """The subscriptions of this process at one server, on a dedicated connection."""

    USE = "wake-ups"

    def __init__(self, server: ServerAddress, access: Access, timeout: float, stats: Stats) -> None:
        self.channels: dict[bytes, Channel] = {}
        self._pinged_at = 0.0
        """Loop time of the last PING."""
        self._unanswered = 0
        """PINGs sent since bytes were last received."""
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
        """Ping a silent server or drop the link to it, and repeat the subscriptions that it has not confirmed."""
        if self._link is None:
            return
        now = self._loop.time()
        silence = now - self._link.heard_at
        if self._link.heard_at >= self._pinged_at:
            self._unanswered = 0
        # A process that was blocked has sent one PING at most and not read the answer yet, so one more PING is sent.
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
            self.on_change()  # MOVED or CLUSTERDOWN; the upkeep subscribes again by the new map of slots
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
        """`timeout`: longest wait for a subscription, in seconds. `on_stale` is called if `route` was wrong."""
        self._route = route
        self._access = access
        self._timeout = timeout
        self._stats = stats
        self._on_stale = on_stale
        self.waiters = Waiters()
        """The listeners that wait on behalf of clients (`long_poll`)."""
        self._channels: dict[str, Channel] = {}
        self._feeds: dict[ServerAddress, ServerFeed] = {}
        self._upkeep_task: asyncio.Task[None] | None = None

    async def listen(self, name: str, prefix: Prefix = b"", listener: Listener | None = None) -> Listener:
        """Listen to the messages of a channel that begin with `prefix`. When this returns, messages arrive.

        `listener`: one that listens to other channels and shall hear this one as well. Never fails: if Redis does not
        confirm the subscription in time, the listener gets an empty message once it has.
        """
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(name)
            self._subscribe(channel)
        if self._upkeep_task is None:
            self._upkeep_task = asyncio.get_running_loop().create_task(self._upkeep())
        listener = listener or Listener()
        listener.channels.append(channel)
        channel.listeners[listener] = prefix  # before the wait, since the upkeep forgets channels without listeners
        if not channel.subscribed.is_set():
            try:
                await self._subscribed(channel)
            except asyncio.CancelledError:
                channel.listeners.pop(listener)
                raise
        return listener

    def reroute(self) -> None:
        """Move each subscription to the server that has its channel now, after a change of the map of slots."""
        for channel in self._channels.values():
            self._subscribe(channel)

    async def close(self) -> None:
        """Drop all connections. Listeners get no more messages."""
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
        """Once a round, drop unused channels and connections, and repair subscriptions."""
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
