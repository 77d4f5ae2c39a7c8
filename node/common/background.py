"""The background tasks of a process. A task that fails is logged, counted and restarted."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

import structlog

from node.common import counters
from node.common.stopping import sleep_unless_stopped

log = structlog.get_logger()

FIRST_PAUSE = 0.1
"""Seconds before a failed task is restarted; the backoff doubles with each failure in a row."""

MAX_PAUSE = 30.0
"""Longest backoff, in seconds. After a run that lasted longer than this, the next pause is FIRST_PAUSE again."""

CoroutineFunction = Callable[[], Coroutine[Any, Any, None]]


async def report_every(seconds: float, report: CoroutineFunction) -> None:
    """Call `report` every `seconds` until cancelled, and then once more, so that nothing is left unreported."""
    try:
        while True:
            await asyncio.sleep(seconds)
            await report()
    finally:
        await report()


class Background:
    """Background tasks of one process."""

    def __init__(self, stop: asyncio.Event | None = None) -> None:
        """`stop`: once it is set, a task that fails is not restarted."""
        self._stop = stop or asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: CoroutineFunction) -> "asyncio.Task[None]":
        """Run `work` until it returns or `close` is called, restarting it each time it fails. Returns its task."""
        counters.RESTARTS.setdefault(name, 0)  # so that a monitor sees the first failure as an increase
        task = asyncio.create_task(self._supervise(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all tasks, and wait until they have cleaned up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _supervise(self, name: str, work: CoroutineFunction) -> None:
        pause = FIRST_PAUSE
        while True:
            began = monotonic()
            task = asyncio.create_task(work())
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise
            try:
                failure = task.exception()
            except asyncio.CancelledError as stray:  # not by `close`: the work awaited something cancelled
                failure = stray
            if failure is None:
                return
            counters.RESTARTS[name] += 1
            log.error("background task failed", task=name, exc_info=failure)
            if monotonic() - began > MAX_PAUSE:  # it ran well meanwhile
                pause = FIRST_PAUSE
            await sleep_unless_stopped(self._stop, pause)
            if self._stop.is_set():
                return
            pause = min(2 * pause, MAX_PAUSE)
