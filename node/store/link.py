"""A TCP or unix socket connection to one Redis server, and the loop that reconnects whenever it is lost.

`Link` is one connection, from when it is made to when it is lost. It writes bytes and delivers replies in order, errors
as values. The two subclasses of `ReconnectingLink` decide to whom a reply belongs and what to do after a loss:
`connection.Connection` for calls, `wakeups.ServerFeed` for subscriptions.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from random import uniform
from typing import ClassVar, TypeAlias, cast
from zlib import crc32

import msgspec
import structlog
from hiredis import ProtocolError, Reader, ReplyError
from hiredis import pack_command as hiredis_pack  # pyright: ignore[reportUnknownVariableType]

from node.store.address import Access, ServerAddress
from node.store.decoding import facts_of
from node.store.scripts import Arg

log = structlog.get_logger()

RedisReply: TypeAlias = bytes | int | float | list["RedisReply"] | None
"""A reply of Redis. Text is bytes; a list may contain errors (`ReplyError` as a value)."""

pack = cast("Callable[[tuple[Arg, ...]], bytes]", hiredis_pack)

FIRST_RETRY_SECONDS = 0.02
"""Backoff after the first failure to connect, doubled with each further one; short, to notice a restart soon."""

MAX_RETRY_SECONDS = 0.5
"""Longest backoff; service is back within a second of the server's return."""

STEADY_SECONDS = 1.0
"""A link that is lost sooner than this counts as a failure to connect."""

WRITE_BUFFER_BYTES = 256 * 1024
"""High-water mark of the write buffer. Beyond it nothing is written until the socket has caught up."""


class NotReady(Exception):
    """The server answers but cannot be used: it is loading its data, refuses the credentials, or is a replica."""


class Stats(msgspec.Struct):
    """Counters of one store, for the metrics."""

    in_flight: int = 0
    """Calls given to a connection and not answered yet, including those of cancelled callers."""
    calls: int = 0
    batches: int = 0
    """EVALSHA commands that carried more than one call."""
    reconnects: int = 0


class Link(asyncio.Protocol):
    """One connection to one server. Its owner sets `deliver`, `on_lost` and `on_writable`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = Reader(notEnoughData=...)
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is lost for any reason."""
        self.deliver: Callable[[RedisReply | ReplyError], None] = self._discard
        """Called with each reply."""
        self.on_lost: Callable[[], None] = lambda: None
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        """False while more is buffered than WRITE_BUFFER_BYTES."""
        self.heard_at = self._loop.time()
        """Loop time at which bytes were last received."""
        self.failure: Exception | None = None
        """The exception that ended the link; None if either side closed it in an orderly way."""
        self.server_id = 0
        """32-bit id of the server's process (`Store.server_id`); 0 if unknown."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self.failure = exc
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
        self.heard_at = self._loop.time()
        self._reader.feed(data)
        gets = self._reader.gets
        try:
            while (reply := gets()) is not ...:
                self.deliver(reply)
        except ProtocolError as error:
            self.abort(error)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self, why: Exception | None = None) -> None:
        """Drop the link now, without reading what the server still sends."""
        self._transport.abort()
        self.connection_lost(why)

    async def ask(self, *commands: tuple[Arg, ...]) -> list[RedisReply | ReplyError]:
        """Return the replies to `commands`, on a link that nobody else uses yet. Raises ConnectionError."""
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
    """Return the reply to one command, sent on a connection of its own. Raises OSError and NotReady."""
    async with _answer_within(timeout):
        link = await dial(server, access, timeout)
        try:
            (answer,) = await link.ask(command)
        finally:
            link.abort()
    return answer


async def dial(server: ServerAddress, access: Access, timeout: float) -> Link:
    """Connect and log in to a server that is ready to serve. Raises OSError (TimeoutError is one) and NotReady."""
    loop = asyncio.get_running_loop()
    async with _answer_within(timeout):
        if server.path:
            _, link = await loop.create_unix_connection(Link, server.path)
        else:
            _, link = await loop.create_connection(Link, server.host, server.port, ssl=access.tls)
        with ExitStack() as undo:
            undo.callback(link.abort)
            for error in await link.ask(*_introduction(access)):
                if isinstance(error, ReplyError):
                    raise NotReady(str(error).partition(", with args")[0])  # those include the password
            facts: dict[str, str] = {}
            for info in await link.ask(("INFO", "server"), ("INFO", "replication")):
                facts |= facts_of(info) if isinstance(info, bytes) else {}  # a user need not have the right to INFO
            if access.writes and facts.get("role") == "slave":
                primary = f"{facts['master_host']}:{facts['master_port']}"
                raise NotReady(f"it is a replica of {primary}, which takes no writes")
            if not server.path:
                link.server_id = crc32(facts.get("run_id", "").encode())  # the server makes a new id at each start
            undo.pop_all()
    return link


@asynccontextmanager
async def _answer_within(seconds: float) -> AsyncGenerator[None]:
    """Raise TimeoutError if the block takes longer. This error has a text to show; asyncio's own has none."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as late:
        if str(late):
            raise
        raise TimeoutError(f"no answer within {seconds:g} s") from None


