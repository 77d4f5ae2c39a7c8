"""How answers are recognised on the wire, and how connections are kept, replaced and spread over addresses."""

import ipaddress

import pytest

from bench.client import Pool, forwarded, head, http_answer, request, source_address
from bench.peers.nats import NatsConnection
from tests.bench.stand_in import stand_in

WITH_LENGTH = b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\ncontent-LENGTH: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"


@pytest.mark.parametrize(
    ("wire", "status", "body"), [(WITH_LENGTH, 201, b"hello"), (CHUNKED, 200, b"hello"), (EMPTY, 204, b"")]
)
def test_an_answer_ends_where_its_head_says(wire: bytes, status: int, body: bytes) -> None:
    answer = http_answer(wire + b"HTTP/1.1 200")
    assert answer is not None
    assert (answer.status, answer.body, answer.size) == (status, body, len(wire))


@pytest.mark.parametrize("wire", [WITH_LENGTH, CHUNKED, EMPTY])
def test_an_answer_is_none_until_its_last_byte(wire: bytes) -> None:
    assert [http_answer(wire[:size]) for size in range(len(wire))] == [None] * len(wire)


def test_a_forwarded_request_says_whose_it_is_and_is_the_same_otherwise() -> None:
    wire = request("POST", "/x", b'{"a":"\r\n"}')
    line = b"X-Forwarded-For: 198.18.0.1\r\n"
    assert forwarded(wire, "198.18.0.1").startswith(b"POST /x HTTP/1.1\r\n" + line)
    assert forwarded(wire, "198.18.0.1").replace(line, b"") == wire


def test_a_request_states_its_length_and_its_headers() -> None:
    wire = request("POST", "/x", b"{}", A2A_Version="1.0")
    assert wire.endswith(b"\r\n\r\n{}")
    assert b"\r\nContent-Length: 2\r\n" in wire
    assert b"\r\nA2A-Version: 1.0\r\n" in wire
    assert b"Content-Length" not in request("GET", "/x")
    assert head("POST", "/x", 9).startswith(b"POST /x HTTP/1.1\r\n")


def test_source_addresses_are_distinct_loopback_hosts() -> None:
    addresses = [source_address(index) for index in (*range(100_000), 1_000_000, 16_000_000)]
    assert len(set(addresses)) == len(addresses)
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert not any(address.endswith((".0", ".255")) for address in addresses)


def test_a_nats_acknowledgement_is_found_behind_what_the_server_says_unasked() -> None:
    connection = NatsConnection(Pool("127.0.0.1", 1, 1), 7)
    wire = b'INFO {"a":1}\r\nPING\r\nMSG _INBOX.7 1 24\r\n{"stream":"bench","seq":1}\r\n'
    wire = wire.replace(b" 24\r", b" 26\r")
    answer = connection.answer(wire)
    assert answer is not None
    assert (answer.status, answer.size) == (200, len(wire))
    assert connection.answer(wire[:-1]) is None


async def test_each_connection_of_a_pool_has_an_address_of_its_own() -> None:
    async with stand_in() as server, Pool("127.0.0.1", server.port, 20) as pool:
        assert len(pool.idle) == 20
    assert server.peers <= {source_address(index) for index in range(20)}


@pytest.mark.parametrize("size", [0, 5000])
def test_a_pool_of_no_or_too_many_connections_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="connections"):
        Pool("127.0.0.1", 1, size)


async def test_a_pool_says_when_nobody_listens() -> None:
    async with stand_in() as server:
        port = server.port
    with pytest.raises(OSError, match=str(port)):
        async with Pool("127.0.0.1", port, 1):
            pass
