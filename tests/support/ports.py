"""TCP ports for servers of tests: of any number of runs on one machine, no two are given the same one."""

import fcntl
import os
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import randrange

BUS = 10000  # what Redis adds to its port for the cluster bus
PORTS_EACH = 1000
BLOCKS = 10
"""Of PORTS_EACH each, from 10000 on: they and their bus ports are below those that the system gives to clients."""

_given: set[int] = set()


def free_port() -> int:
    """A TCP port that is free, as is its cluster bus port.

    No port is returned twice, since its user may not listen there yet.
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
    """The first port of the block of this process, which it has a lock on until it ends.

    If others have locks on all of them, it shares the block that its number in its own run gives it.
    """
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    firsts = [10000 + (own + number) % BLOCKS * PORTS_EACH for number in range(BLOCKS)]
    return next(filter(_locked, firsts), firsts[0])


def _locked(first: int) -> bool:
    """Whether this process has a lock on that block now. Another user's is not taken."""
    with suppress(OSError):
        file = os.open(Path(tempfile.gettempdir()) / f"relay-node-tests-{first}", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
        else:
            return True
    return False
