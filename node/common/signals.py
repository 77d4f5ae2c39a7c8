"""What the processes of a node tell each other: signals, and a flag for processes that miss one."""

import mmap
import signal


class SharedFlag:
    """A flag that is set once, and seen by this process and all processes forked from it, earlier or later.

    It is a byte of shared memory. `multiprocessing.Event` has a lock, which a process that is killed while holding it
    would keep for ever.
    """

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1


DRAIN = signal.SIGUSR2
"""Sent to each web process when the node is going to stop. GET /ready then answers 503, so that load balancers stop
sending requests before the node stops listening."""

DRAINING = SharedFlag()
"""Set before DRAIN is sent. Otherwise a web process that is still starting, or replaces another one later, would report
itself ready, and load balancers would come back to a node that is about to end."""

RELEASE_WAITERS = signal.SIGUSR1
"""Sent to each web process just before it is told to stop: it answers the requests that wait for a change, so that
`wait=30` does not delay the stop."""
