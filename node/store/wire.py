"""What a room sees of Redis: `Store`, and its form for a single server (`cluster.py` has the other).

    room ── Store ─┬─ Connection ── Link                calls: one connection to each primary
                   └─ WakeUps ── ServerFeed ── Link     subscriptions: another one

All callers of a process share these connections; there is no pool. Every call ends within `timeout` seconds: with its
reply, or with `StoreUnavailable` (nothing was written), `OutcomeUnknown` (it may have been) or `CommandFailed` (a bug).
It is sent again only if Redis said that it did not begin it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import TypeAlias, cast

import msgspec
import structlog
from hiredis import ReplyError

from node.store.address import Location
from node.store.connection import Call, CallResult, Connection, Pipeline, Unawaited
from node.store.errors import CommandFailed, StoreBusy, StoreUnavailable, judge
from node.store.link import RedisReply, Stats
from node.store.scripts import Arg, Script
from node.store.steps import Step
from node.store.wakeups import WakeUps

log = structlog.get_logger()

NAMES_AT_ONCE = 1000
"""Keys that Redis looks at in one SCAN: some 0.2 ms."""

Submitted: TypeAlias = tuple[Call, Connection, "asyncio.Future[CallResult]"]


class Store(ABC):
    """The calls of one process to Redis."""

    wakeups: WakeUps

    def __init__(self, timeout: float, max_in_flight: int) -> None:
        self.timeout = timeout
        """Seconds within which every call ends."""
        self.max_in_flight = max_in_flight
        """Calls that may be under way; one more is refused at once (StoreBusy)."""
        self.stats = Stats()
        self._loop = asyncio.get_running_loop()
        self._nobody: asyncio.Future[CallResult] = self._loop.create_future()
        """The outcome that all calls of `send` share; never settled."""
        self._repeating: set[asyncio.Task[None]] = set()

    async def run(self, step: Step) -> RedisReply:
        """Run one step, on the server of its first key. Calls of one script may share a trip (group commit)."""
        slot, connection = self._route(step.keys[0])
        call = self._call(step.script, step.keys, step.args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._again(call, outcome, connection)
        return outcome

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        """Run one plain command, on the server of `key`, by default its first argument. It must not block."""
        slot, connection = self._route(key if key is not None else args[1] if len(args) > 1 else "")
        call = self._call(None, (), args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._again(call, outcome, connection)
        return outcome

    def send(self, wanted: Step | Sequence[Arg]) -> None:
        """Send a step or a plain command without waiting for it to run; for work that is done again if it fails.

        Calls to the same server in a later turn of the event loop find it done. Raises StoreUnavailable if no server is
        known for it, or too many calls are under way; what fails later is logged.
        """
        if isinstance(wanted, Step):
            slot, connection = self._route(wanted.keys[0])
            if wanted.script.name not in connection.loaded:  # what is loaded after NOSCRIPT would be late
                for source in wanted.script.sources().values():
                    self._send(connection, None, (), ("SCRIPT", "LOAD", source), slot)
                connection.loaded.add(wanted.script.name)
            self._send(connection, wanted.script, wanted.keys, wanted.args, slot)
        else:
            slot, connection = self._route(wanted[1])
            self._send(connection, None, (), wanted, slot)

    def _send(
        self, connection: Connection, script: Script | None, keys: Sequence[str], args: Sequence[Arg], slot: int
    ) -> None:
        self._admit(1)
        deadline = self._loop.time() + self.timeout
        failed = partial(self._repeat, connection)
        connection.submit(Unawaited(script, keys, args, slot, deadline, self._nobody, failed=failed))

    def _repeat(self, connection: Connection, sent: Unawaited, failure: Exception) -> None:
        call = Call(sent.script, sent.keys, sent.args, sent.slot, sent.deadline, self._loop.create_future())
        task = self._loop.create_task(self._repeated(call, failure, connection))
        self._repeating.add(task)
        task.add_done_callback(self._repeating.discard)

    async def _repeated(self, call: Call, failure: Exception, connection: Connection) -> None:
        try:
            await self._again(call, failure, connection)
        except StoreUnavailable:
            pass  # the connection logs it
        except CommandFailed:
            log.exception("a command that nobody waits for failed", command=call.name)

    async def commands(self, many: Iterable[Sequence[Arg]]) -> list[RedisReply]:
        """Run plain commands in one trip to each server concerned; the first argument of each is its key.

        They may take effect in any order. If some fail, the others run all the same, and what the first failure means
        is raised. `bulk.bulk` takes any number of commands.
        """
        wanted = list(many)
        replies, failed = await self._pipelined(wanted)
        if failed:
            raise next(iter(failed.values()))
        return [replies[place] for place in range(len(wanted))]

    async def reachable(self, many: Iterable[Sequence[Arg]]) -> list[RedisReply | StoreUnavailable]:
        """`commands`, with the failure itself in the place of a reply of a server that is out of reach.

        Raises StoreUnavailable if all are, CommandFailed.
        """
        wanted = list(many)
        replies, failed = await self._pipelined(wanted)
        if failed and not replies:
            raise next(iter(failed.values()))
        for failure in failed.values():
            if not isinstance(failure, StoreUnavailable):
                raise failure
        return [
            replies[place] if place in replies else cast("StoreUnavailable", failed[place])
            for place in range(len(wanted))
        ]

    def serving_partition(self) -> int | None:
        """A partition for something new whose server is connected; None where any will do."""
        return None

    async def _pipelined(
        self, wanted: Sequence[Sequence[Arg]]
    ) -> tuple[dict[int, RedisReply], dict[int, StoreUnavailable | CommandFailed]]:
        """Replies and failures of commands, by their places."""
        failed: dict[int, StoreUnavailable | CommandFailed] = {}
        under_way: list[tuple[Connection, Pipeline, Sequence[int]]] = []
        for connection, places in self._places(wanted, failed).items():
            try:
                pipeline = self._pipeline([wanted[place] for place in places])
            except StoreBusy as busy:  # what other servers have been sent is not lost with it
                failed.update(dict.fromkeys(places, busy))
                continue
            connection.submit(pipeline)
            under_way.append((connection, pipeline, places))
        replies: dict[int, RedisReply] = {}
        for connection, pipeline, places in under_way:
            outcome = await pipeline.outcome
            if isinstance(outcome, list) and not pipeline.has_failed:
                replies.update(zip(places, outcome, strict=True))
                continue
            for place, reply in zip(places, outcome if isinstance(outcome, list) else repeat(outcome), strict=False):
                try:
                    replies[place] = await self._settled(pipeline, wanted[place], reply, connection)
                except (StoreUnavailable, CommandFailed) as error:
                    failed[place] = error
        return replies, failed

    def _places(
        self, wanted: Sequence[Sequence[Arg]], failed: dict[int, StoreUnavailable | CommandFailed]
    ) -> Mapping[Connection, Sequence[int]]:
        """The places of the commands that each server is sent; those that none can be sent go to `failed`."""
        places_at: dict[Connection, list[int]] = {}
        for place, args in enumerate(wanted):
            try:
                places_at.setdefault(self._route(args[1])[1], []).append(place)
            except StoreUnavailable as unknown:
                failed[place] = unknown
        return places_at

    async def _settled(
        self, pipeline: Pipeline, args: Sequence[Arg], reply: CallResult, connection: Connection
    ) -> RedisReply:
        """The reply to one command of a pipeline; sent again alone if Redis has not begun it."""
        if not isinstance(reply, Exception):
            return reply
        slot, _ = self._route(args[1])
        call = Call(None, (), args, slot, pipeline.deadline, self._loop.create_future())
        return await self._again(call, reply, connection)

    async def run_all(self, steps: Iterable[Step]) -> list[RedisReply]:
        """Run many steps in one trip to each server concerned; otherwise as `commands`."""
        outcomes = await self._outcomes(steps)
        for outcome in outcomes:
            if isinstance(outcome, (StoreUnavailable, CommandFailed)):
                raise outcome
        return cast("list[RedisReply]", outcomes)

    async def run_reachable(self, steps: Iterable[Step]) -> list[RedisReply | StoreUnavailable]:
        """`run_all`, with the failure itself in the place of a reply of a server that is out of reach.

        Raises StoreUnavailable if all are, CommandFailed.
        """
        outcomes = await self._outcomes(steps)
        failures = [outcome for outcome in outcomes if isinstance(outcome, (StoreUnavailable, CommandFailed))]
        for failure in failures:
            if len(failures) == len(outcomes) or isinstance(failure, CommandFailed):
                raise failure
        return cast("list[RedisReply | StoreUnavailable]", outcomes)

    async def _outcomes(self, steps: Iterable[Step]) -> list[RedisReply | StoreUnavailable | CommandFailed]:
        """Replies to steps, and failures in their places, after all of them have ended."""
        under_way: list[Submitted | StoreUnavailable] = []
        for step in steps:
            try:
                slot, connection = self._route(step.keys[0])
                call = self._call(step.script, step.keys, step.args, slot)
            except StoreUnavailable as failure:
                under_way.append(failure)
            else:
                under_way.append((call, connection, connection.submit(call)))
        outcomes: list[RedisReply | StoreUnavailable | CommandFailed] = []
        # Awaited one after the other: `gather` would make a task of each, which costs more than the command.
        for each in under_way:
            if isinstance(each, StoreUnavailable):
                outcomes.append(each)
                continue
            call, connection, future = each
            outcome = await future
            try:
                outcomes.append(
                    await self._again(call, outcome, connection) if isinstance(outcome, Exception) else outcome
                )
            except (StoreUnavailable, CommandFailed) as failure:
                outcomes.append(failure)
        return outcomes

    @abstractmethod
    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        """Run one command on every primary, such as INFO or SCRIPT LOAD."""

    async def names(self, pattern: str) -> AsyncIterator[list[str]]:
        """Names of the keys that match, some at a time. For the operator: Redis looks at all keys, a part at a time.

        A name may come twice, and a key that comes or goes meanwhile may be left out.
        """
        for connection in self._connections():
            cursor = b"0"
            while True:
                call = self._call(None, (), ("SCAN", cursor, "MATCH", pattern, "COUNT", NAMES_AT_ONCE), 0)
                (reply,) = replies([await connection.submit(call)], call)
                cursor, found = cast("tuple[bytes, Sequence[bytes]]", reply)
                yield [name.decode() for name in found]
                if cursor == b"0":
                    break

    @abstractmethod
    async def close(self) -> None:
        """Drop all connections. Calls under way end with `OutcomeUnknown`."""

    @abstractmethod
    async def ready(self) -> bool:
        """Wait until the first attempt to connect has ended. Returns whether it succeeded."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether there is a connection now; in a cluster, to at least one primary."""

    @abstractmethod
    def _connections(self) -> Sequence[Connection]:
        """The connections to all primaries."""

    @abstractmethod
    def _route(self, key: Arg) -> tuple[int, Connection]:
        """The slot of a key, and the connection to its primary. Raises StoreUnavailable."""

    @abstractmethod
    async def _again(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        """Send a call again that Redis has not begun. Raises what the outcome means if it may have."""

    def _call(self, script: Script | None, keys: Sequence[str], args: Sequence[Arg], slot: int) -> Call:
        self._admit(1)
        return Call(script, keys, args, slot, self._loop.time() + self.timeout, self._loop.create_future())

    def _pipeline(self, commands: Sequence[Sequence[Arg]]) -> Pipeline:
        self._admit(len(commands))
        deadline = self._loop.time() + self.timeout
        return Pipeline(None, (), commands[0], 0, deadline, self._loop.create_future(), commands=commands)

    def _admit(self, replies_due: int) -> None:
        if self.stats.in_flight + replies_due > self.max_in_flight:
            raise StoreBusy(f"{self.max_in_flight} calls to Redis are under way")

    def _anew(self, call: Call, **changes: int) -> Call:
        """Another attempt at `call`, with the same deadline."""
        return msgspec.structs.replace(call, outcome=self._loop.create_future(), **{"asking": False} | changes)


class SingleStore(Store):
    """One server has all keys."""

    def __init__(self, location: Location, *, timeout: float, max_in_flight: int) -> None:
        super().__init__(timeout, max_in_flight)
        (server,) = location.servers
        access = msgspec.structs.replace(location.access, writes=True)
        self._connection = Connection(server, access, timeout, self.stats)
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

    def _connections(self) -> Sequence[Connection]:
        return (self._connection,)

    def _route(self, key: Arg) -> tuple[int, Connection]:
        return self._everything

    def _places(
        self, wanted: Sequence[Sequence[Arg]], failed: dict[int, StoreUnavailable | CommandFailed]
    ) -> Mapping[Connection, Sequence[int]]:
        return {self._connection: range(len(wanted))} if wanted else {}

    async def _again(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        if call.script and error_code(outcome) == "NOSCRIPT":
            answer = await connection.load(call.script, call.deadline) or await connection.submit(self._anew(call))
            if not isinstance(answer, Exception):
                return answer
            outcome = answer
        if error_code(outcome) in ("READONLY", "MASTERDOWN"):
            connection.drop()  # the host name may lead to the new primary by now
        raise meaning(outcome, call)


def error_code(outcome: Exception) -> str:
    """The first word of an error reply, which is its code; empty for any other outcome."""
    return str(outcome).partition(" ")[0] if isinstance(outcome, ReplyError) else ""


def meaning(outcome: Exception, call: Call) -> Exception:
    """The exception that the caller gets."""
    return judge(str(outcome), call.name) if isinstance(outcome, ReplyError) else outcome


def replies(outcomes: Sequence[CallResult], call: Call) -> list[RedisReply]:
    """The replies of several servers to the same command. Raises what the first failure means."""
    answered: list[RedisReply] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise meaning(outcome, call)
        answered.append(outcome)
    return answered
