"""Closes connections whose client does not read its answer, so that they do not delay a process that stops.

A process ends when all its connections have ended. A connection that is not read from would last until the process is
killed, and a killed process does not send its last reports, metrics and traces. A client that reads anything at all is
left alone.
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
"""Time within which a client must read something. Even a slow or lossy link acknowledges several segments in it."""

OWN = Path("/proc/self/fd")

BYTES_ACKED = struct.Struct("@120xQ")
"""The field `tcpi_bytes_acked` of `struct tcp_info` (linux/tcp.h): bytes that the client has acknowledged."""


class UnreadAnswers:
    """The connections to a port of this process whose client has not acknowledged everything that was sent. Linux only:
    on other systems these connections stay open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._taken: dict[int, int] = {}
        """Bytes that the client of each connection had acknowledged at the last look, by file descriptor."""

    async def run(self) -> None:
        """Call `look` every SILENT_SECONDS until cancelled."""
        if sys.platform != "linux":
            return
        while True:
            self.look()
            await asyncio.sleep(SILENT_SECONDS)

    def look(self) -> None:
        """Shut down the connections whose client has acknowledged nothing since the last look."""
        before, self._taken = self._taken, {}
        for descriptor in [int(each.name) for each in OWN.iterdir()]:
            with suppress(OSError):  # closed in the meantime, or not a connection
                self._look_at(descriptor, before.get(descriptor))

    def _look_at(self, descriptor: int, taken_before: int | None) -> None:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return
        with socket.socket(fileno=os.dup(descriptor)) as connection:  # a duplicate: the socket belongs to the server
            is_tcp = connection.family in {socket.AF_INET, socket.AF_INET6}
            if is_tcp and connection.getsockname()[1] == self._port and _has_unsent(connection):
                about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.size)
                (self._taken[descriptor],) = BYTES_ACKED.unpack(about)
                if self._taken[descriptor] == taken_before:
                    connection.shutdown(socket.SHUT_RDWR)


def _has_unsent(connection: socket.socket) -> bool:
    """Return whether any sent data has not been acknowledged. Raises OSError for a listening socket."""
    return any(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
