"""Streams a task and its changes as server-sent events (A2A v1.0 §3.1.2, §3.1.6).

A change of a task wakes every process that follows the task, so a client may reconnect to any process.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from node.a2a.inboxes.service import InboxAgents
from node.a2a.inboxes.view import ENDS, PAUSES, StreamResponse, latest
from node.common.refusal import Refused
from node.inbox.model import InboxTask
from node.store.errors import StoreUnavailable
from node.web.streams import STREAM_SECONDS, Piece, one_line, send_in_time

COMMENT = b": still here\n\n"

HEARTBEAT_SECONDS = 4.0
"""Longest silence on a stream. By default, the official Python client gives up after 5 s without a byte."""

Form = Callable[[bytes], bytes]
"""Converts the JSON of a StreamResponse into the event data of a binding."""


class TaskStream:
    """One stream: the task in its current state, then its changes."""

    def __init__(
        self,
        agents: InboxAgents,
        address: str,
        task: InboxTask,
        form: Form,
        history_length: int | None = None,
        *,
        is_whole: bool,
    ) -> None:
        """`history_length`: for the task in the first event. `is_whole`: whether the stream goes on until the task is
        over, even while the task waits for its sender.
        """
        self._agents = agents
        self._address = address
        self._task = task
        self._form = form
        self._history_length = history_length
        self._ends = ENDS if is_whole else PAUSES

    async def run(self, send: Piece) -> None:
        """Send events until the stream ends, the client is too slow, the process stops, or STREAM_SECONDS have passed.

        A client that subscribes again gets the current state of the task. The caller cancels this method when the
        client is gone.
        """
        ends = asyncio.get_running_loop().time() + STREAM_SECONDS
        with suppress(StoreUnavailable, Refused, TimeoutError):  # the client subscribes again and gets the error then
            await send_in_time(self._first(), send)
            while self._task.last.status not in self._ends and self._agents.may_wait:
                left = ends - asyncio.get_running_loop().time()
                if left <= 0:
                    break
                await self._go_on(min(HEARTBEAT_SECONDS, left), send)

    async def _go_on(self, seconds: float, send: Piece) -> None:
        """Wait for a change of the task and send its events; after `seconds` without a change, send a heartbeat."""
        before = self._task
        task = await self._agents.until_changed(self._address, before, seconds)
        if task.version == before.version:
            await send_in_time(COMMENT, send)
        for turn in task.turns:
            for event in self._agents.view.events(task, turn, before.last):
                await send_in_time(self._event(event), send)
            self._task = msgspec.structs.replace(task, turns=[turn])
            if turn.status in self._ends:
                break

    def _first(self) -> bytes:
        whole, self._task = self._task, latest(self._task)
        return self._event(StreamResponse(task=self._agents.view.task(whole, self._history_length)))

    def _event(self, event: StreamResponse) -> bytes:
        return b"data: %b\n\n" % one_line(self._form(msgspec.json.encode(event)))