def _introduction(access: Access) -> list[tuple[Arg, ...]]:
    select = ("SELECT", access.database) if access.database else ()
    return [command for command in (access.login, select, ("PING",)) if command]


class ReconnectingLink(ABC):
    """Keeps one link to a server. Reconnects whenever the link is lost, with exponential backoff between attempts.

    Calls `linked` and `unlinked` of the subclass.
    """

    USE: ClassVar[str]
    """What the link carries, for the log."""

    def __init__(self, server: ServerAddress, access: Access, timeout: float, stats: Stats) -> None:
        self.server = server
        self.timeout = timeout
        self.trouble = f"connecting to Redis at {server}"
        """Why calls cannot be sent, for error messages."""
        self.on_change: Callable[[], None] = lambda: None
        """Called whenever the link was lost or could not be made, or a channel turned out to be on another server."""
        self._access = access
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._down_since = self._loop.time()
        self.tried = asyncio.Event()
        """Set once the first attempt to connect has succeeded or failed."""
        self._logged = ""
        """The last logged reason why the server was out of reach; empty once connected."""
        self._task = self._loop.create_task(self._keep_linked())

    @property
    def connected(self) -> bool:
        return self._link is not None

    def drop(self, why: str) -> None:
        """Drop the present link and reconnect. The reason `why` is logged."""
        if self._link:
            self._link.abort(ConnectionAbortedError(why))

    def end(self) -> None:
        """Drop the link for good."""
        self._task.cancel()
        self.drop("no longer needed")

    async def close(self) -> None:
        """Drop the link for good, and wait until its task has ended."""
        self.end()
        await asyncio.wait((self._task,))

    async def _keep_linked(self) -> None:
        failures = 0
        while True:
            try:
                link = await dial(self.server, self._access, self.timeout)
            except (OSError, UnicodeError, NotReady) as error:  # UnicodeError: not a possible host name
                reason = str(error) or type(error).__name__
                self.trouble = f"Redis at {self.server} is out of reach: {reason}"
                self._log_once(reason)
                self.on_change()
            else:
                since = self._loop.time()
                self._adopt(link)
                await asyncio.wait((link.lost,))
                self._stats.reconnects += 1
                if self._loop.time() - since > STEADY_SECONDS:
                    failures = 0
            self.tried.set()
            pause = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures, 10))
            await asyncio.sleep(pause * uniform(0.5, 1))
            failures += 1

    def _log_once(self, reason: str) -> None:
        """Log a reason once, not at every attempt, and log again when it changes, such as to "loading its data"."""
        if reason != self._logged:
            self._logged = reason
            log.warning("redis out of reach", server=str(self.server), reason=reason)

    def _adopt(self, link: Link) -> None:
        self._logged = ""
        log.info("redis connected", server=str(self.server), use=self.USE)
        self._link = link
        self.trouble = f"Redis at {self.server} does not take what it is sent"
        link.on_lost = partial(self._lose, link)
        self.tried.set()
        self.linked(link)

    def _lose(self, link: Link) -> None:
        self._link = None
        if not self._task.cancelling():
            log.warning("redis connection lost", server=str(self.server), reason=str(link.failure or "closed"))
        self._down_since = self._loop.time()
        reason = f": {link.failure}" if link.failure else ""
        self.trouble = f"the connection to Redis at {self.server} was lost{reason}"
        self.unlinked()
        self.on_change()

    @abstractmethod
    def linked(self, link: Link) -> None:
        """Handle a new link: send what is waiting."""

    @abstractmethod
    def unlinked(self) -> None:
        """Handle the loss of the link: nothing sent on it will get a reply any more."""
