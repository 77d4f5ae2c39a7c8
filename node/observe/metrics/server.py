"""RELAY_ADMIN_PORT: `/metrics` for Prometheus, `/live` and `/ready` for whoever starts and stops the node.

A process of its own beside those that it reports on: it adds up what they left in their folder, and asks
Redis for the rest. It stops none of them if it fails, and it answers while one of them is stuck.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import structlog

from node.common import process
from node.config import Settings, load
from node.observe import log
from node.observe.metrics.exposition import exposition
from node.observe.metrics.gauges import readings_of
from node.observe.metrics.snapshots import DRAINING, Reading, Snapshot, add, alive, fold, folder_of, read
from node.store import CommandFailed, Store, StoreUnavailable, connect
from node.web.origin import host_of, is_address

logger = structlog.get_logger()

STORE_DEADLINE = 1.0
"""Seconds that Redis has for all that a scrape asks: its figures are left out then."""

SCRAPE_DEADLINE = 5.0
"""Seconds a request to this port may take in all."""

SHARED_FOR = 0.5
"""Seconds for which what Redis said is told again: several who ask at a time cost it one reading."""

MOST_CALLS = 4096
FOLD_EVERY = 60.0

JSON = "application/json"


class ReadinessVerdict(msgspec.Struct, omit_defaults=True):
    """The answer of `/live` and `/ready`; 503 if it is not ok."""

    ok: bool
    reason: str = ""
    processes: dict[str, int] = {}
    """Alive, by role."""


class PortResponse(msgspec.Struct):
    """What goes out."""

    status: int
    media_type: str
    body: bytes


ANOTHER_NAME = PortResponse(
    HTTPStatus.MISDIRECTED_REQUEST,
    "text/plain",
    b"This port is called by another name; RELAY_ADMIN_NAMES lists more.\n",
)


class Instance:
    """The processes started together on this machine, and the store they use."""

    def __init__(self, folder: Path, store: Store, roles: Sequence[str], names: str = "") -> None:
        """`names`: those with a dot that this port has, separated by commas."""
        self._names = frozenset(name.strip().lower() for name in names.split(","))
        self._folder = folder
        self._store = store
        self._roles = roles
        self._reading = asyncio.Lock()
        self._read_at = -SHARED_FOR
        self._shared: list[Reading] = []

    async def answer(self, path: str, accept: str) -> PortResponse:
        """The answer to a GET."""
        match path:
            case "/metrics":
                shared = await self._from_store()
                media_type, body = await asyncio.to_thread(self._page, shared, accept)
                return PortResponse(HTTPStatus.OK, media_type, body)
            case "/live":
                return _judged(self.live())
            case "/ready":
                return _judged(await self.ready())
            case _:
                return PortResponse(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /live or /ready\n")

    def is_called(self, host: str | None) -> bool:
        """Whether this port is meant by a Host header.

        A page in a browser can give its own public name the address of this machine (DNS rebinding). It cannot do so
        to an address, nor to a name without a dot, as machines and containers have among themselves.
        """
        if host is None:
            return True
        name = host_of("//" + host)
        return bool(name) and ("." not in name or is_address(name) or name in self._names)

    def live(self) -> ReadinessVerdict:
        """Whether processes of every role run, and their event loops turn."""
        counts = self._alive(read(self._folder))
        for role in self._roles:
            if not counts[role]:
                return ReadinessVerdict(
                    ok=False, reason=f"no {role} process has been heard of lately", processes=counts
                )
        return ReadinessVerdict(ok=True, processes=counts)

    async def ready(self) -> ReadinessVerdict:
        """Whether this instance can do its work now: it runs, Redis answers, and it is not about to stop."""
        if (self._folder / DRAINING).exists():
            return ReadinessVerdict(ok=False, reason="draining")
        verdict = self.live()
        if verdict.ok:
            try:
                async with asyncio.timeout(STORE_DEADLINE):
                    await self._store.everywhere("PING")
            except (StoreUnavailable, CommandFailed, TimeoutError) as error:
                return ReadinessVerdict(
                    ok=False, reason=f"store: {error or 'no answer in time'}", processes=verdict.processes
                )
        return verdict

    def upkeep(self) -> None:
        """Keep the folder small."""
        fold(self._folder)

    async def _from_store(self) -> list[Reading]:
        async with self._reading:
            if time.monotonic() - self._read_at >= SHARED_FOR:
                try:
                    async with asyncio.timeout(STORE_DEADLINE):
                        self._shared = await readings_of(self._store)
                except (StoreUnavailable, CommandFailed, TimeoutError) as error:
                    logger.warning("no figures from redis", reason=str(error) or "no answer in time")
                    self._shared = [Reading("relay_store_up", (), 0)]
                self._read_at = time.monotonic()
            return self._shared

    def _page(self, shared: list[Reading], accept: str) -> tuple[str, bytes]:
        snapshots = read(self._folder)
        processes = [Reading("relay_processes", (role,), count) for role, count in self._alive(snapshots).items()]
        return exposition([*add(snapshots), *processes, *shared], accept)

    def _alive(self, snapshots: list[Snapshot]) -> dict[str, int]:
        return dict.fromkeys(self._roles, 0) | alive(snapshots)


def _judged(verdict: ReadinessVerdict) -> PortResponse:
    status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return PortResponse(status, JSON, msgspec.json.encode(verdict) + b"\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], instance: Instance, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(address, _Handler)
        self.instance = instance
        self.loop = loop


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = SCRAPE_DEADLINE

    def do_GET(self) -> None:
        """Prometheus, a load balancer, a container's health check."""
        instance = self.server.instance
        if instance.is_called(self.headers.get("Host")):
            asked = instance.answer(self.path.partition("?")[0], self.headers.get("Accept", ""))
            answer = asyncio.run_coroutine_threadsafe(asked, self.server.loop).result(SCRAPE_DEADLINE)
        else:
            answer = ANOTHER_NAME
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """A scrape is no event."""


