"""Listening sockets: what the connections that are accepted from them inherit."""

import errno
import select
import socket
import sys
from contextlib import ExitStack

import pytest

from node.run import listener
from tests.support.nodes import PATIENCE
from tests.support.servers import free_port


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such option")
def test_a_client_that_takes_nothing_of_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "UNREAD_MS", 100)
    with ExitStack() as stack:
        [listening] = (stack.enter_context(each) for each in listener.listen("127.0.0.1", free_port(), 1))
        stack.enter_context(socket.create_connection(listening.getsockname()))
        accepted, _ = listening.accept()
        stack.enter_context(accepted)
        accepted.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                accepted.send(bytes(65536))
        ended = select.poll()
        ended.register(accepted, 0)  # of errors alone
        assert ended.poll(PATIENCE * 1000)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT
