"""The multiplexed connection to one server, which carries all calls of this process to that server.

Calls made during one turn of the event loop are written together at its end. Up to MAX_BATCH calls of the same script
and slot become one EVALSHA (group commit), which costs Redis little more than one call. There is no timer, so a single
call is not delayed; the more calls there are, the larger the batches.

Invariants:

- Replies are matched to calls by their order alone. So when a caller gives up, its call keeps its place in `_sent`, and
  its reply is discarded. A reply for which no call waits ends the connection.
- Every call is settled exactly once, whatever happens, and at most a little after its deadline (SWEEPS).
- A call that was not written is settled with StoreUnavailable: Redis has not begun it. A call that was written and not
  answered is settled with OutcomeUnknown.
- While the connection is being made, calls wait unsent. Once the server has been gone for as long as a call may take,
  new calls are refused at once.

A blocking command (BLPOP, XREAD BLOCK) must never be sent here: it would hold up every other call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec
from hiredis import ReplyError

from node.store.address import Access, ServerAddress
from node.store.errors import CommandFailed, OutcomeUnknown, StoreUnavailable
from node.store.link import Link, ReconnectingLink, RedisReply, Stats, pack
from node.store.scripts import Arg, Script

CallResult: TypeAlias = RedisReply | ReplyError | StoreUnavailable | CommandFailed
"""How a call ended. Errors are values, so that an error whose caller is gone is dropped silently; the store raises
them."""

MAX_BATCH = 16
"""Most calls in one EVALSHA. More would gain little, and other commands wait while Redis runs it."""

SWEEPS = 16
"""Deadline checks within one timeout: a call fails at most 1/16 of the timeout late."""

ASKING = pack(("ASKING",))


class Call(msgspec.Struct):
    """One attempt to run a script with `keys` and `args`, or a plain command, given in `args`."""

    args: Sequence[Arg]
    slot: int
    deadline: float
    """Loop time by which the call is settled."""
    outcome: "asyncio.Future[CallResult]"
    script: Script | None = None
    keys: Sequence[str] = ()
    alone: bool = False
    """Whether it must not be batched: its slot is moving, so the keys of a batch may be on different servers."""
    asking: bool = False
    """Whether ASKING is sent before it, to the server that the slot is moving to."""

    replies_due: ClassVar[int] = 1
    """Number of replies that Redis sends to it."""

    @property
    def name(self) -> str:
        return self.script.name if self.script else str(self.args[0])

    def packed(self) -> bytes:
        """Return the bytes of the plain command. Raises TypeError, ValueError if an argument cannot be encoded."""
        return pack(tuple(self.args))

    def take(self, reply: RedisReply | ReplyError) -> None:
        """Accept the reply to this call, or the next one of several."""
        self.settle(reply)

    def settle(self, outcome: CallResult) -> None:
        """Give the caller the outcome, unless it already has one or is gone."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Unawaited(Call, kw_only=True):
    """A call whose result nobody waits for. `failed` is called, at most once, if it fails.

    All such calls share one `outcome`, which is never settled, so that no future and no callback is made for each.
    """

    failed: "Callable[[Unawaited, Exception], None]"
    is_settled: bool = False

    def settle(self, outcome: CallResult) -> None:
        if isinstance(outcome, Exception) and not self.is_settled:
            self.failed(self, outcome)
        self.is_settled = True


class Pipeline(Call, kw_only=True):
    """Plain commands that are sent together. The outcome is the list of their replies, with errors as values.

    Many commands cost a tenth of what they would as single calls.
    """

    commands: Sequence[Sequence[Arg]]
    replies: list[Any] = []

    @property
    def replies_due(self) -> int:  # type: ignore[override]
        return len(self.commands)

    def packed(self) -> bytes:
        return b"".join([pack(tuple(command)) for command in self.commands])

    def take(self, reply: RedisReply | ReplyError) -> None:
        self.replies.append(reply)
        if len(self.replies) == len(self.commands):
            self.settle(self.replies)


