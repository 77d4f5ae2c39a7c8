"""A Redis Cluster: each call goes to the primary of its key's slot, and follows the slot when that moves.

The map of slots is learnt from any member and read anew whenever something contradicts it: a
redirection, a lost connection, a part without a primary. Callers notice a moving slot as a delay. A
primary that dies costs them `OutcomeUnknown` for what was under way and `StoreUnavailable` until a
replica has taken over.
"""

import asyncio
from random import sample, uniform

from hiredis import ReplyError

from node.store.address import Location, ServerAddress
from node.store.connection import Call, Connection
from node.store.errors import StoreUnavailable
from node.store.link import NotReady, RedisReply, consult
from node.store.scripts import Arg
from node.store.slots import SLOTS, read_map, read_redirect, slot_of
from node.store.wakeups import WakeUps
from node.store.wire import Store, error_code, meaning, replies

REREAD = 0.2  # s between two readings of the map, so that trouble does not become a flood
ANSWER = 0.5  # s for one member to tell the map, before another is asked
PROMPT = 3  # redirections followed without a pause: a slot that has moved costs one or two
ATTEMPTS = 20  # of one call, whatever the reasons; its deadline usually comes first
FIRST_PAUSE = 0.005  # s; doubled with each attempt
LONGEST_PAUSE = 0.1  # s

UNSETTLED = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})
"""Answers that a cluster gives while it rearranges itself; the command has not begun."""


class ClusterStore(Store):
    """Many servers, each holding a part of the slots."""

    def __init__(self, location: Location, *, timeout: float, max_in_flight: int) -> None:
        super().__init__(timeout, max_in_flight)
        self._seeds = location.servers
        self._access = location.access
        self._primaries: dict[ServerAddress, Connection] = {}
        self._map: list[Connection | None] = [None] * SLOTS
        self._stale = asyncio.Event()
        self._read_once = asyncio.Event()
        self._task = self._loop.create_task(self._keep_map())
        self.wakeups = WakeUps(self._publisher, self._access, timeout, self.stats, self._stale.set)
        self._stale.set()

    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        if not self._primaries:
            raise StoreUnavailable("no member of the Redis cluster could be reached")
        calls = [self._call(None, (), args, 0) for _ in self._primaries]
        under_way = [link.submit(call) for link, call in zip(self._primaries.values(), calls, strict=True)]
        return replies(await asyncio.gather(*under_way), calls[0])

    async def slot_map(self) -> list[tuple[range, ServerAddress]]:
        """The map as the first member tells it that answers; empty if none does."""
        connected = [server for server, connection in self._primaries.items() if connection.connected]
        known = [*connected, *(server for server in self._seeds if server not in connected)]
        for server in [*sample(connected, len(connected)), *known[len(connected) :]]:
            try:
                reply = await consult(server, self._access, ANSWER, "CLUSTER", "SLOTS")
            except (OSError, UnicodeError, NotReady):
                continue
            if not isinstance(reply, ReplyError):
                return read_map(reply, server)
        return []

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        await self.wakeups.close()
        for connection in self._primaries.values():
            await connection.close()

    async def ready(self) -> bool:
        await self._read_once.wait()
        for connection in list(self._primaries.values()):
            await connection.tried()
        return self._whole()

    @property
    def connected(self) -> bool:
        return any(connection.connected for connection in self._primaries.values())

    def _route(self, key: Arg) -> tuple[int, Connection]:
        slot = slot_of(key)
        connection = self._map[slot]
        if connection is None:
            self._stale.set()
            raise StoreUnavailable("no primary is known for a part of the Redis cluster")
        return slot, connection

    async def _again(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        attempt = 0
        while True:
            call, connection = await self._next(call, outcome, connection, attempt)
            answer = await connection.submit(call)
            if not isinstance(answer, Exception):
                return answer
            outcome = answer
            attempt += 1

    async def _next(self, call: Call, outcome: Exception, asked: Connection, attempt: int) -> tuple[Call, Connection]:
        """The next attempt and where to make it; raises what the outcome means if there is none."""
        code = error_code(outcome)
        if attempt >= ATTEMPTS:
            raise meaning(outcome, call)
        if code == "NOSCRIPT" and call.script:
            failure = await asked.load(call.script, call.deadline)
            if isinstance(failure, Exception):
                raise meaning(failure, call)
            return self._anew(call, alone=call.alone, asking=call.asking), asked
        if code == "ASK":
            _, server = read_redirect(str(outcome), asked.server)
            return self._anew(call, alone=True, asking=True), self._connection_to(server)
        self._stale.set()
        if code == "MOVED":
            slot, server = read_redirect(str(outcome), asked.server)
            self._map[slot] = connection = self._connection_to(server)
            if attempt >= PROMPT:
                await self._pause(call, outcome, attempt)
            return self._anew(call, slot=slot), connection
        if code in UNSETTLED:
            await self._pause(call, outcome, attempt)
            return self._anew(call, alone=code == "TRYAGAIN"), self._map[call.slot] or asked
        connection = self._map[call.slot]
        if type(outcome) is StoreUnavailable and connection and connection is not asked:
            return self._anew(call), connection
        raise meaning(outcome, call)

    async def _pause(self, call: Call, outcome: Exception, attempt: int) -> None:
        """Give the cluster a moment, unless the call has none left. A call that waits still counts as under way."""
        delay = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * uniform(0.5, 1)
        if self._loop.time() + delay >= call.deadline:
            raise meaning(outcome, call)
        self.stats.in_flight += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.stats.in_flight -= 1

    def _publisher(self, channel: str) -> ServerAddress | None:
        connection = self._map[slot_of(channel)]
        return connection.server if connection else None

    def _connection_to(self, server: ServerAddress) -> Connection:
        connection = self._primaries.get(server)
        if connection is None:
            connection = self._primaries[server] = Connection(server, self._access, self.timeout, self.stats)
            connection.on_change = self._stale.set
        return connection

    def _whole(self) -> bool:
        """Whether every slot has a primary and every primary a connection."""
        return None not in self._map and all(connection.connected for connection in self._primaries.values())

    async def _keep_map(self) -> None:
        """Read the map whenever it has proved wrong, and until it is whole."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            self._adopt(await self.slot_map())
            self._read_once.set()
            await asyncio.sleep(REREAD)
            if not self._whole():
                self._stale.set()

    def _adopt(self, ranges: list[tuple[range, ServerAddress]]) -> None:
        """Send calls where the map says. A server that holds nothing any more is let go."""
        if not ranges:
            return
        for slots, server in ranges:
            self._map[slots.start : slots.stop] = [self._connection_to(server)] * len(slots)
        serving = {connection.server for connection in self._map if connection}
        for server in self._primaries.keys() - serving:
            self._primaries.pop(server).retire()
        self.wakeups.reroute()
