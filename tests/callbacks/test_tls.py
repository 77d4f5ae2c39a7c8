"""What the TLS handshake offers to receivers: nothing that lets them choose how much it costs."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from node.callbacks.call import CallAnswer, Caller
from node.callbacks.guard import MAX_READ
from node.callbacks.target import TargetPolicy, parse
from node.callbacks.tls import client_contexts
from tests.callbacks.network import SOMEBODY, Dialler, FakeResolver, certificate, unlimited
from tests.support.servers import PATIENCE

PRIVATE = TargetPolicy.of("http://127.0.0.1:1", allow_private=True)


def groups_offered(context: ssl.SSLContext) -> list[int]:
    """Return the key exchange groups in the ClientHello (RFC 8446 §4.2.7)."""
    sent = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="agent.example").do_handshake()
    hello = memoryview(sent.read())[5 + 4 + 2 + 32 :]  # without record, type, version and random
    for size in (1, 2, 1):  # session, ciphers, compression
        hello = hello[size + int.from_bytes(hello[:size]) :]
    hello = hello[2:]
    while hello:
        kind, length = (int.from_bytes(hello[at : at + 2]) for at in (0, 2))
        if kind == 10:
            return [int.from_bytes(hello[at : at + 2]) for at in range(6, 4 + length, 2)]
        hello = hello[4 + length :]
    return []


def test_no_key_exchange_over_a_finite_field_is_offered():
    """The receiver would choose the size of the field: 8,192 bits would take 0.12 s of this process, numbers of its own
    choice 0.9 s.
    """
    usual, other = client_contexts()
    assert groups_offered(usual) == [23]  # P-256
    assert groups_offered(other)
    assert all(group < 0x100 for group in groups_offered(other))  # groups from there on are finite fields
    for context in (usual, other):
        assert {each["kea"] for each in context.get_ciphers()} <= {"kx-ecdhe", "kx-any"}
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


async def test_a_server_with_another_curve_alone_is_asked_again(tmp_path: Path):
    tls, trusting = certificate(tmp_path, "agent.example")
    tls.set_ecdh_curve("secp384r1")

    # Not with asyncio, which closes the connection without giving a reason.
    def serve(listening: socket.socket) -> str | None:
        with pytest.raises(ssl.SSLError), tls.wrap_socket(listening.accept()[0], server_side=True):
            pass
        with tls.wrap_socket(listening.accept()[0], server_side=True) as connection:
            connection.recv(MAX_READ)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            return connection.version()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        serving = asyncio.create_task(asyncio.to_thread(serve, listening))
        target = parse(f"https://agent.example:{listening.getsockname()[1]}/", PRIVATE)
        dialler, resolver = Dialler(), FakeResolver(agent_example="127.0.0.1")
        caller = Caller(PRIVATE, resolver, unlimited(), tls=trusting, dialler=dialler)
        answer = await caller.call(target, caller.request("GET", target, ()), SOMEBODY)
        assert isinstance(answer, CallAnswer)
        assert answer.status == 204
        assert await serving == "TLSv1.2"
    assert dialler.dials == ["127.0.0.1"] * 2
