"""NATS JetStream: a synchronous publish, acknowledged once it is stored, as a message broker does the same job.

The suite's own generator speaks the NATS protocol, so that the server is measured and not a client library:
it sends PUB with a reply subject and waits for the JSON acknowledgement on that subject.
"""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

from bench.client import Answer, Call, Connection
from bench.lab import Peer
from bench.payload import relay_body
from bench.server import Server, Unfit, free_port, started

STREAM = {"name": "bench", "subjects": ["bench"], "storage": "file", "retention": "limits", "num_replicas": 1}


class NatsConnection(Connection):
    """A connection that subscribes to its own NATS inbox, on which the acknowledgements arrive."""

    __slots__ = ()

    def greeting(self) -> bytes:
        return b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB _INBOX.%d 1\r\n' % self.number

    def wire(self, call: Call) -> bytes:
        return b"PUB bench _INBOX.%d %d\r\n%b\r\n" % (self.number, len(call.wire), call.wire)

    def answer(self, data: bytes) -> Answer | None:
        """Return the first MSG in `data` as an answer. What precedes it (INFO, PING) is ignored."""
        start = data.find(b"MSG ")
        line = data.find(b"\r\n", start)
        if start < 0 or line < 0:
            return None
        size = int(data[start:line].rpartition(b" ")[2])
        stop = line + 2 + size + 2
        if len(data) < stop:
            return None
        body = data[line + 2 : stop - 2]
        return Answer(200 if b'"seq"' in body else 500, body, stop)


@contextlib.asynccontextmanager
async def _start(home: Path) -> AsyncGenerator[Server]:
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
    if program is None:
        raise Unfit("not installed: `apt install nats-server`")
    port = free_port()
    config = home / "nats.conf"
    config.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{home}/jetstream" }}\n')
    async with started([program, "-c", config], home) as pid:
        await _create_stream(port)
        yield Server(
            name="nats jetstream",
            port=port,
            settings={"storage": "file", "replicas": "1", "sync": "every 2 minutes (its default)"},
            root=pid,
            dialect=NatsConnection,
        )


async def _create_stream(port: int) -> None:
    """Create the stream as soon as the server listens. Raises Unfit if the server refuses it or does not answer."""
    order = json.dumps(STREAM).encode()
    for _ in range(250):
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b'CONNECT {"verbose":false}\r\nSUB _INBOX.setup 1\r\n')
                writer.write(b"PUB $JS.API.STREAM.CREATE.bench _INBOX.setup %d\r\n%b\r\n" % (len(order), order))
                while not (line := await reader.readline()).startswith(b"MSG "):
                    if not line:
                        raise ConnectionResetError
                said = await reader.readline()
                writer.close()
            if b'"error"' in said:
                raise Unfit(f"it refuses the stream: {said.decode(errors='replace').strip()}")
            return
        await asyncio.sleep(0.02)
    raise Unfit("it does not answer")


PEER = Peer(
    name="nats jetstream",
    about="stores the same body in a file stream and acknowledges; flushed to disk every 2 minutes, not before the ack",
    start=_start,
    calls=lambda number: Call(relay_body(number)),
)
