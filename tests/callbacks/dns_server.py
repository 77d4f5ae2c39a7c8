"""A DNS server on loopback that acts as a recursive resolver. Its records are a table, and it can be slow or silent."""

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EADDRINUSE
from pathlib import Path
from typing import Self, cast

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from node.callbacks.lookup import Lookup

SILENT = "SILENT"
"""Stands in place of records: the server never answers."""

FAILS = "SERVFAIL"
"""Stands in place of records: the name's own server is broken."""


class DnsServer:
    """Answers over UDP and TCP from `records`: `name` or `*.parent` to lines such as `60 A 192.0.2.1`."""

    def __init__(self, records: Mapping[str, Sequence[str] | str]) -> None:
        self.records = dict(records)
        self.asked: Counter[str] = Counter()
        """Queries by name; those for A and AAAA are counted together."""
        self.flowing = asyncio.Event()
        """While this event is clear, answers are held back."""
        self.flowing.set()
        self.to_lose = 0
        """Number of further queries that are lost on the way."""
        self.most = 512
        """Longest answer over UDP, in bytes. A longer one is truncated."""
        self.port = 0
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        while True:
            self._tcp = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = self._tcp.sockets[0].getsockname()[1]
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.setblocking(False)
            try:
                udp.bind(("127.0.0.1", self.port))
            except OSError as error:
                udp.close()
                self._tcp.close()
                if error.errno != EADDRINUSE:  # a port that is free for TCP may be taken for UDP
                    raise
            else:
                self._udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(self), sock=udp)
                return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._answering):
            task.cancel()
        self._udp.close()
        self._tcp.close()
        await self._tcp.wait_closed()

    def lookup(self, folder: Path, resolv_conf: str = "", hosts: str = "") -> Lookup:
        """Return the look-up of a machine whose resolv.conf names this server, and whose hosts file has these lines."""
        files = folder / "resolv.conf", folder / "hosts"
        files[0].write_text(f"nameserver 127.0.0.1\n{resolv_conf}")
        files[1].write_text(hosts)
        return Lookup(hosts=files[1], resolv_conf=files[0], port=self.port)

    async def answer(self, query: bytes, most: int) -> bytes | None:
        """Return the answer to a query, or None if the server stays silent."""
        asked = cast("dns.message.QueryMessage", dns.message.from_wire(query))
        question = asked.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        self.asked[name] += 1
        records = self._records(name)
        if self.to_lose:
            self.to_lose -= 1
            return None
        if records == SILENT:
            return None
        await self.flowing.wait()
        response = dns.message.make_response(asked, recursion_available=True)
        if records == FAILS:
            response.set_rcode(dns.rcode.SERVFAIL)
        elif records is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        else:
            response.answer = self._chain(question.name, question.rdtype)
        wire = response.to_wire()
        if len(wire) > most:
            response.answer, response.flags = [], response.flags | dns.flags.TC
            wire = response.to_wire()
        return wire

    def take(self, query: bytes, transport: asyncio.DatagramTransport, sender: tuple[str, int]) -> None:
        """Answer a datagram."""

        async def answer() -> None:
            wire = await self.answer(query, self.most)
            if wire:
                transport.sendto(wire, sender)

        task = asyncio.create_task(answer())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            length = int.from_bytes(await reader.readexactly(2))
            wire = await self.answer(await reader.readexactly(length), 65535)
            if wire:
                writer.write(len(wire).to_bytes(2) + wire)
                await writer.drain()
        writer.close()

    def _records(self, name: str) -> Sequence[str] | str | None:
        return self.records.get(name, self.records.get(f"*.{name.partition('.')[2]}"))

    def _chain(self, name: dns.name.Name, kind: dns.rdatatype.RdataType) -> list[dns.rrset.RRset]:
        """Return the records of this kind, preceded by the CNAMEs that lead to them."""
        found: list[dns.rrset.RRset] = []
        for line in self._records(name.to_text(omit_final_dot=True).lower()) or ():
            ttl, rdtype, value = line.split(" ", 2)
            if rdtype == "CNAME":
                alias = dns.rrset.from_text(name, int(ttl), "IN", rdtype, f"{value}.")
                return [alias, *self._chain(dns.name.from_text(value), kind)]
            if rdtype == dns.rdatatype.to_text(kind):
                found.append(dns.rrset.from_text(name, int(ttl), "IN", rdtype, value))
        return found


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.take(data, self._transport, addr)
