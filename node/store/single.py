"""A single Redis server, which has all the keys."""

from collections.abc import Mapping, Sequence

import msgspec

from node.store.address import Location
from node.store.connection import Call, Connection
from node.store.link import RedisReply
from node.store.scripts import Arg
from node.store.store import FinalResult, Store, error_code, meaning
from node.store.wakeups import WakeUps


class SingleStore(Store):
    """One server, and one connection for all calls."""

    def __init__(self, location: Location, *, timeout: float, max_in_flight: int) -> None:
        super().__init__(timeout, max_in_flight)
        (server,) = location.servers
        access = msgspec.structs.replace(location.access, writes=True)
        self._connection = Connection(server, access, timeout, self.stats, self._send_made)
        self._everything = (0, self._connection)
        self.wakeups = WakeUps(lambda _: server, location.access, timeout, self.stats)

    async def close(self) -> None:
        await self.wakeups.close()
        await self._connection.close()

    async def ready(self) -> bool:
        await self._connection.tried.wait()
        return self.connected

    @property
    def connected(self) -> bool:
        return self._connection.connected

    def _connections(self) -> Sequence[Connection]:
        return (self._connection,)

    def _route(self, key: Arg) -> tuple[int, Connection]:
        return self._everything

    def _by_server(
        self, wanted: Sequence[Sequence[Arg]]
    ) -> tuple[Mapping[Connection, Sequence[int]], list[FinalResult]]:
        return ({self._connection: range(len(wanted))} if wanted else {}), [None] * len(wanted)

    async def _retry(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        if call.script and error_code(outcome) == "NOSCRIPT":
            failure = await connection.load(call.script, call.deadline)
            answer = failure or await connection.submit(self._new_attempt(call))
            if not isinstance(answer, Exception):
                return answer
            outcome = answer
        if error_code(outcome) in ("READONLY", "MASTERDOWN"):
            connection.drop(str(outcome))  # the host name may resolve to the new primary by now
        raise meaning(outcome, call)
