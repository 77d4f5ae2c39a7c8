"""A process that stops closes the connections of clients that read nothing of their answers, and no others."""

import select
import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from node.web.unread import UnreadAnswers
from tests.support.servers import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other kernels are not asked")

MORE_THAN_FITS = 8 * 1024 * 1024


@contextmanager
def connected(listening: socket.socket) -> Generator[tuple[socket.socket, socket.socket]]:
    """A client with small buffers, and this process' end of its connection."""
    with ExitStack() as stack:
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listening.getsockname())
        accepted = stack.enter_context(listening.accept()[0])
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
        accepted.setblocking(False)
        yield client, accepted


def send_until_full(accepted: socket.socket) -> None:
    with suppress(BlockingIOError):
        sent = 0
        while sent < MORE_THAN_FITS:
            sent += accepted.send(bytes(65536))


def is_ended(accepted: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(accepted, 0)  # only errors and hang-ups
    return bool(waiting.poll(0))


def test_only_who_takes_nothing_is_let_go() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        elsewhere = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client, read = stack.enter_context(connected(listening))
        _, unread = stack.enter_context(connected(listening))
        _, idle = stack.enter_context(connected(listening))
        _, foreign = stack.enter_context(connected(elsewhere))
        for end in socket.socketpair():  # Unix sockets, like those to an embedded Redis
            stack.enter_context(end)
        for accepted in (read, unread, foreign):
            send_until_full(accepted)
        answers = UnreadAnswers(listening.getsockname()[1])
        client.settimeout(PATIENCE)
        has_room = select.poll()
        has_room.register(read, select.POLLOUT)

        def look() -> bool:
            """Look again, after the client that reads has taken something, which makes room for more."""
            until(lambda: client.recv(65536) and has_room.poll(0), "the client has taken something")
            send_until_full(read)
            answers.look()
            return is_ended(unread)

        until(look, "who takes nothing is let go")
        assert not any(map(is_ended, (read, idle, foreign)))
