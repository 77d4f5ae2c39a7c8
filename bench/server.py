"""A server under measurement: its address, its processes and its Redis, and functions to start and stop one.

node.py and peers/ decide which program runs with which settings; this module is what they share. It connects
to loopback addresses only.
"""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench.client import Connection, http_answer
from node.common.process import die_with_parent

START_SECONDS = 60.0
STOP_SECONDS = 12.0  # a node stops within 10 s
POLL_SECONDS = 0.02

ROOT = Path(__file__).resolve().parent.parent


class Unfit(Exception):
    """Raised when a server cannot be measured here. The message says why, and what would help."""


class Server(msgspec.Struct, kw_only=True):
    """A running server: where it listens, its processes, and the settings it was started with."""

    name: str
    port: int
    host: str = "127.0.0.1"
    settings: dict[str, str] = {}
    root: int | None = None  # pid from which all its processes descend; None if somebody else started the server
    role: str = "web"  # role of the root process
    redis_pid: int | None = None  # pid of a Redis that does not descend from the root
    redis: Path | None = None  # socket of its Redis
    dialect: type[Connection] = Connection
    start_seconds: float = 0.0  # from the start of the program to its first answer


def given(url: str) -> Server:
    """Return the server at a URL, which is running already. Raises Unfit if it is not on a loopback address."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise Unfit(f"{url}: write http://<loopback address>:<port>")
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    try:
        inside = ipaddress.ip_address(host).version == 4 and ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise Unfit(f"{url}: the load comes from 127.0.0.0/8 and goes nowhere else; run it on the node's machine")
    return Server(name=f"{host}:{parts.port or 80}", host=host, port=parts.port or 80)


def free_port() -> int:
    """Return a port on which nobody listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def started(
    words: Sequence[str | Path], home: Path, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[int]:
    """Run a program in `home` until the end of the block, and yield its process id. Its output goes to
    `home`/<program>.log."""
    log = home / f"{Path(words[0]).name}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    parent = os.getpid()
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *map(str, words),
            cwd=home,
            env={**inherited, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            preexec_fn=lambda: die_with_parent(parent, signal.SIGTERM),
        )
    try:
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            print(f"  {words[0]} did not end within {STOP_SECONDS:.0f} s of SIGTERM and was killed", file=sys.stderr)
            process.kill()
            await process.wait()


async def ask(server: Server, wire: bytes, timeout: float = 5.0) -> tuple[int, bytes]:
    """Send one request on a new connection and return status and body; for preparation, not for load.

    Raises OSError, TimeoutError.
    """
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            writer.write(wire)
            data = b""
            while (answer := http_answer(data)) is None:
                more = await reader.read(65536)
                if not more:
                    raise ConnectionResetError("closed without an answer")
                data += more
            return answer.status, answer.body
        finally:
            writer.close()


async def until_it_answers(server: Server, wire: bytes, home: Path) -> None:
    """Wait until the request is answered with 2xx. Raises Unfit with the last lines of the server's log."""
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    last: object = None
    while asyncio.get_running_loop().time() < deadline and _lives(server.root):
        try:
            status, body = await ask(server, wire)
            if 200 <= status < 300:
                return
            last = f"{status} {body[:200]!r}"
        except (OSError, TimeoutError) as error:
            last = error
        await asyncio.sleep(POLL_SECONDS)
    raise Unfit(f"{server.name} does not answer ({last}): {_last_words(home) or 'it wrote no log'}")


def _last_words(home: Path) -> str:
    logs = [log.read_text(errors="replace").splitlines()[-5:] for log in sorted(home.glob("*.log"))]
    return " | ".join(line for lines in logs for line in lines)[-1500:]


def _lives(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"
