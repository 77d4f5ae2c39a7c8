"""Idle crowds: 2,000 sockets that stay open without sending a complete request, while others are served.

Four crowds, one after the other: sockets that never send anything, that send headers byte by byte, that send a body
byte by byte, and keep-alive connections that have had one answer. Each must be closed within ten seconds, without
any effect on others.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import cast

import msgspec

from bench.client import CONNECT_AT_ONCE, head, request, source_address
from bench.entities import relay_messages
from bench.lab import Lab
from bench.scenario import Scenario
from bench.schedule import SECOND, now
from bench.server import Server

SOCKETS = 2000
RATE = 1000.0
SECONDS = 12.0
CLOSED_WITHIN = 10.0
STEPS = 100  # the bytes of each second are sent in this many parts, so that they do not delay the generator

ALONE = "relay messages, no crowd"
BESIDE = "relay messages beside 2,000 sockets: {crowd}"
CLOSED = "{crowd}: closed within 10 s"
LAST = "{crowd}: last one closed after"


class Crowd(msgspec.Struct, frozen=True):
    """A kind of idle socket: what it sends when it opens, and every second after that."""

    name: str
    first: bytes
    drip: bytes


CROWDS = (
    Crowd("silent", b"", b""),
    Crowd("header drip", b"POST /api/v1/relay HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"s"),
    Crowd("body drip", head("POST", "/api/v1/relay", 1000) + b'{"message":"', b"s"),
    Crowd("keep-alive", request("GET", "/health"), b""),
)


class Idler(asyncio.Protocol):
    """One socket of a crowd. Records when the server closed it."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._transport: asyncio.Transport | None = None
        self.opened = now()
        self.closed: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.opened = now()
        self._transport.write(self._crowd.first)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = self.closed or now()

    def drip(self) -> None:
        if self._transport is not None and self.closed is None and self._crowd.drip:
            self._transport.write(self._crowd.drip)

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def seconds(self) -> float | None:
        """Seconds until the server closed the socket; None if it is still open."""
        return None if self.closed is None else (self.closed - self.opened) / SECOND


@contextlib.asynccontextmanager
async def gathered(server: Server, crowd: Crowd, count: int) -> AsyncGenerator[list[Idler]]:
    """Open `count` sockets of a crowd until the end of the block."""
    loop = asyncio.get_running_loop()
    idlers: list[Idler] = []
    for start in range(0, count, CONNECT_AT_ONCE):
        numbers = range(start, min(count, start + CONNECT_AT_ONCE))
        opened = await asyncio.gather(
            *(
                loop.create_connection(
                    lambda: Idler(crowd), server.host, server.port, local_addr=(source_address(200_000 + number), 0)
                )
                for number in numbers
            )
        )
        idlers += [idler for _, idler in opened]
    dripping = loop.create_task(_drip(idlers))
    try:
        yield idlers
    finally:
        dripping.cancel()
        for idler in idlers:
            idler.leave()


async def _drip(idlers: list[Idler]) -> None:
    while True:
        for step in range(STEPS):
            for idler in idlers[step::STEPS]:
                idler.drip()
            await asyncio.sleep(1 / STEPS)


async def run(lab: Lab) -> None:
    rate = lab.options.rate or RATE
    async with lab.node() as node:
        await lab.at_rate(node, relay_messages(lab), ALONE, rate)
        for crowd in CROWDS:
            async with gathered(node, crowd, SOCKETS) as idlers:
                what = BESIDE.format(crowd=crowd.name)
                await lab.at_rate(node, relay_messages(lab), what, rate, seconds=SECONDS, runs=1, warmup=0)
                stayed = [idler.seconds for idler in idlers]
            gone = [seconds for seconds in stayed if seconds is not None]
            in_time = sum(seconds <= CLOSED_WITHIN for seconds in gone)
            lab.point(CLOSED.format(crowd=crowd.name), in_time, "sockets", f"of {SOCKETS}")
            lab.point(LAST.format(crowd=crowd.name), max(gone, default=0.0), "s", f"{SOCKETS - len(gone)} still open")


SCENARIO = Scenario("idle", "2,000 silent, dripping or idle sockets beside good traffic", run)
