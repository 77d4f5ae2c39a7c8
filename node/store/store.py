"""`Store`, through which features call Redis. `single.py` and `cluster.py` implement it.

    feature ── Store ─┬─ Connection ── Link             calls: one connection to each primary
                      └─ WakeUps ── ServerFeed ── Link  subscriptions: one more connection to each

All callers of a process share these connections; there is no pool. Every call ends within `timeout` seconds: with its
reply, or with `StoreUnavailable` (nothing was written), `OutcomeUnknown` (the write may have happened) or
`CommandFailed` (a bug). A call is retried only if Redis said that it had not begun it, or if it was never sent.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import repeat
from typing import Self, TypeAlias, TypeVar, cast

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
"""Keys that Redis visits in one SCAN, which takes about 0.2 ms."""

SHARE_OF_CALLS = 8
"""One caller may use at most 1/SHARE_OF_CALLS of the calls that may be under way; the rest is for other callers."""

Wanted: TypeAlias = Step | Sequence[Arg]
"""A step, or a plain command whose first argument is its key."""

Failure = TypeVar("Failure", bound=Exception)

FinalResult: TypeAlias = RedisReply | StoreUnavailable | CommandFailed
"""How a call ended after its last attempt: with a reply, or with the exception to raise or return instead."""


class Store(ABC):
    """The calls of one process to Redis."""

    wakeups: WakeUps

    def __init__(self, timeout: float, max_in_flight: int) -> None:
        self.timeout = timeout
        """Longest duration of a call, in seconds."""
        self.max_in_flight = max_in_flight
        """Most calls under way at a time; one more is refused at once (StoreBusy)."""
        self.stats = Stats()
        self._loop = asyncio.get_running_loop()
        self._nobody: asyncio.Future[CallResult] = self._loop.create_future()
        """The outcome that all calls of `send` share; never settled."""
        self._retrying: set[asyncio.Task[None]] = set()
        self._makers: list[Callable[[], Iterable[Wanted]]] = []
        """Functions given to `send_ahead` and not called yet."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, step: Step) -> RedisReply:
        """Run one step on the server of its first key. Calls of the same script may share a round trip (group
        commit)."""
        slot, connection = self._route(step.keys[0])
        call = self._call(step.args, slot, step.script, step.keys)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._retry(call, outcome, connection)
        return outcome

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        """Run one plain command, which must not block, on the server of `key` (default: its first argument)."""
        slot, connection = self._route(key if key is not None else args[1] if len(args) > 1 else "")
        call = self._call(args, slot)
        outcome = await connection.submit(call)
        if isinstance(outcome, Exception):
            return await self._retry(call, outcome, connection)
        return outcome

    async def run_all(self, many: Iterable[Wanted]) -> list[RedisReply]:
        """Run any number of steps, or of plain commands (not mixed), in any order.

        They run in portions as large as one caller's share (SHARE_OF_CALLS), each with one round trip to every server
        concerned. If some calls of a portion fail, the others still run; then the first failure is raised.
        """
        return [reply for some in self._portions(many) for reply in _all(await self._results(some))]

    async def run_reachable(self, many: Iterable[Wanted]) -> list[RedisReply | StoreUnavailable]:
        """Run calls like `run_all`, but return a StoreUnavailable in place of each reply from an unreachable server.

        Raises StoreUnavailable if all calls failed and no other server can be reached either. While another one can, it
        is not raised: a page is not refused because its few entities are all out of reach. Raises StoreBusy if nothing
        could be sent, CommandFailed.
        """
        replies = [reply for some in self._portions(many) for reply in _reachable(await self._results(some))]
        failures = [reply for reply in replies if isinstance(reply, StoreUnavailable)]
        is_none_there = failures and len(failures) == len(replies)
        if is_none_there and (isinstance(failures[0], StoreBusy) or self.serving_partition() is None):
            raise copy(failures[0])
        return replies

    def send(self, wanted: Wanted) -> None:
        """Send a step or a plain command without waiting for the reply; for work that is done again if it fails.

        Calls that this process makes to the same server in a later turn of the event loop see its effect; other
        processes see it some milliseconds later.

        Raises StoreUnavailable if no server is known for its key, or too many calls are under way. A later failure is
        logged.
        """
        self._send(wanted, ahead=False)

    def send_ahead(self, make: Callable[[], Iterable[Wanted]]) -> None:
        """`send` what `make` returns, ahead of the other calls of the same kind (steps, commands) in this turn.

        `make` is called once, before the next calls are written to Redis. Calls that cannot be sent are skipped.
        """
        if not self._makers:
            self._loop.call_soon(self._flush)
        self._makers.append(make)

    async def everywhere(self, *args: Arg) -> list[RedisReply]:
        """Run one command, such as INFO or SCRIPT LOAD, on every primary."""
        connections = self._connections()
        calls = [self._call(args, 0) for _ in connections]
        for connection, call in zip(connections, calls, strict=True):
            connection.submit(call)
        return [_reply(await call.outcome, call) for call in calls]

    async def names(self, pattern: str) -> AsyncIterator[list[str]]:
        """Yield the names of the keys that match, some at a time, from a SCAN of all keys on every primary.

        A name may come twice, and a key that is created or deleted meanwhile may be missing.
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
        """Return a 32-bit id of the Redis process that serves a key. It changes after a restart and after a failover,
        which may lose the last writes.

        0 for a unix socket, whose server has no replica that could take over. Raises StoreUnavailable.
        """
        return self._route(key)[1].server_id

    def serving_partition(self) -> int | None:
        """Return a partition for a new entity whose primary is connected; None if any partition will do."""
        return None

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether there is a connection now; in a cluster, a connection to at least one primary."""

    @abstractmethod
    async def ready(self) -> bool:
        """Wait for the end of the first attempt to connect. Returns whether it succeeded."""

    @abstractmethod
    async def close(self) -> None:
        """Drop all connections. Calls under way end with `OutcomeUnknown`."""

    @abstractmethod
    def _connections(self) -> Sequence[Connection]:
        """Return the connections to all primaries."""

    @abstractmethod
    def _route(self, key: Arg) -> tuple[int, Connection]:
        """Return the slot of a key, and the connection to its primary. Raises StoreUnavailable."""

    @abstractmethod
    async def _retry(self, call: Call, outcome: Exception, connection: Connection) -> RedisReply:
        """Retry a call that Redis has not begun, where a retry can help. Otherwise raise what the outcome means."""

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
        """Return another attempt at `call`, with the same deadline."""
        return msgspec.structs.replace(call, outcome=self._loop.create_future(), **{"asking": False} | changes)

    def _admit(self, replies_due: int) -> None:
        if self.stats.in_flight + replies_due > self.max_in_flight:
            raise StoreBusy(f"{self.max_in_flight} calls to Redis are under way")

    def _portions(self, many: Iterable[Wanted]) -> Iterator[Sequence[Wanted]]:
        """Split calls into portions of as many as one caller may have under way."""
        waiting = list(many)
        at_once = max(1, self.max_in_flight // SHARE_OF_CALLS)
        for start in range(0, len(waiting), at_once):
            yield waiting[start : start + at_once]

    async def _results(self, some: Sequence[Wanted]) -> list[FinalResult]:
        if isinstance(some[0], Step):
            return await self._run_each(cast("Sequence[Step]", some))
        return await self._pipelined(cast("Sequence[Sequence[Arg]]", some))

    async def _run_each(self, steps: Sequence[Step]) -> list[FinalResult]:
        """Run steps concurrently, and return when all of them have ended."""
        under_way: list[tuple[Call, Connection] | StoreUnavailable] = []
        for step in steps:
            try:
                slot, connection = self._route(step.keys[0])
                call = self._call(step.args, slot, step.script, step.keys)
            except StoreUnavailable as failure:
                under_way.append(_as_result(failure))
            else:
                connection.submit(call)
                under_way.append((call, connection))
        results: list[FinalResult] = []
        # Awaited one after the other: `gather` would make a task for each, which costs more than the command.
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
        """Call `_retry`, and return what it raises as a value."""
        try:
            return await self._retry(call, failure, connection)
        except (StoreUnavailable, CommandFailed) as final:
            return _as_result(final)

    async def _pipelined(self, wanted: Sequence[Sequence[Arg]]) -> list[FinalResult]:
        """Run plain commands as one pipeline for each server."""
        positions_at, results = self._by_server(wanted)
        under_way: list[tuple[Pipeline, Connection, Sequence[int]]] = []
        for connection, positions in positions_at.items():
            try:
                pipeline = self._pipeline([wanted[position] for position in positions])
            except StoreBusy as busy:  # the replies of the other servers are still collected
                for position in positions:
                    results[position] = _as_result(busy)
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
        """Return the positions of the commands to send to each server, and the list of results.

        The list has a failure for each command whose server is unknown, and None for the others.
        """
        positions_at: dict[Connection, list[int]] = {}
        results: list[FinalResult] = [None] * len(wanted)
        for position, args in enumerate(wanted):
            try:
                positions_at.setdefault(self._route(args[1])[1], []).append(position)
            except StoreUnavailable as unknown:
                results[position] = _as_result(unknown)
        return positions_at, results

    def _pipeline(self, commands: Sequence[Sequence[Arg]]) -> Pipeline:
        self._admit(len(commands))
        deadline = self._loop.time() + self.timeout
        return Pipeline(commands[0], 0, deadline, self._loop.create_future(), commands=commands)

    def _send(self, wanted: Wanted, *, ahead: bool) -> None:
        if isinstance(wanted, Step):
            slot, connection = self._route(wanted.keys[0])
            if wanted.script.name not in connection.loaded:  # loading it after NOSCRIPT would be too late
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
        if isinstance(result, CommandFailed):  # its connection logs that a server is out of reach
            log.error("a command that nobody waits for failed", command=call.name, exc_info=result)


def error_code(outcome: Exception) -> str:
    """Return the error code, the first word of an error reply; empty for any other outcome."""
    return str(outcome).partition(" ")[0] if isinstance(outcome, ReplyError) else ""


def meaning(outcome: Exception, call: Call) -> Exception:
    """Return the exception for the caller of `call`: a new object, never `outcome` itself.

    A raised exception refers to the frames that it passed through, and so to the request. One of these frames holds
    `outcome`, so raising it would make a reference cycle, which only the garbage collector frees.
    """
    return judge(str(outcome), call.name) if isinstance(outcome, ReplyError) else copy(outcome)


def _reply(outcome: CallResult, call: Call) -> RedisReply:
    """Return the reply to a call that is not retried. Raises what a failure means."""
    if isinstance(outcome, Exception):
        raise meaning(outcome, call)
    return outcome


def _as_result(failure: Failure) -> Failure:
    """Remove the traceback from a failure that is kept as a result.

    The traceback leads to frames that hold the results, and on Python 3.13 through them to the caller. Only the garbage
    collector, which rarely runs, would free them and everything that the request holds.
    """
    return failure.with_traceback(None)


def _all(results: list[FinalResult]) -> list[RedisReply]:
    """Return all replies. Raises the first failure."""
    for result in results:
        if isinstance(result, Exception):
            raise copy(result)
    return cast("list[RedisReply]", results)


def _reachable(results: list[FinalResult]) -> list[RedisReply | StoreUnavailable]:
    """Return the replies, and the failures of unreachable servers as values. Raises CommandFailed."""
    for result in results:
        if isinstance(result, CommandFailed):
            raise copy(result)
    return cast("list[RedisReply | StoreUnavailable]", results)
