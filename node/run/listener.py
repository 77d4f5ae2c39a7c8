"""The listening sockets of a node, which outlive the processes that accept from them.

Each web process accepts from a socket of its own, and the kernel distributes new connections among them (SO_REUSEPORT).
Granian would open the sockets in the web processes: if one died, the connections in its queue would be reset, and with
no process at all, new ones would be refused. Here the supervisor opens the sockets and hands them down. While web
processes are replaced, one or all of them, new connections wait in the queues.
"""

import errno
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

import structlog
from granian._granian import SocketHolder
from granian.server.mp import MPServer, WorkerProcess

from node.config import ConfigError

BACKLOG = 4096
"""Connections that may wait to be accepted in each queue. The kernel's own limit, net.core.somaxconn, is 4096, too."""

STEADY_SECONDS = 5.0
"""A web process that dies within this time, in seconds, has failed to start."""

FIRST_PAUSE, MAX_PAUSE = 0.25, 5.0
"""Seconds before a process that failed to start is replaced. The pause doubles each time, so that a process that cannot
start does not use up a core."""

UNREAD_MS = 30_000
"""Milliseconds for which a client may read nothing of a response before the kernel ends the connection. Granian would
keep unsent data for ever, 2 MB and more for each connection."""

UNSENT_BYTES = 128 * 1024
"""About how many bytes of a response the kernel buffers besides those that are in flight. By default, it buffers 4 MB
for each connection whose client reads nothing, and counts them as memory of the container."""

KILL_SECONDS = 7
"""Seconds that a stopping web process has to finish requests in flight. A body that does not arrive is given up after
5 s, and the whole node must have ended after 10 s.
"""

HANDED_DOWN = "NODE_LISTENERS"
"""Environment variable with the file descriptors of the sockets, separated by commas, for a child of the supervisor."""

logger = structlog.stdlib.get_logger("node.run.listener")


class AddressInUse(ConfigError):
    """Another process listens there. It may be about to end, so whoever starts this process may retry."""

    status = os.EX_TEMPFAIL


def bound(host: str, port: int, names: str = "RELAY_HOST or RELAY_PORT", *, shared: bool = False) -> socket.socket:
    """Return a socket bound to the address; no other socket can be bound to it, unless `shared`.

    Raises AddressInUse, or ConfigError if this machine has no such address; `names` are the settings to change.
    """
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = socket.socket(family, kind)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT are no obstacle
            if shared:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except (OSError, UnicodeError) as error:  # UnicodeError: the host is not a valid name
        why = f"cannot listen on {host} port {port}: {error.strerror if isinstance(error, OSError) else 'no such host'}"
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        raise (AddressInUse if is_taken else ConfigError)(f"{why}; change {names}") from error
    return made


def listen(host: str, port: int, processes: int) -> list[socket.socket]:
    """Return a listening socket for each web process. Raises ConfigError as `bound`."""
    bound(host, port).close()  # fails if another node has the port; the sockets below would just share it
    sockets = [bound(host, port, shared=True) for _ in range(processes)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit these options
        if sys.platform == "linux":
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        each.listen(BACKLOG)
    return sockets


def handed_down() -> list[socket.socket]:
    """Return the sockets that the supervisor opened; none in a process that has no supervisor."""
    descriptors = os.environ.pop(HANDED_DOWN, "")
    return [socket.socket(fileno=int(each)) for each in descriptors.split(",") if each]


class Server(MPServer):
    """Granian with one worker for each given socket.

    It hands the sockets to the workers as Granian 2.8 does on systems where only the parent can open sockets.
    """

    def __init__(self, app: str, listeners: Sequence[socket.socket], **options: Any) -> None:
        host, port = listeners[0].getsockname()[:2]
        # Granian never reloads here. Without `reload_paths` it asks for the working directory, which may be gone.
        options |= {"address": host, "port": port, "backlog": BACKLOG, "reload_paths": [Path(os.sep)]}
        super().__init__(app, workers=len(listeners), **options)  # pyright: ignore[reportUnknownMemberType]
        self._listeners = listeners
        self._pause = 0.0
        self._stops = threading.Event()

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        """Make `serve` end all web processes and return."""
        self._stops.set()
        super().signal_handler_interrupt(*args, **kwargs)  # pyright: ignore[reportUnknownMemberType]

    def _respawn_workers(self, workers: Sequence[int], *how: Any, **more: Any) -> None:
        """Replace web processes that have died, after a pause if one of them had just been started.

        If a process died twice within seconds, Granian would give up and end all others with the requests they hold.
        """
        is_soon = any(time.monotonic() - self.wrks[each].birth < STEADY_SECONDS for each in workers)
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), MAX_PAUSE) if is_soon else 0.0
        if not self._stops.wait(self._pause):
            super()._respawn_workers(workers, *how, **more)  # pyright: ignore[reportUnknownMemberType]
        self.respawned_wrks.clear()  # pyright: ignore[reportUnknownMemberType]

    def _init_shared_socket(self) -> None:
        self._ssp = None

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Callable[[], Any]) -> WorkerProcess:
        own = self._listeners[idx]
        backlog = (BACKLOG,) if sys.platform == "linux" else ()
        self._shd, self._sso = cast("Any", SocketHolder)(own.fileno(), False, *backlog), own
        is_forked = multiprocessing.get_start_method() == "fork"  # otherwise a process inherits only its own socket
        others = [each for each in self._listeners if each is not own] if is_forked else []
        load = partial(_load_without, others, callback_loader)
        return super()._spawn_worker(idx, target, load)  # pyright: ignore[reportUnknownMemberType]

    def _drop_shared_socket(self) -> None:
        for each in self._listeners:
            each.close()

    def _stop_workers(self) -> None:
        """End all web processes: terminate them, and kill those that still run after KILL_SECONDS.

        Granian asks `multiprocessing` whether a process is alive. If the thread that watches the process has just
        reaped it, the answer is yes, and a process that has ended in order is reported as killed. The sentinel is
        exact.
        """
        for each in self.wrks:
            each.terminate()
        deadline = time.monotonic() + KILL_SECONDS
        for each in self.wrks:
            inner = cast("BaseProcess", each.inner)  # pyright: ignore[reportUnknownMemberType]
            if not wait([inner.sentinel], max(0.0, deadline - time.monotonic())):
                logger.warning("web process killed: it did not stop in time", child_pid=inner.pid)
                each.kill()
            inner.join()
        self.wrks.clear()


def _load_without(others: Sequence[socket.socket], load: Callable[[], Any]) -> Any:
    """Close the sockets of other workers, so that this process does not keep the queue of a stopped one open."""
    for each in others:
        each.close()
    return load()