class Connection(ReconnectingLink):
    """The calls of this process to one server."""

    USE = "calls"

    def __init__(
        self, server: ServerAddress, access: Access, timeout: float, stats: Stats, before_flush: Callable[[], None]
    ) -> None:
        """`before_flush` is called before calls are sent, and may submit more calls."""
        self._before_flush = before_flush
        self._unsent: list[Call] = []
        self._ahead = 0
        """Number of calls at the front of `_unsent` that came through `submit_ahead`."""
        self._sent: deque[list[Call]] = deque()
        """For each reply to come, the calls that it answers: one, those of a batch, or none (ASKING). A pipeline
        occurs once for each of its replies."""
        self._flushing = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._loads: dict[str, asyncio.Task[CallResult]] = {}
        self.loaded: set[str] = set()
        """Names of the scripts that `Store.send` has loaded into the server since the connection was made."""
        self._retired = False
        self.server_id = 0
        """The `Store.server_id` of the present link; while there is none, that of the last link."""
        super().__init__(server, access, timeout, stats)

    def submit(self, call: Call) -> "asyncio.Future[CallResult]":
        """Send `call` with the other calls of this turn of the event loop. Returns the future of its outcome."""
        if self._link is None and not self._may_link_in_time():
            call.settle(StoreUnavailable(self.trouble))
            return call.outcome
        self._stats.calls += call.replies_due
        self._stats.in_flight += call.replies_due
        self._unsent.append(call)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)
        return call.outcome

    def submit_ahead(self, call: Call) -> None:
        """`submit` a call, and put it ahead of the calls that were submitted and not sent yet."""
        self.submit(call)
        if self._unsent and self._unsent[-1] is call:
            self._unsent.insert(self._ahead, self._unsent.pop())
            self._ahead += 1

    async def load(self, script: Script, deadline: float) -> CallResult:
        """Load both forms of `script` into the server. Concurrent calls for the same script share one load.

        Returns None, or an exception as a value.
        """
        task = self._loads.get(script.name)
        if task is None:
            task = self._loads[script.name] = self._loop.create_task(self._load(script, deadline))
            task.add_done_callback(lambda _: self._loads.pop(script.name))
        return await asyncio.shield(task)

    def retire(self) -> None:
        """Refuse new calls and close after the replies to those sent: the server has left the cluster's map."""
        self._retired = True
        self.trouble = f"Redis at {self.server} has left the cluster's map"
        self._abandon_unsent(self._unsent)
        self._close_if_done()

    async def close(self) -> None:
        self._retired = True
        self._abandon_unsent(self._unsent)
        await super().close()

    def linked(self, link: Link) -> None:
        link.deliver = self._deliver
        link.on_writable = self.flush
        self.server_id = link.server_id
        self.loaded.clear()
        self.flush()

    def unlinked(self) -> None:
        for calls in self._sent:
            self._stats.in_flight -= len(calls)
            for call in calls:
                call.settle(OutcomeUnknown(self.trouble))
        self._sent.clear()

    def _may_link_in_time(self) -> bool:
        """Return whether a call that waits for the connection may still be sent in time."""
        return not self._retired and self._loop.time() - self._down_since < self.timeout

    def flush(self) -> None:
        """Write the calls of this turn, or keep them for later if the connection cannot take them now."""
        self._flushing = False
        self._before_flush()
        self._start_sweeps()
        link = self._link
        if link is None or not link.writable or not self._unsent:
            return
        gathered, self._unsent, self._ahead = self._unsent, [], 0
        commands: list[bytes] = []
        for calls in self._grouped(gathered):
            self._pack(calls, commands)
        link.write(b"".join(commands))

    def _grouped(self, gathered: list[Call]) -> Iterator[list[Call]]:
        """Yield, for each command to send, the calls that it carries. Calls whose caller is gone are left out."""
        groups: dict[tuple[str, int], list[Call]] = {}
        for call in gathered:
            if call.outcome.done():
                self._stats.in_flight -= call.replies_due
            elif call.script is None or call.alone:
                yield [call]
            else:
                group = groups.setdefault((call.script.name, call.slot), [])
                group.append(call)
                if len(group) == MAX_BATCH:
                    yield groups.pop((call.script.name, call.slot))
        yield from groups.values()

    def _pack(self, calls: list[Call], commands: list[bytes]) -> None:
        """Append the command that carries `calls` to `commands`, and record that these wait for its reply."""
        first, script = calls[0], calls[0].script
        try:
            if script is None:
                command = first.packed()
            elif len(calls) == 1:
                command = pack(tuple(script.single(first.keys, first.args)))
            else:
                command = pack(tuple(script.batch([(call.keys, call.args) for call in calls])))
        except (TypeError, ValueError) as error:
            self._refuse(calls, error, commands)
            return
        if first.asking:
            commands.append(ASKING)
            self._sent.append([])
        elif len(calls) > 1:
            self._stats.batches += 1
        commands.append(command)
        self._sent.extend([calls] * first.replies_due)

    def _refuse(self, calls: list[Call], error: Exception, commands: list[bytes]) -> None:
        """Fail the call whose argument cannot be encoded, and send the other `calls` one by one."""
        if len(calls) > 1:
            for call in calls:
                self._pack([call], commands)
            return
        self._stats.in_flight -= calls[0].replies_due
        calls[0].settle(CommandFailed(f"{calls[0].name}: {error}"))

    def _deliver(self, reply: RedisReply | ReplyError) -> None:
        """Give a reply to the calls that have waited longest."""
        if not self._sent:  # the order is lost
            self.drop("a reply that nobody asked for")
            return
        calls = self._sent.popleft()
        self._stats.in_flight -= len(calls)
        if len(calls) == 1:
            calls[0].take(reply)
        elif calls:
            self._deliver_batch(calls, reply)
        if self._retired:
            self._close_if_done()

    def _deliver_batch(self, calls: list[Call], reply: RedisReply | ReplyError) -> None:
        """Give each call its reply from the list that answers a batch. An error instead of a list, such as NOSCRIPT or
        OOM, goes to every call."""
        if isinstance(reply, list) and len(reply) == len(calls):
            for call, own in zip(calls, reply, strict=True):
                call.settle(own)
            return
        for call in calls:
            call.settle(
                reply if isinstance(reply, ReplyError) else CommandFailed(f"{call.name}: its batch lost replies")
            )

    def _start_sweeps(self) -> None:
        """Start to check deadlines if a call is under way. One timer for all calls is cheaper than one for each."""
        if self._sweep_timer is None and (self._unsent or self._sent):
            self._sweep_due = self._loop.time() + self.timeout / SWEEPS
            self._sweep_timer = self._loop.call_at(self._sweep_due, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        now = self._loop.time()
        # If this sweep is very late, the event loop was blocked, and replies may have arrived that are not read yet.
        if now - self._sweep_due < self.timeout / 2:
            self._fail_overdue(now)
        self._start_sweeps()

    def _fail_overdue(self, now: float) -> None:
        """Settle the calls that are past their deadline, and drop a link on which nothing came for a whole timeout."""
        self._abandon_unsent([call for call in self._unsent if call.deadline <= now])
        overdue = [call for calls in self._sent for call in calls if call.deadline <= now]
        for call in overdue:
            call.settle(OutcomeUnknown(f"Redis at {self.server} did not answer in time"))
        if overdue and self._link and now - self._link.heard_at >= self.timeout:
            # An unused link is silent, too, so the silence is counted from the first unanswered call.
            asked_at = min(call.deadline for call in overdue) - self.timeout
            self.drop(f"silent for {now - max(asked_at, self._link.heard_at):.1f} s")

    def _abandon_unsent(self, calls: list[Call]) -> None:
        if not calls:
            return
        gone = set(map(id, calls))
        self._ahead -= sum(id(call) in gone for call in self._unsent[: self._ahead])
        self._unsent = [call for call in self._unsent if id(call) not in gone]
        for call in calls:
            self._stats.in_flight -= call.replies_due
            call.settle(StoreUnavailable(self.trouble))

    def _close_if_done(self) -> None:
        if not self._sent:
            self.end()

    async def _load(self, script: Script, deadline: float) -> CallResult:
        outcomes = [
            self.submit(Call(("SCRIPT", "LOAD", source), 0, deadline, self._loop.create_future()))
            for source in script.sources().values()
        ]
        for outcome in outcomes:
            if isinstance(error := await outcome, OutcomeUnknown):
                return StoreUnavailable(str(error))  # the calls that wait for the script have not begun
            if isinstance(error, Exception):
                return error
        return None
