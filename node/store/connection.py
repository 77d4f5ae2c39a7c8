"""The multiplexed connection: every call of this process to one server goes through one of these.

Calls made during one turn of the event loop are written together at its end, those of the same
script as one (group commit), and replies are matched to calls by order alone. So nothing may come
between: a caller that gives up leaves its place in the line, and its reply is thrown away.

A call waits unsent while the connection is being made, for as long as one call may take; when the
server has been gone longer than that, calls are refused at once. No command that blocks (`BLPOP`,
`XREAD BLOCK`) belongs here: it would hold up everybody.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from hiredis import ReplyError

from node.store.address import Access, ServerAddress
from node.store.errors import CommandFailed, OutcomeUnknown, StoreUnavailable
from node.store.link import Link, ReconnectingLink, RedisReply, Stats, pack
from node.store.scripts import Arg, Script

CallResult: TypeAlias = RedisReply | ReplyError | StoreUnavailable | CommandFailed
"""What a call comes to. Errors are values here, so that an abandoned one disturbs nobody; a store raises them."""

MAX_BATCH = 16  # calls in one EVALSHA: most of what batching gains (facts/performance.md), and a short turn for others
SWEEPS = 16  # looks at the deadlines during one timeout, so a call fails at most 1/16 late
ASKING = pack(("ASKING",))


class Call(msgspec.Struct):
    """One attempt at a script with its keys and arguments, or at a plain command in `args`."""

    script: Script | None
    keys: Sequence[str]
    args: Sequence[Arg]
    slot: int
    deadline: float
    """Loop time by which the caller has its outcome."""
    outcome: "asyncio.Future[CallResult]"
    alone: bool = False
    """Never batched: the slot is moving, and what holds for one key may not hold for the next."""
    asking: bool = False
    """Goes to the server that the slot is moving to (ASK)."""

    @property
    def name(self) -> str:
        return self.script.name if self.script else str(self.args[0])

    def settle(self, outcome: CallResult) -> None:
        """Tell the caller, unless it has been told or has gone."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Connection(ReconnectingLink):
    """One link to one server, shared by all callers."""

    def __init__(self, server: ServerAddress, access: Access, timeout: float, stats: Stats) -> None:
        self._unsent: list[Call] = []
        self._sent: deque[list[Call]] = deque()
        """For each reply to come, the calls that it answers: one, a batch, or none."""
        self._flushing = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._loads: dict[str, asyncio.Task[CallResult]] = {}
        self._retired = False
        super().__init__(server, access, timeout, stats)

    def submit(self, call: Call) -> "asyncio.Future[CallResult]":
        """Send `call` with the others of this turn. It is settled by its deadline, whatever happens."""
        if self._link is None and not self._hopeful():
            call.settle(StoreUnavailable(self.trouble))
            return call.outcome
        self._stats.calls += 1
        self._stats.in_flight += 1
        self._unsent.append(call)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
        return call.outcome

    async def load(self, script: Script, deadline: float) -> CallResult:
        """Give the server the forms of `script`; concurrent wishes for the same one are granted together."""
        task = self._loads.get(script.name)
        if task is None:
            task = self._loads[script.name] = self._loop.create_task(self._load(script, deadline))
            task.add_done_callback(lambda _: self._loads.pop(script.name))
        return await asyncio.shield(task)

    def retire(self) -> None:
        """The server serves nothing of ours any more: answer what was sent, take no more, then close."""
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
        link.on_writable = self._flush
        self._flush()

    def unlinked(self) -> None:
        for calls in self._sent:
            self._stats.in_flight -= len(calls)
            for call in calls:
                call.settle(OutcomeUnknown(self.trouble))
        self._sent.clear()

    def _hopeful(self) -> bool:
        return not self._retired and self._loop.time() - self._down_since < self.timeout

    def _flush(self) -> None:
        """Write what this turn has gathered."""
        self._flushing = False
        self._watch()
        link = self._link
        if link is None or not link.writable:
            return
        gathered, self._unsent = self._unsent, []
        packed: list[bytes] = []
        for calls in self._grouped(gathered):
            self._pack(calls, packed)
        link.write(b"".join(packed))

    def _grouped(self, gathered: list[Call]) -> Iterator[list[Call]]:
        """The calls that each command of ours will carry; those that nobody waits for any more are left out."""
        groups: dict[tuple[str, int], list[Call]] = {}
        for call in gathered:
            if call.outcome.done():
                self._stats.in_flight -= 1
            elif call.script is None or call.alone:
                yield [call]
            else:
                group = groups.setdefault((call.script.name, call.slot), [])
                group.append(call)
                if len(group) == MAX_BATCH:
                    yield groups.pop((call.script.name, call.slot))
        yield from groups.values()

    def _pack(self, calls: list[Call], packed: list[bytes]) -> None:
        first, script = calls[0], calls[0].script
        try:
            if script is None:
                command = pack(tuple(first.args))
            elif len(calls) == 1:
                command = pack(tuple(script.single(first.keys, first.args)))
            else:
                command = pack(tuple(script.batch([(call.keys, call.args) for call in calls])))
        except (TypeError, ValueError) as error:
            self._refuse(calls, error, packed)
            return
        if first.asking:
            packed.append(ASKING)
            self._sent.append([])
        elif len(calls) > 1:
            self._stats.batches += 1
        packed.append(command)
        self._sent.append(calls)

    def _refuse(self, calls: list[Call], error: Exception, packed: list[bytes]) -> None:
        """One of `calls` cannot be put into bytes; the others must not suffer from it."""
        if len(calls) > 1:
            for call in calls:
                self._pack([call], packed)
            return
        self._stats.in_flight -= 1
        calls[0].settle(CommandFailed(f"{calls[0].name}: {error}"))

    def _deliver(self, reply: RedisReply | ReplyError) -> None:
        """Hand the next reply to whom it belongs."""
        if not self._sent:  # a reply that nobody asked for: we no longer know whose the next one is
            self.drop()
            return
        calls = self._sent.popleft()
        self._stats.in_flight -= len(calls)
        if len(calls) == 1:
            calls[0].settle(reply)
        elif calls:
            self._deliver_batch(calls, reply)
        if self._retired:
            self._close_if_done()

    def _deliver_batch(self, calls: list[Call], reply: RedisReply | ReplyError) -> None:
        """A batch is answered by a list; an error instead, such as NOSCRIPT or OOM, answers each of its calls."""
        if isinstance(reply, list) and len(reply) == len(calls):
            for call, own in zip(calls, reply, strict=True):
                call.settle(own)
            return
        for call in calls:
            call.settle(
                reply if isinstance(reply, ReplyError) else CommandFailed(f"{call.name}: its batch lost replies")
            )

    def _watch(self) -> None:
        """See to it that deadlines are looked at while there are any: one timer for all calls."""
        if self._sweep_timer is None and (self._unsent or self._sent):
            self._sweep_due = self._loop.time() + self.timeout / SWEEPS
            self._sweep_timer = self._loop.call_at(self._sweep_due, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        now = self._loop.time()
        if now - self._sweep_due < self.timeout / 2:  # else we were held up ourselves: first read what has come
            self._fail_overdue(now)
        self._watch()

    def _fail_overdue(self, now: float) -> None:
        """Settle what is past its deadline, and drop a link on which the server has gone silent."""
        self._abandon_unsent([call for call in self._unsent if call.deadline <= now])
        overdue = [call for calls in self._sent for call in calls if call.deadline <= now]
        for call in overdue:
            call.settle(OutcomeUnknown(f"Redis at {self.server} did not answer in time"))
        if overdue and self._link and now - self._link.heard >= self.timeout:
            self.drop()

    def _abandon_unsent(self, calls: list[Call]) -> None:
        if not calls:
            return
        gone = set(map(id, calls))
        self._unsent = [call for call in self._unsent if id(call) not in gone]
        self._stats.in_flight -= len(calls)
        for call in calls:
            call.settle(StoreUnavailable(self.trouble))

    def _close_if_done(self) -> None:
        if not self._sent:
            self.let_go()

    async def _load(self, script: Script, deadline: float) -> CallResult:
        outcomes = [
            self.submit(Call(None, (), ("SCRIPT", "LOAD", source), 0, deadline, self._loop.create_future()))
            for source in script.sources().values()
        ]
        for outcome in outcomes:
            if isinstance(error := await outcome, Exception):
                return error
        return None
