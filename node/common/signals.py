"""How the processes of a node notify each other: signals, and a flag for processes that miss a signal."""

import mmap
import signal


class SharedFlag:
    """A flag that is set once and seen by this process and all processes forked from it, earlier or later.

    It is a byte of shared memory. `multiprocessing.Event` has a lock, which would stay locked for ever if a process
    were killed while holding it.
    """

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1


DRAIN = signal.SIGUSR2
"""Sent to each web process before the node stops. GET /ready then answers 503, so that load balancers stop sending
requests before the node stops listening."""

DRAINING = SharedFlag()
"""Set before DRAIN is sent. Otherwise a web process that is still starting, or later replaces another one, would report
itself ready, and load balancers would return to a node that is about to stop."""

RELEASE_WAITERS = signal.SIGUSR1
"""Sent to each web process just before it is told to stop. It then answers the requests that wait for a change, so that
`wait=30` does not delay the stop."""
