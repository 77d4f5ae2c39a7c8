"""Clients that take nothing of their answers do not hold up a process that stops.

It ends when all connections have, and one that nobody reads from would last until the process is killed: without the
reports, metrics and traces that it sends last. Whoever reads at all is left alone.
"""

import asyncio
import fcntl
import os
import socket
import stat
import struct
import sys
import termios
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SILENT_SECONDS = 2.0
"""For which a client must take nothing. Over a slow or lossy link, something is acknowledged several times in that."""

OWN = Path("/proc/self/fd")

BYTES_ACKED = struct.Struct("@120xQ")
"""The field `tcpi_bytes_acked` of `struct tcp_info` (linux/tcp.h): how much the client has acknowledged."""


class UnreadAnswers:
    """The connections to a port of this process whose client has not taken all that was sent. Linux only: elsewhere
    they stay."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._taken: dict[int, int] = {}
        """Of each, when last looked at, how much its client had taken, by its file descriptor."""

    async def run(self) -> None:
        """Look every SILENT_SECONDS until cancelled."""
        if sys.platform != "linux":
            return
        while True:
            self.look()
            await asyncio.sleep(SILENT_SECONDS)

    def look(self) -> None:
        """End those whose client has taken nothing since the last look."""
        before, self._taken = self._taken, dict(_unread(self._port))
        for descriptor, taken in self._taken.items():
            if before.get(descriptor) == taken:
                with suppress(OSError), _connection(descriptor) as connection:  # it may just have ended
                    connection.shutdown(socket.SHUT_RDWR)


def _unread(port: int) -> Iterator[tuple[int, int]]:
    """The connections to that port with something that its client has not taken yet, and how much it has taken."""
    for descriptor in (int(each.name) for each in OWN.iterdir()):
        with suppress(OSError):  # it was closed meanwhile, or is of another kind
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with _connection(descriptor) as connection:
                    is_one = connection.family in (socket.AF_INET, socket.AF_INET6)
                    if is_one and connection.getsockname()[1] == port and _has_unsent(connection):
                        about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.size)
                        yield descriptor, BYTES_ACKED.unpack(about)[0]


def _has_unsent(connection: socket.socket) -> bool:
    """Whether there is anything that has not been acknowledged. Raises OSError for a socket that listens."""
    (waiting,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    return bool(waiting)


@contextmanager
def _connection(descriptor: int) -> Generator[socket.socket]:
    """The socket of that descriptor, which belongs to somebody else and stays open."""
    connection = socket.socket(fileno=os.dup(descriptor))
    try:
        yield connection
    finally:
        connection.close()
