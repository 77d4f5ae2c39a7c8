"""Listening sockets: what accepted connections inherit from them, and how the accepting processes are ended."""

import errno
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from multiprocessing.process import BaseProcess

import pytest
from granian.server.mp import WorkerProcess
from structlog.testing import capture_logs

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
        ended.register(accepted, 0)  # errors only
        assert ended.poll(PATIENCE * 1000)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels are not asked for it")
def test_the_kernel_keeps_little_for_a_client_that_reads_nothing() -> None:
    with ExitStack() as stack:
        [listening] = (stack.enter_context(each) for each in listener.listen("127.0.0.1", free_port(), 1))
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listening.getsockname())
        accepted = stack.enter_context(listening.accept()[0])
        accepted.setblocking(False)
        taken = 0
        with suppress(BlockingIOError):
            while taken < 8 * listener.UNSENT_BYTES:
                taken += accepted.send(bytes(listener.UNSENT_BYTES))
    assert listener.UNSENT_BYTES <= taken < 4 * listener.UNSENT_BYTES


def test_pieces_of_an_answer_do_not_wait_for_each_other() -> None:
    with ExitStack() as stack:
        [listening] = (stack.enter_context(each) for each in listener.listen("127.0.0.1", free_port(), 1))
        stack.enter_context(socket.create_connection(listening.getsockname()))
        accepted = stack.enter_context(listening.accept()[0])
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class Accepting(WorkerProcess):
    """A worker of Granian that only waits and is not supervised."""

    inner: BaseProcess

    def __init__(self, server: listener.Server) -> None:
        super().__init__(server, 0, signal.pause, ())  # pyright: ignore[reportUnknownMemberType]
        self.inner.start()
        server.wrks.append(self)

    @property
    def pid(self) -> int:
        return self.inner.pid or 0


@pytest.fixture
def server() -> Iterator[listener.Server]:
    with ExitStack() as sockets:
        yield listener.Server(
            "module:app", [sockets.enter_context(each) for each in listener.listen("127.0.0.1", free_port(), 1)]
        )


def test_a_web_process_whose_exit_status_another_thread_has_taken_is_not_reported_as_killed(
    server: listener.Server,
) -> None:
    ended = Accepting(server)
    os.kill(ended.pid, signal.SIGKILL)
    os.waitpid(ended.pid, 0)
    assert ended.is_alive()  # `multiprocessing` says so until the thread that took the exit status has stored it
    with capture_logs() as logged:
        server._stop_workers()  # pyright: ignore[reportPrivateUsage] - Granian calls it
    assert not logged
    assert not server.wrks


def test_a_web_process_that_does_not_stop_is_killed_and_reported(
    server: listener.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "KILL_SECONDS", 0)
    stuck = Accepting(server)
    os.kill(stuck.pid, signal.SIGSTOP)
    # Of two pending signals, the one with the lower number is delivered first, so a SIGTERM sent now would still end
    # it.
    os.waitid(os.P_PID, stuck.pid, os.WSTOPPED | os.WNOWAIT)
    with capture_logs() as logged:
        server._stop_workers()  # pyright: ignore[reportPrivateUsage] - Granian calls it
    assert [line["child_pid"] for line in logged] == [stuck.pid]
    assert stuck.inner.exitcode == -signal.SIGKILL


def test_a_web_process_that_ended_at_once_is_not_replaced_at_once_and_never_in_a_server_that_stops(
    server: listener.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FIRST_PAUSE", PATIENCE)
    monkeypatch.setattr(listener, "MAX_PAUSE", PATIENCE)
    ended = Accepting(server)
    ended.inner.kill()
    ended.inner.join()
    threading.Timer(0.1, server.signal_handler_interrupt).start()
    server._respawn_workers([0], None, None)  # pyright: ignore[reportPrivateUsage] - Granian calls it
    assert server.wrks == [ended]
