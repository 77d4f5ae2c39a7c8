"""SIGTERM and SIGINT for programs that finish the work that they have begun."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """What the two signals stop. A process has only one handler for each, which everything running in it must share."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self._before: dict[int, Any] = {}

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Generator[None, None, None]:
        """Make both signals call `stop` within this context. Only for the main thread, with a running event loop.

        After the last of several contexts, the signals do again what they did before the first.
        """
        if not self._stops:
            self._take_over(asyncio.get_running_loop())
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)
            if not self._stops:
                self._give_back(asyncio.get_running_loop())

    def _take_over(self, loop: asyncio.AbstractEventLoop) -> None:
        for signum in SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signum)  # so that the loop's own handler is not saved and restored
            self._before[signum] = signal.getsignal(signum) or signal.SIG_DFL
            try:
                loop.add_signal_handler(signum, self._stop_all)
            except NotImplementedError:  # on Windows
                signal.signal(signum, self._stop_all)

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        for signum in SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(signum)
            signal.signal(signum, self._before[signum])

    def _stop_all(self, *_: object) -> None:
        for stop in self._stops:
            stop()


signals = Signals()
