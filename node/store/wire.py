"""What a room sees of Redis: `Store`, and its form for a single server. Rooms know no more than this.

A call is repeated only where Redis said that it did not begin it; every call ends within `timeout`
seconds, with its reply or with `StoreUnavailable`, `OutcomeUnknown` or `CommandFailed`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from hiredis import ReplyError

from node.store.address import Location
from node.store.connection import Call, CallResult, Connection
from node.store.errors import StoreBusy, judge
from node.store.link import RedisReply, Stats
from node.store.scripts import Arg, Script
from node.store.steps import Step
from node.store.wakeups import WakeUps

Submitted: TypeAlias = tuple[Call, Connection, "asyncio.Future[CallResult]"]


class Store(ABC):
    """Calls to Redis from one process: many callers, one connection to each primary."""

    wakeups: WakeUps

    def __init__(self, timeout: float, max_in_flight: int) -> None:
        self.timeout = timeout
        """Seconds within which every call ends."""
        self.max_in_flight = max_in_flight
        """Calls under way beyond which one more is refused at once."""
        self.stats = Stats()
        self._loop = asyncio.get_running_loop()

    async def run(self, script: Script | Step, keys: Sequence[str] = (), args: Sequence[Arg] = ()) -> RedisReply:
        """Run one step where its first key lives. It may share its trip with others of its script (group commit)."""
        if isinstance(script, Step):
            script, keys, args = script.script, script.keys, script.args
        else:
            script.check(keys, args)
        slot, connection = self._route(keys[0])
        call = self._call(script, keys, args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._again(call, outcome, connection)
        return outcome

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        """Run one plain command where its `key` lives, by default its first argument. Not for commands that block."""
        slot, connection = self._route(key if key is not None else args[1] if len(args) > 1 else "")
        call = self._call(None, (), args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._again(call, outcome, connection)
        return outcome

    async def commands(self, many: Iterable[Sequence[Arg]]) -> list[RedisReply]:
        """Run plain commands, each where its first argument lives, in one trip to every server that is concerned.

        They may take effect in any order. Raises what the first failure means; the others run all the same.
        """
        under_way: list[Submitted] = []
        for args in many:
            slot, connection = self._route(args[1])
            call = self._call(None, (), args, slot)
            under_way.append((call, connection, connection.submit(call)))
        return await self._answers(under_way)

    async def run_all(self, steps: Iterable[Step]) -> list[RedisReply]:
        """Run many steps, as `run` does one: those of a script and a slot share a trip. In any order.

        Raises what the first failure means; the others run all the same.
        """
        under_way: list[Submitted] = []
        for step in steps:
            slot, connection = self._route(step.keys[0])
            call = self._call(step.script, step.keys, step.args, slot)
            under_way.append((call, connection, connection.submit(call)))
        return await self._answers(under_way)

    async def runs(self, script: Script, many: Iterable[tuple[Sequence[str], Sequence[Arg]]]) -> list[RedisReply]:
        """The old form."""
        under_way: list[Submitted] = []
        for keys, args in many:
            script.check(keys, args)
            slot, connection = self._route(keys[0])
            call = self._call(script, keys, args, slot)
            under_way.append((call, connection, connection.submit(call)))
        return await self._answers(under_way)

    async def _answers(self, under_way: Iterable[Submitted]) -> list[RedisReply]:
        answered: list[RedisReply] = []
        # Not gathered: that would make a task of each, which costs more than the command.
        for call, connection, future in under_way:
            outcome = await future
            answered.append(await self._again(call, outcome, connection) if isinstance(outcome, Exception) else outcome)
        return answered

    @abstractmethod
    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        """Run one command on every primary: PING, INFO, CONFIG GET, SCRIPT LOAD."""

    @abstractmethod
    async def close(self) -> None:
        """Drop all connections. Calls under way end with `OutcomeUnknown`."""

    @abstractmethod
    async def ready(self) -> bool:
        """Whether Redis could be reached, once that is known."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether there is a connection to a primary now; to one of a cluster's, at least."""

    @abstractmethod
    def _route(self, key: Arg) -> tuple[int, Connection]:
        """The slot of a key, and the connection to its primary. Raises StoreUnavailable."""

    @abstractmethod
    async def _again(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        """Try once more what Redis has not begun; raise what the outcome means otherwise."""

    def _call(self, script: Script | None, keys: Sequence[str], args: Sequence[Arg], slot: int) -> Call:
        if self.stats.in_flight >= self.max_in_flight:
            raise StoreBusy(f"{self.max_in_flight} calls to Redis are under way")
        return Call(script, keys, args, slot, self._loop.time() + self.timeout, self._loop.create_future())

    def _anew(self, call: Call, **changes: int) -> Call:
        """Another attempt at `call`, within its deadline."""
        return msgspec.structs.replace(call, outcome=self._loop.create_future(), **{"asking": False} | changes)


class SingleStore(Store):
    """One server holds everything."""

    def __init__(self, location: Location, *, timeout: float, max_in_flight: int) -> None:
        super().__init__(timeout, max_in_flight)
        (server,) = location.servers
        self._connection = Connection(server, location.access, timeout, self.stats)
        self._everything = (0, self._connection)
        self.wakeups = WakeUps(lambda _: server, location.access, timeout, self.stats)

    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        return [await self.command(*args)]

    async def close(self) -> None:
        await self.wakeups.close()
        await self._connection.close()

    async def ready(self) -> bool:
        await self._connection.tried()
        return self.connected

    @property
    def connected(self) -> bool:
        return self._connection.connected

    def _route(self, key: Arg) -> tuple[int, Connection]:
        return self._everything

    async def _again(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        if call.script and error_code(outcome) == "NOSCRIPT":
            answer = await connection.load(call.script, call.deadline) or await connection.submit(self._anew(call))
            if not isinstance(answer, Exception):
                return answer
            outcome = answer
        if error_code(outcome) in ("READONLY", "MASTERDOWN"):
            connection.drop()  # by now the address may lead to the new primary
        raise meaning(outcome, call)


def error_code(outcome: Exception) -> str:
    """The first word of an error reply, which is its code; empty if Redis did not say it."""
    return str(outcome).partition(" ")[0] if isinstance(outcome, ReplyError) else ""


def meaning(outcome: Exception, call: Call) -> Exception:
    """The exception that a caller gets."""
    return judge(str(outcome), call.name) if isinstance(outcome, ReplyError) else outcome


def replies(outcomes: Sequence[CallResult], call: Call) -> list[RedisReply]:
    """The replies of several servers to one call. Raises what the first failure means."""
    answered: list[RedisReply] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise meaning(outcome, call)
        answered.append(outcome)
    return answered
