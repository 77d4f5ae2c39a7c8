"""A Redis Cluster: each call goes to the primary that serves the slot of its key, and follows the slot when it moves.

The map from slots to primaries is read from any member of the cluster (CLUSTER SLOTS), and read again whenever
something contradicts it: a redirection, a lost connection, a slot without a primary. The effects on a caller:

- A moving slot delays its calls by some milliseconds.
- When a primary dies, the calls sent to it end with `OutcomeUnknown`. Until a replica has taken over, further calls for
  its slots end with `StoreUnavailable`. Calls for other slots are not affected.
- A call is retried only if Redis has not begun it: after an answer that says so (MOVED, ASK, TRYAGAIN, CLUSTERDOWN, …),
  or if it was never written and its slot has another primary by now.
"""

import asyncio
from collections.abc import Sequence
from random import randrange, sample, uniform

from hiredis import ReplyError

from node.store.address import Location, ServerAddress
from node.store.connection import Call, Connection
from node.store.errors import StoreUnavailable
from node.store.ids import PARTITIONS
from node.store.keys import tag
from node.store.link import NotReady, RedisReply, consult
from node.store.scripts import Arg
from node.store.slots import SLOTS, read_map, read_redirect, slot_of
from node.store.store import Store, error_code, meaning
from node.store.wakeups import WakeUps

MAP_SECONDS = 0.2
"""Least time between two reads of the map, so that reads do not flood a cluster in trouble."""

MEMBER_SECONDS = 0.5
"""Timeout of a request for the map. After it, another member is asked."""

PROMPT_REDIRECTIONS = 3
"""Number of MOVED replies that are followed without a pause. A slot that has moved causes one or two."""

MAX_ATTEMPTS = 64
"""Most attempts of one call. Its deadline comes first, unless redirections without a pause send it back and forth."""

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.005, 0.1
"""Backoff before another attempt: doubles with each attempt, up to the maximum."""

PARTITIONS_TRIED = 16
"""Random partitions tried to find one whose primary is connected. If one primary of three is connected, one search in
600 finds none."""

PARTITION_SLOTS = [slot_of(tag(partition)) for partition in range(PARTITIONS)]

UNSETTLED = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})
"""Error codes of a cluster that is rearranging itself. The command was not begun."""


