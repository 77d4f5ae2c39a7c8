"""Undoes what a command changes in its process, where it runs in the process of the tests."""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from node.common.signals import DRAIN, RELEASE_WAITERS

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, DRAIN, RELEASE_WAITERS)


@contextmanager
def kept_as_it_was() -> Generator[None]:
    """Restore the environment, the signal handlers and the exception hook after the block.

    The signal handlers of a finished command would keep the test process from being interrupted or terminated; a
    variable that the command leaves would become a setting of commands that later tests start.
    """
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    with patch.dict(os.environ), patch.object(sys, "excepthook", sys.excepthook):
        yield
    for signum, handler in handlers.items():
        signal.signal(signum, handler)
