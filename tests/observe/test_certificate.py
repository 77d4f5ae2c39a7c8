"""An operator learns that the certificate of the public address is about to end, or is not trusted, before clients
complain.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from node.observe import certificate
from node.observe.certificate import Certificate
from tests.support.servers import PATIENCE, free_port

TLS = Path(__file__).parents[1] / "store" / "tls"
"""A self-signed certificate for localhost."""


@asynccontextmanager
async def proxy(host: str = "127.0.0.1") -> AsyncGenerator[int]:
    """Run a server that shows this certificate and answers nothing, and yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    served: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(lambda _, writer: served.append(writer), host, 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
        for writer in served:
            writer.transport.abort()


def ends() -> float:
    """Return when the certificate ends."""
    return x509.load_pem_x509_certificate((TLS / "cert.pem").read_bytes()).not_valid_after_utc.timestamp()


def seconds(shown: Certificate) -> list[float]:
    return [reading.value for reading in shown.figures()]


async def test_a_trusted_one_is_shown_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
    async with proxy() as port:
        shown = Certificate(f"https://localhost:{port}/path")
        assert seconds(shown) == [], "nobody has looked yet"
        await shown.look()
        monkeypatch.setattr("time.time", lambda: ends() - 500)
        assert seconds(shown) == [500]
        monkeypatch.setattr("time.time", lambda: ends() + 500)
        assert seconds(shown) == [0]


@pytest.mark.parametrize(
    ("name", "trusted", "why"), [("127.0.0.2", True, "mismatch"), ("127.0.0.1", False, "self-signed")]
)
async def test_one_that_clients_do_not_trust_has_ended(
    monkeypatch: pytest.MonkeyPatch, name: str, trusted: bool, why: str
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
    async with proxy(name) as port:
        shown = Certificate(f"https://{name}:{port}")
        with capture_logs() as logs:
            await shown.look()
    assert seconds(shown) == [0]
    assert why in logs[0]["reason"]


async def test_what_was_known_stays_while_the_address_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
    async with proxy() as port:
        shown = Certificate(f"https://localhost:{port}")
        await shown.look()
    known = seconds(shown)
    with capture_logs() as logs:
        await shown.look()
    assert [line["event"] for line in logs] == ["certificate not seen"]
    assert len(seconds(shown)) == len(known) == 1
    assert seconds(shown)[0] > 0
    never = Certificate(f"https://localhost:{free_port()}")
    await never.look()
    assert seconds(never) == []


async def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "DEADLINE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shown = Certificate(f"https://localhost:{silent.getsockname()[1]}")
        await asyncio.wait_for(shown.look(), PATIENCE)
    assert seconds(shown) == []


async def test_without_https_there_is_none() -> None:
    shown = Certificate("http://localhost:1")
    await shown.watch(asyncio.Event())
    assert seconds(shown) == []


async def test_it_looks_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "LOOK_SECONDS", 0.01)
    stop, looks = asyncio.Event(), list[Certificate]()

    async def look(shown: Certificate) -> None:
        looks.append(shown)
        if len(looks) == 3:
            stop.set()

    monkeypatch.setattr(Certificate, "look", look)
    await asyncio.wait_for(Certificate("https://localhost").watch(stop), PATIENCE)
    assert len(looks) == 3