class ClusterStore(Store):
    """Many servers, each of which serves some of the slots."""

    def __init__(self, location: Location, *, timeout: float, max_in_flight: int) -> None:
        super().__init__(timeout, max_in_flight)
        self._seeds = location.servers
        self._access = location.access
        self._primaries: dict[ServerAddress, Connection] = {}
        self._map: list[Connection | None] = [None] * SLOTS
        """The connection to the primary of each slot; None if no primary is known."""
        self._is_stale = asyncio.Event()
        """Set when the map was found to be wrong or incomplete."""
        self._was_read = asyncio.Event()
        self._task = self._loop.create_task(self._keep_map())
        self.wakeups = WakeUps(self._publisher_of, self._access, timeout, self.stats, self._is_stale.set)
        self._is_stale.set()

    async def slot_map(self) -> list[tuple[range, ServerAddress]]:
        """Return the map of the first member that answers; empty if none answers."""
        connected = [server for server, connection in self._primaries.items() if connection.connected]
        others = [server for server in self._seeds if server not in connected]
        for server in [*sample(connected, len(connected)), *others]:
            try:
                reply = await consult(server, self._access, MEMBER_SECONDS, "CLUSTER", "SLOTS")
            except (OSError, UnicodeError, NotReady):
                continue
            if not isinstance(reply, ReplyError):
                return read_map(reply, server)
        return []

    def serving_partition(self) -> int | None:
        """Return a random partition whose primary is connected; None if none was found, as when all are gone."""
        for _ in range(PARTITIONS_TRIED):
            partition = randrange(PARTITIONS)
            connection = self._map[PARTITION_SLOTS[partition]]
            if connection and connection.connected:
                return partition
        return None

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        await self.wakeups.close()
        for connection in self._primaries.values():
            await connection.close()

    async def ready(self) -> bool:
        await self._was_read.wait()
        for connection in list(self._primaries.values()):
            await connection.tried.wait()
        return self._is_whole()

    @property
    def connected(self) -> bool:
        return any(connection.connected for connection in self._primaries.values())

    def _connections(self) -> Sequence[Connection]:
        if not self._primaries:
            raise StoreUnavailable("no member of the Redis cluster could be reached")
        return list(self._primaries.values())

    def _route(self, key: Arg) -> tuple[int, Connection]:
        slot = slot_of(key)
        connection = self._map[slot]
        if connection is None:
            self._is_stale.set()
            raise StoreUnavailable("no primary is known for a part of the Redis cluster")
        return slot, connection

    async def _retry(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        attempt = 0
        while True:
            call, connection = await self._next(call, outcome, connection, attempt)
            answer = await connection.submit(call)
            if not isinstance(answer, Exception):
                return answer
            outcome = answer
            attempt += 1

    async def _next(self, call: Call, outcome: Exception, asked: Connection, attempt: int) -> tuple[Call, Connection]:
        """Return the next attempt, and the connection for it. Raises what the outcome means if no retry is possible."""
        code = error_code(outcome)
        if attempt >= MAX_ATTEMPTS:
            raise meaning(outcome, call)
        if code == "NOSCRIPT" and call.script:
            failure = await asked.load(call.script, call.deadline)
            if isinstance(failure, Exception):
                raise meaning(failure, call)
            return self._new_attempt(call, alone=call.alone, asking=call.asking), asked
        if code == "ASK":  # the slot is moving, and this key has moved already
            _, server = read_redirect(str(outcome), asked.server)
            return self._new_attempt(call, alone=True, asking=True), self._connection_to(server)
        self._is_stale.set()
        if code == "MOVED":  # the slot has moved
            slot, server = read_redirect(str(outcome), asked.server)
            self._map[slot] = connection = self._connection_to(server)
            if attempt >= PROMPT_REDIRECTIONS:
                await self._pause(call, outcome, attempt)
            return self._new_attempt(call, slot=slot), connection
        if code in UNSETTLED:
            await self._pause(call, outcome, attempt)
            return self._new_attempt(call, alone=code == "TRYAGAIN"), self._map[call.slot] or asked
        # The call was not written, and by now the map has another primary for the slot.
        connection = self._map[call.slot]
        if type(outcome) is StoreUnavailable and connection and connection is not asked:
            return self._new_attempt(call), connection
        raise meaning(outcome, call)

    async def _pause(self, call: Call, outcome: Exception, attempt: int) -> None:
        """Wait a moment for the cluster to settle. Raises what the outcome means if the deadline comes first.

        A call that waits here still counts as under way.
        """
        delay = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**attempt) * uniform(0.5, 1)
        if self._loop.time() + delay >= call.deadline:
            raise meaning(outcome, call)
        self.stats.in_flight += 1
        try:
            await asyncio.sleep(delay)
        finally:
            self.stats.in_flight -= 1

    def _publisher_of(self, channel: str) -> ServerAddress | None:
        connection = self._map[slot_of(channel)]
        return connection.server if connection else None

    def _connection_to(self, server: ServerAddress) -> Connection:
        connection = self._primaries.get(server)
        if connection is None:
            connection = Connection(server, self._access, self.timeout, self.stats, self._send_made)
            self._primaries[server] = connection
            connection.on_change = self._is_stale.set
        return connection

    def _is_whole(self) -> bool:
        """Return whether each slot has a primary, and each primary is connected."""
        return None not in self._map and all(connection.connected for connection in self._primaries.values())

    async def _keep_map(self) -> None:
        """Read the map whenever it was found to be wrong, and repeat until it is complete."""
        while True:
            await self._is_stale.wait()
            self._is_stale.clear()
            self._adopt(await self.slot_map())
            self._was_read.set()
            await asyncio.sleep(MAP_SECONDS)
            if not self._is_whole():
                self._is_stale.set()

    def _adopt(self, ranges: list[tuple[range, ServerAddress]]) -> None:
        """Route calls by the new map. Connections to servers that serve no slot any more are retired."""
        if not ranges:
            return
        for slots, server in ranges:
            self._map[slots.start : slots.stop] = [self._connection_to(server)] * len(slots)
        serving = {connection.server for connection in self._map if connection}
        for server in self._primaries.keys() - serving:
            self._primaries.pop(server).retire()
        self.wakeups.reroute()
