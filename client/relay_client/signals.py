"""SIGTERM and SIGINT, for programs that finish what they have begun."""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """What the two signals stop. A process has one handler for each: whatever runs side by side in it has to share."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self._before: dict[int, Any] = {}

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Generator[None, None, None]:
        """Within this, both signals call `stop`. After the last of several, they do again what they did before the
        first. Only for the main thread, whose event loop runs.
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
                loop.remove_signal_handler(signum)  # so that what is put back is no handler of a loop without one
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
