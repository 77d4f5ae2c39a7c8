"""TCP ports for test servers. Any number of test runs on one machine get different ports."""

import fcntl
import os
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import randrange

BUS = 10000  # offset of the Redis cluster bus port
PORTS_EACH = 1000
BLOCKS = 10
"""Number of blocks of PORTS_EACH ports, from port 10000 on. These ports and their bus ports are below the ephemeral
range.
"""

_given: set[int] = set()


def free_port() -> int:
    """Return a TCP port that is free and whose cluster bus port is free, too.

    No port is returned twice, since its user may not listen on it yet.
    """
    while True:
        port = _first_port() + randrange(PORTS_EACH)
        if port in _given:
            continue
        try:
            for candidate in (port, port + BUS):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", candidate))
        except OSError:
            continue
        _given.add(port)
        return port


@cache
def _first_port() -> int:
    """Return the first port of this process's block, which the process keeps locked until it ends.

    If other processes have locked all blocks, it shares the block chosen by its worker number in its own run.
    """
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    firsts = [10000 + (own + number) % BLOCKS * PORTS_EACH for number in range(BLOCKS)]
    return next(filter(_locked, firsts), firsts[0])


def _locked(first: int) -> bool:
    """Return whether this process now holds the lock of that block. A block locked by another user is not taken."""
    with suppress(OSError):
        file = os.open(Path(tempfile.gettempdir()) / f"relay-node-tests-{first}", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
        else:
            return True
    return False
