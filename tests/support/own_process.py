"""What a command changes in its process, undone where it runs in the process of the tests."""

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
    """Afterwards the environment, the handlers of signals and the hook for exceptions are what they were.

    With the handlers of a command that has ended, the process of the tests can be neither interrupted nor ended; a
    variable that it leaves is a setting of commands that later tests start.
    """
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    with patch.dict(os.environ), patch.object(sys, "excepthook", sys.excepthook):
        yield
    for signum, handler in handlers.items():
        signal.signal(signum, handler)
