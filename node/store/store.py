"""`Store`, by which features call Redis. `single.py` and `cluster.py` are its two forms.

    feature ── Store ─┬─ Connection ── Link             calls: one connection to each primary
                      └─ WakeUps ── ServerFeed ── Link  subscriptions: another one

All callers of a process share these connections; there is no pool. Every call ends within `timeout` seconds: with its
reply, or with `StoreUnavailable` (nothing was written), `OutcomeUnknown` (it may have been) or `CommandFailed` (a bug).
It is sent again only if Redis said that it did not begin it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import repeat
from typing import Self, TypeAlias, cast

import msgspec
import structlog
from hiredis import ReplyError

from node.store.connection import Call, CallResult, Connection, Pipeline, Unawaited
from node.store.errors import CommandFailed, StoreBusy, StoreUnavailable, judge
from node.store.link import RedisReply, Stats
from node.store.scripts import Arg, Script
from node.store.steps import Step
from node.store.wakeups import WakeUps

log = structlog.get_logger()

NAMES_AT_ONCE = 1000
"""Keys that Redis looks at in one SCAN: some 0.2 ms."""

SHARE_OF_CALLS = 8
"""One caller has at most one in this many of the allowed calls under way; the others are left for other callers."""

Wanted: TypeAlias = Step | Sequence[Arg]
"""A step, or a plain command, the first argument of which is its key."""

FinalResult: TypeAlias = RedisReply | StoreUnavailable | CommandFailed
"""How a call ended after its last attempt: a reply, or what is raised, or put, in its place."""


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
        """The outcome of all calls of `send`, which is never settled."""
        self._retrying: set[asyncio.Task[None]] = set()
        self._makers: list[Callable[[], Iterable[Wanted]]] = []
        """What `send_ahead` was given and has not called yet."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, step: Step) -> RedisReply:
        """Run one step, on the server of its first key. Calls of one script may share a trip (group commit)."""
        slot, connection = self._route(step.keys[0])
        call = self._call(step.args, slot, step.script, step.keys)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._retry(call, outcome, connection)
        return outcome

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        """Run one plain command, on the server of `key`, by default its first argument. It must not block."""
        slot, connection = self._route(key if key is not None else args[1] if len(args) > 1 else "")
        call = self._call(args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._retry(call, outcome, connection)
        return outcome

    async def run_all(self, many: Iterable[Wanted]) -> list[RedisReply]:
        """Run any number of steps, or of plain commands, not of both.

        As many at a time as the share of one caller allows (SHARE_OF_CALLS), in one trip to each server concerned, and
        in any order. If some of these fail, the others run all the same, and what the first failure means is raised.
        """
        return [reply for some in self._portions(many) for reply in _all(await self._results(some))]

    async def run_reachable(self, many: Iterable[Wanted]) -> list[RedisReply | StoreUnavailable]:
        """`run_all`, with the failure itself in the place of a reply of a server that is out of reach.

        Raises StoreUnavailable only if no other server can be reached either: a page is not refused because its few
        entities are all out of reach. Raises StoreBusy if nothing could be sent, CommandFailed.
        """
        replies = [reply for some in self._portions(many) for reply in _reachable(await self._results(some))]
        failures = [reply for reply in replies if isinstance(reply, StoreUnavailable)]
        is_none_there = failures and len(failures) == len(replies)
        if is_none_there and (isinstance(failures[0], StoreBusy) or self.serving_partition() is None):
            raise copy(failures[0])
        return replies

    def send(self, wanted: Wanted) -> None:
        """Send a step or a plain command without waiting for it to run; for work that is done again if it fails.

        Calls of this process to the same server in a later turn of the event loop find it done, those of others some
        milliseconds later.

        Raises StoreUnavailable if no server is known for it, or too many calls are under way; what fails later is
        logged.
        """
        self._send(wanted, ahead=False)

    def send_ahead(self, make: Callable[[], Iterable[Wanted]]) -> None:
        """`send` what `make` gives, ahead of the calls of the same kind (steps, commands) of this turn.

        `make` is called once, before the next call is sent that anybody makes from now on. What cannot be sent is
        passed over.
        """
        if not self._makers:
            self._loop.call_soon(self._flush)
        self._makers.append(make)

    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        """Run one command on every primary, such as INFO or SCRIPT LOAD."""
        connections = self._connections()
        calls = [self._call(args, 0) for _ in connections]
        for connection, call in zip(connections, calls, strict=True):
            connection.submit(call)
        return [_reply(await call.outcome, call) for call in calls]

    async def names(self, pattern: str) -> AsyncIterator[list[str]]:
        """Names of the keys that match, some at a time. Redis looks at all keys, a part at a time.

        A name may come twice, and a key that comes or goes meanwhile may be left out.
        """
        for connection in self._connections():
            cursor = b"0"
            while True:
                call = self._call(("SCAN", cursor, "MATCH", pattern, "COUNT", NAMES_AT_ONCE), 0)
                reply = _reply(await connection.submit(call), call)
                cursor, found = cast("tuple[bytes, Sequence[bytes]]", reply)
                yield [name.decode() for name in found]
                if cursor == b"0":
                    break

    def server_id(self, key: Arg) -> int:
        """32 bits that change when another process of Redis serves a key: after a failover, in which the last
        writes may be lost, and after a restart.

        0 for a socket of this machine: its server has no replica that could take over. Raises StoreUnavailable.
        """
        return self._route(key)[1].server_id

    def serving_partition(self) -> int | None:
        """A partition for something new whose server is connected; None where any will do."""
        return None

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether there is a connection now; in a cluster, to at least one primary."""

    @abstractmethod
    async def ready(self) -> bool:
        """Wait until the first attempt to connect has ended. Returns whether it succeeded."""

    @abstractmethod
    async def close(self) -> None:
        """Drop all connections. Calls under way end with `OutcomeUnknown`."""

    @abstractmethod
    def _connections(self) -> Sequence[Connection]:
        """The connections to all primaries."""

    @abstractmethod
    def _route(self, key: Arg) -> tuple[int, Connection]:
        """The slot of a key, and the connection to its primary. Raises StoreUnavailable."""

    @abstractmethod
    async def _retry(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        """Send a call again that Redis has not begun. Raises what the outcome means if it may have."""

    def _flush(self) -> None:
        for connection in self._connections():
            connection.flush()

    def _send_made(self) -> None:
        makers, self._makers = self._makers, []
        for make in makers:
            for wanted in make():
                with suppress(StoreUnavailable):
                    self._send(wanted, ahead=True)

    def _call(self, args: Sequence[Arg], slot: int, script: Script | None = None, keys: Sequence[str] = ()) -> Call:
        self._admit(1)
        return Call(args, slot, self._loop.time() + self.timeout, self._loop.create_future(), script, keys)

    def _new_attempt(self, call: Call, **changes: int) -> Call:
        """Another attempt at `call`, with the same deadline."""
        return msgspec.structs.replace(call, outcome=self._loop.create_future(), **{"asking": False} | changes)

    def _admit(self, replies_due: int) -> None:
        if self.stats.in_flight + replies_due > self.max_in_flight:
            raise StoreBusy(f"{self.max_in_flight} calls to Redis are under way")

    def _portions(self, many: Iterable[Wanted]) -> Iterator[Sequence[Wanted]]:
        """As many at a time as one caller may have under way."""
        waiting = list(many)
        at_once = max(1, self.max_in_flight // SHARE_OF_CALLS)
        for start in range(0, len(waiting), at_once):
            yield waiting[start : start + at_once]

    async def _results(self, some: Sequence[Wanted]) -> list[FinalResult]:
        if isinstance(some[0], Step):
            return await self._run_each(cast("Sequence[Step]", some))
        return await self._pipelined(cast("Sequence[Sequence[Arg]]", some))

    async def _run_each(self, steps: Sequence[Step]) -> list[FinalResult]:
        """Run steps side by side; returns when all of them have ended."""
        under_way: list[tuple[Call, Connection] | StoreUnavailable] = []
        for step in steps:
            try:
                slot, connection = self._route(step.keys[0])
                call = self._call(step.args, slot, step.script, step.keys)
            except StoreUnavailable as failure:
                under_way.append(failure)
            else:
                connection.submit(call)
                under_way.append((call, connection))
        results: list[FinalResult] = []
        # Awaited one after the other: `gather` would make a task of each, which costs more than the command.
        for each in under_way:
            if isinstance(each, StoreUnavailable):
                results.append(each)
                continue
            call, connection = each
            outcome = await call.outcome
            results.append(
                await self._retry_result(call, outcome, connection) if isinstance(outcome, Exception) else outcome
            )
        return results

    async def _retry_result(self, call: Call, failure: Exception, connection: Connection) -> FinalResult:
        """`_retry`, with what it raises as a value."""
        try:
            return await self._retry(call, failure, connection)
        except (StoreUnavailable, CommandFailed) as final:
            return final

    async def _pipelined(self, wanted: Sequence[Sequence[Arg]]) -> list[FinalResult]:
        """Run plain commands as one pipeline for each server."""
        positions_at, results = self._by_server(wanted)
        under_way: list[tuple[Pipeline, Connection, Sequence[int]]] = []
        for connection, positions in positions_at.items():
            try:
                pipeline = self._pipeline([wanted[position] for position in positions])
            except StoreBusy as busy:  # what other servers have been sent is not lost with it
                for position in positions:
                    results[position] = busy
            else:
                connection.submit(pipeline)
                under_way.append((pipeline, connection, positions))
        for pipeline, connection, positions in under_way:
            outcome = await pipeline.outcome
            replies = outcome if isinstance(outcome, list) else repeat(outcome)
            for position, reply in zip(positions, replies, strict=False):
                if isinstance(reply, Exception):
                    slot, _ = self._route(wanted[position][1])
                    call = Call(wanted[position], slot, pipeline.deadline, self._loop.create_future())
                    results[position] = await self._retry_result(call, reply, connection)
                else:
                    results[position] = reply
        return results

    def _by_server(
        self, wanted: Sequence[Sequence[Arg]]
    ) -> tuple[Mapping[Connection, Sequence[int]], list[FinalResult]]:
        """The positions of the commands that each server is sent; and the results, with why others are sent to none."""
        positions_at: dict[Connection, list[int]] = {}
        results: list[FinalResult] = [None] * len(wanted)
        for position, args in enumerate(wanted):
            try:
                positions_at.setdefault(self._route(args[1])[1], []).append(position)
            except StoreUnavailable as unknown:
                results[position] = unknown
        return positions_at, results

    def _pipeline(self, commands: Sequence[Sequence[Arg]]) -> Pipeline:
        self._admit(len(commands))
        deadline = self._loop.time() + self.timeout
        return Pipeline(commands[0], 0, deadline, self._loop.create_future(), commands=commands)

    def _send(self, wanted: Wanted, *, ahead: bool) -> None:
        if isinstance(wanted, Step):
            slot, connection = self._route(wanted.keys[0])
            if wanted.script.name not in connection.loaded:  # what is loaded after NOSCRIPT would be late
                for source in wanted.script.sources().values():
                    self._submit_unawaited(connection, ("SCRIPT", "LOAD", source), slot, ahead)
                connection.loaded.add(wanted.script.name)
            self._submit_unawaited(connection, wanted.args, slot, ahead, wanted.script, wanted.keys)
        else:
            slot, connection = self._route(wanted[1])
            self._submit_unawaited(connection, wanted, slot, ahead)

    def _submit_unawaited(
        self,
        connection: Connection,
        args: Sequence[Arg],
        slot: int,
        ahead: bool,
        script: Script | None = None,
        keys: Sequence[str] = (),
    ) -> None:
        self._admit(1)
        deadline = self._loop.time() + self.timeout
        failed = partial(self._retry_unawaited, connection)
        submit = connection.submit_ahead if ahead else connection.submit
        submit(Unawaited(args, slot, deadline, self._nobody, script, keys, failed=failed))

    def _retry_unawaited(self, connection: Connection, sent: Unawaited, failure: Exception) -> None:
        call = Call(sent.args, sent.slot, sent.deadline, self._loop.create_future(), sent.script, sent.keys)
        task = self._loop.create_task(self._retry_and_log(call, failure, connection))
        self._retrying.add(task)
        task.add_done_callback(self._retrying.discard)

    async def _retry_and_log(self, call: Call, failure: Exception, connection: Connection) -> None:
        result = await self._retry_result(call, failure, connection)
        if isinstance(result, CommandFailed):  # what is out of reach is logged by its connection
            log.error("a command that nobody waits for failed", command=call.name, exc_info=result)


def error_code(outcome: Exception) -> str:
    """The first word of an error reply, which is its code; empty for any other outcome."""
    return str(outcome).partition(" ")[0] if isinstance(outcome, ReplyError) else ""


def meaning(outcome: Exception, call: Call) -> Exception:
    """The exception that the caller gets: one of its own.

    It will refer to the frames that it comes through, and with them to the request. If one of these had it, only the
    garbage collector would free them.
    """
    return judge(str(outcome), call.name) if isinstance(outcome, ReplyError) else copy(outcome)


def _reply(outcome: CallResult, call: Call) -> RedisReply:
    """The reply to a call that is not sent again. Raises what a failure means."""
    if isinstance(outcome, Exception):
        raise meaning(outcome, call)
    return outcome


def _all(results: list[FinalResult]) -> list[RedisReply]:
    """All replies. Raises the first failure."""
    for result in results:
        if isinstance(result, Exception):
            raise copy(result)
    return cast("list[RedisReply]", results)


def _reachable(results: list[FinalResult]) -> list[RedisReply | StoreUnavailable]:
    """The replies, and the failures of servers out of reach. Raises CommandFailed."""
    for result in results:
        if isinstance(result, CommandFailed):
            raise copy(result)
    return cast("list[RedisReply | StoreUnavailable]", results)
