"""Ends connections whose client reads nothing of its answer, so that they do not hold up a process that stops.

A process ends when all its connections have ended. One that is not read from would last until the process is killed,
without the reports, metrics and traces that it sends last. A client that reads at all is left alone.
"""

import asyncio
import fcntl
import os
import socket
import stat
import struct
import sys
import termios
from contextlib import suppress
from pathlib import Path

SILENT_SECONDS = 2.0
"""Time in which a client must read something: even a slow or lossy link acknowledges several pieces in it."""

OWN = Path("/proc/self/fd")

BYTES_ACKED = struct.Struct("@120xQ")
"""The field `tcpi_bytes_acked` of `struct tcp_info` (linux/tcp.h): how much the client has acknowledged."""


class UnreadAnswers:
    """The connections to a port of this process whose client has not acknowledged all that was sent. Linux only:
    elsewhere they stay."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._taken: dict[int, int] = {}
        """Bytes that the client of each had acknowledged at the last look, by file descriptor."""

    async def run(self) -> None:
        """Look every SILENT_SECONDS until cancelled."""
        if sys.platform != "linux":
            return
        while True:
            self.look()
            await asyncio.sleep(SILENT_SECONDS)

    def look(self) -> None:
        """End those whose client has acknowledged nothing since the last look."""
        before, self._taken = self._taken, {}
        for descriptor in [int(each.name) for each in OWN.iterdir()]:
            with suppress(OSError):  # it was closed meanwhile, or is no connection
                self._look_at(descriptor, before.get(descriptor))

    def _look_at(self, descriptor: int, taken_before: int | None) -> None:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return
        with socket.socket(fileno=os.dup(descriptor)) as connection:  # a copy: the socket belongs to somebody else
            is_tcp = connection.family in {socket.AF_INET, socket.AF_INET6}
            if is_tcp and connection.getsockname()[1] == self._port and _has_unsent(connection):
                about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.size)
                (self._taken[descriptor],) = BYTES_ACKED.unpack(about)
                if self._taken[descriptor] == taken_before:
                    connection.shutdown(socket.SHUT_RDWR)


def _has_unsent(connection: socket.socket) -> bool:
    """Whether there is anything that has not been acknowledged. Raises OSError for a socket that listens."""
    return any(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
