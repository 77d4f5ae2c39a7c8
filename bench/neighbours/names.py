"""A name server for one node. Names that begin with `hooks.` have an address; queries for other names get no answer.

Resolvers read /etc/resolv.conf, which cannot name a port. So the name server listens on port 53 of a loopback
address, and the node runs in its own mount namespace, in which that file names the address. Both need privileges
that a benchmark may not have.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from socket import inet_aton
from typing import cast

from bench.server import Unfit

PORT = 53
ADDRESSES = [f"127.53.0.{last}" for last in range(1, 20)]  # the first free one is used, as other benchmarks may run
RESOLV_CONF = Path("/etc/resolv.conf")
KNOWN = b"hooks"  # first label of the names that have an address
TTL = 60  # seconds
A_RECORD = 1
HEADER = 12  # bytes


class NameServer(asyncio.DatagramProtocol):
    """Answers queries for known names with the address `target`, and counts the queries that it leaves unanswered."""

    def __init__(self) -> None:
        self.address = ""
        self.target = "127.0.0.1"
        self.unanswered = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = reply(data, self.target)
        if answer is None or self._transport is None:
            self.unanswered += 1
        else:
            self._transport.sendto(answer, addr)


def reply(query: bytes, target: str) -> bytes | None:
    """Return the answer to a query (RFC 1035 §4.1), or None for an unknown name."""
    end = query.find(b"\0", HEADER) + 5
    if query[HEADER + 1 : HEADER + 1 + query[HEADER]].lower() != KNOWN:
        return None
    kind = int.from_bytes(query[end - 4 : end - 2])
    record = b"\xc0\x0c\0\1\0\1" + TTL.to_bytes(4) + b"\0\4" + inet_aton(target) if kind == A_RECORD else b""
    return query[:2] + b"\x81\x80\0\1" + bool(record).to_bytes(2) + bytes(4) + query[HEADER:end] + record


@contextlib.asynccontextmanager
async def name_server() -> AsyncGenerator[NameServer]:
    """Run a name server on a loopback address until the end of the block.

    Raises Unfit if this machine does not permit that, or does not permit giving a node another resolver.
    """
    _check()
    loop = asyncio.get_running_loop()
    refused: OSError | None = None
    for address in ADDRESSES:
        try:
            transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=(address, PORT))
        except OSError as error:
            refused = error
            continue
        server.address = address
        try:
            yield server
        finally:
            transport.close()
        return
    raise Unfit(f"names without an answer take port {PORT} of a loopback address: {refused}; run as root")


def _check() -> None:
    """Raise Unfit if a process cannot be given another /etc/resolv.conf."""
    if not RESOLV_CONF.exists() or shutil.which("unshare") is None:
        raise Unfit("names without an answer take /etc/resolv.conf and unshare(1)")
    tried = subprocess.run([*_unshare(), "true"], capture_output=True, check=False)
    if tried.returncode:
        raise Unfit(f"names without an answer take a mount namespace: {tried.stderr.decode().strip()}; run as root")


def led_to(server: NameServer, home: Path) -> Sequence[str]:
    """Return the words to put before a command so that it uses only this name server."""
    conf = home / "resolv.conf"
    conf.write_text(f"nameserver {server.address}\n")
    return (*_unshare(), "sh", "-c", f'mount --bind "$0" {RESOLV_CONF} && exec "$@"', str(conf))


def _unshare() -> tuple[str, ...]:
    return ("unshare", *(("--map-root-user",) if os.geteuid() else ()), "--mount")
