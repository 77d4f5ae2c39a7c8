"""One live link to a Redis server, from dialled to lost, and the loop that keeps there being one.

A link moves bytes: it writes what it is given and delivers replies in the order they come, errors as
values. Who asked for them, and what to do when the link is lost, is the affair of its `ReconnectingLink`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import uniform
from typing import TypeAlias, cast

import msgspec
import structlog
from hiredis import ProtocolError, Reader, ReplyError
from hiredis import pack_command as hiredis_pack  # pyright: ignore[reportUnknownVariableType]

from node.store.address import Access, ServerAddress
from node.store.scripts import Arg

log = structlog.get_logger()

RedisReply: TypeAlias = bytes | int | float | list["RedisReply"] | None
"""What Redis answers. Text is bytes; a list may hold errors of its own (`ReplyError` as a value)."""

pack = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis_pack)

FIRST_RETRY = 0.02  # s; a restarted server is met soon, without hammering one that is gone
LAST_RETRY = 0.5  # s; so that service is back within a second of the server's return
STEADY = 1.0  # s; a link that lived shorter counts as one more failed try
SWALLOW = 256 * 1024  # bytes written ahead of the socket before writing pauses


class NotReady(Exception):
    """The server was reached but does not serve: it loads its data, or refuses our credentials."""


class Stats(msgspec.Struct):
    """Running figures of one store, for the metrics page."""

    in_flight: int = 0
    """Calls handed to a connection and not yet answered, cancelled callers included."""
    calls: int = 0
    batches: int = 0
    """EVALSHA that carried more than one call."""
    reconnects: int = 0


class Link(asyncio.Protocol):
    """One connection to one server."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(notEnoughData=...)
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.deliver: Callable[[RedisReply | ReplyError], None] = self._discard
        self.on_lost: Callable[[], None] = lambda: None
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        self.heard = self._loop.time()
        """When bytes last came, in loop time."""
        self.end: Exception | None = None
        """What ended the link, if it was not us or a plain farewell."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=SWALLOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end = exc
        self.writable = False
        self.deliver = self._discard
        if not self.lost.done():
            self.lost.set_result(None)
            self.on_lost()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        self.heard = self._loop.time()
        self._reader.feed(data)
        gets = self._reader.gets
        try:
            while (reply := gets()) is not ...:
                self.deliver(reply)
        except ProtocolError:
            self.abort()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        """Drop the link now. Whatever the server still says is not read."""
        self._transport.abort()
        self.connection_lost(None)

    async def ask(self, *commands: tuple[Arg, ...]) -> list[RedisReply | ReplyError]:
        """Answers to `commands`, on a link that nobody else uses yet. Raises ConnectionError."""
        replies: list[RedisReply | ReplyError] = []
        answered: asyncio.Future[None] = self._loop.create_future()

        def collect(reply: RedisReply | ReplyError) -> None:
            replies.append(reply)
            if len(replies) == len(commands) and not answered.done():
                answered.set_result(None)

        self.deliver = collect
        self.write(b"".join(map(pack, commands)))
        await asyncio.wait((answered, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if self.lost.done():
            raise ConnectionError("closed by the server")
        return replies

    def _discard(self, reply: RedisReply | ReplyError) -> None:
        pass


async def consult(server: ServerAddress, access: Access, timeout: float, *command: Arg) -> RedisReply | ReplyError:
    """One answer from a server, on a connection of its own. Raises OSError and NotReady."""
    async with asyncio.timeout(timeout):
        link = await dial(server, access, timeout)
        try:
            (answer,) = await link.ask(command)
        finally:
            link.abort()
    return answer


async def dial(server: ServerAddress, access: Access, timeout: float) -> Link:
    """A link on which the server is ready to serve. Raises OSError (TimeoutError is one) and NotReady."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout):
        if server.path:
            _, link = await loop.create_unix_connection(Link, server.path)
        else:
            _, link = await loop.create_connection(Link, server.host, server.port, ssl=access.tls)
        with ExitStack() as undo:
            undo.callback(link.abort)
            for error in await link.ask(*_introduction(access)):
                if isinstance(error, ReplyError):
                    raise NotReady(str(error))
            undo.pop_all()
    return link


def _introduction(access: Access) -> list[tuple[Arg, ...]]:
    commands: list[tuple[Arg, ...]] = []
    if access.password:
        commands.append(("AUTH", access.user, access.password) if access.user else ("AUTH", access.password))
    if access.database:
        commands.append(("SELECT", access.database))
    return [*commands, ("PING",)]


class ReconnectingLink(ABC):
    """Keeps a link to one server: dials it again, with growing pauses, whenever it is lost."""

    def __init__(self, server: ServerAddress, access: Access, timeout: float, stats: Stats) -> None:
        self.server = server
        self.timeout = timeout
        self.trouble = f"connecting to Redis at {server}"
        """Why there is no link."""
        self.on_change: Callable[[], None] = lambda: None
        """Told whenever a link is lost or could not be made."""
        self._access = access
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._down_since = self._loop.time()
        self._tried = asyncio.Event()
        self._task = self._loop.create_task(self._live())

    @property
    def connected(self) -> bool:
        return self._link is not None

    async def tried(self) -> None:
        """Return once the first attempt to connect has ended, either way."""
        await self._tried.wait()

    def drop(self) -> None:
        """Give the present link up; another one is made."""
        if self._link:
            self._link.abort()

    def let_go(self) -> None:
        """Give the link up for good."""
        self._task.cancel()
        self.drop()

    async def close(self) -> None:
        """Give the link up for good, and return when nothing of it runs any more."""
        self.let_go()
        await asyncio.wait((self._task,))

    async def _live(self) -> None:
        failures = 0
        while True:
            try:
                link = await dial(self.server, self._access, self.timeout)
            except (OSError, UnicodeError, NotReady) as error:  # UnicodeError: a host name that cannot be one
                self.trouble = f"Redis at {self.server} is out of reach: {error or type(error).__name__}"
                if failures == 0:
                    log.warning("redis out of reach", server=str(self.server), reason=str(error))
                self.on_change()
            else:
                since = self._loop.time()
                self._begin(link)
                await asyncio.wait((link.lost,))
                self._stats.reconnects += 1
                if self._loop.time() - since > STEADY:
                    failures = 0
            self._tried.set()
            await asyncio.sleep(min(LAST_RETRY, FIRST_RETRY * 2 ** min(failures, 10)) * uniform(0.5, 1))
            failures += 1

    def _begin(self, link: Link) -> None:
        log.info("redis connected", server=str(self.server), use=type(self).__name__.lower())
        self._link = link
        link.on_lost = partial(self._end, link)
        self._tried.set()
        self.linked(link)

    def _end(self, link: Link) -> None:
        self._link = None
        if not self._task.cancelling():
            log.warning("redis connection lost", server=str(self.server), reason=str(link.end or "closed"))
        self._down_since = self._loop.time()
        self.trouble = f"the connection to Redis at {self.server} was lost" + (f": {link.end}" if link.end else "")
        self.unlinked()
        self.on_change()

    @abstractmethod
    def linked(self, link: Link) -> None:
        """There is a link now."""

    @abstractmethod
    def unlinked(self) -> None:
        """The link is gone."""