def command(roles: Sequence[str]) -> list[str]:
    """What starts the process that reports on its parent's, which have these roles."""
    return [sys.executable, "-P", "-m", __name__, "--parent", str(os.getpid()), *roles]


@contextmanager
def beside(settings: Settings, roles: Sequence[str]) -> Generator[str]:
    """Report on this process and its children for as long as the context lasts, if RELAY_ADMIN_PORT asks for it.

    Gives the folder where they count; the environment has it too. It is empty where nobody counts.
    """
    if not settings.admin_port:
        yield settings.metrics_dir
        return
    with folder_of(settings.metrics_dir) as folder:
        os.environ["RELAY_METRICS_DIR"] = str(folder)
        reporter = subprocess.Popen(  # noqa: S603 - the command is ours and no shell reads it
            command(roles),
            env={**os.environ, **process.import_path()},
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            yield str(folder)
        finally:
            reporter.terminate()
            reporter.wait()


async def report(settings: Settings, roles: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError if the port is taken."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, told.set)
    # What starts us may have kept them from itself.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    store = await connect(settings.redis_url, timeout=settings.store_timeout, max_in_flight=MOST_CALLS)
    instance = Instance(Path(settings.metrics_dir), store, roles, f"{settings.admin_names},{settings.admin_host}")
    try:
        with _Server((settings.admin_host, settings.admin_port), instance, loop) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            logger.info("metrics served", host=settings.admin_host, port=settings.admin_port)
            while not told.is_set():
                await asyncio.to_thread(instance.upkeep)
                with suppress(TimeoutError):
                    await asyncio.wait_for(told.wait(), FOLD_EVERY)
            await asyncio.to_thread(server.shutdown)
    finally:
        await store.close()


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("roles", nargs="+")
    given = parser.parse_args()
    process.die_with_parent(given.parent, signal.SIGKILL)
    settings = load()
    log.configure(settings.log)
    asyncio.run(report(settings, given.roles))


if __name__ == "__main__":
    main()
