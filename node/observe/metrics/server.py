"""RELAY_ADMIN_PORT: `/metrics` for Prometheus, `/live` and `/ready` for whoever starts and stops the node.

This is the HTTP server and what it answers. The operator's pages on the same port are handed in (`AdminPages`). The
process that runs the server is `node.run.metrics`.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple

import msgspec
import structlog

from node.observe.metrics.exposition import exposition
from node.observe.metrics.snapshots import DRAINING, Reading, Snapshot, add, alive, read
from node.store import Store, StoreUnavailable, ids, keys
from node.web.origin import host_of, is_address

log = structlog.get_logger()

STORE_DEADLINE = 1.0
"""Seconds that Redis may take for everything that a scrape asks for. After that, its figures are left out."""

REQUEST_DEADLINE = 5.0
"""Maximum duration of a request to this port, in seconds."""

STORE_FIGURES_SECONDS = 0.5
"""Seconds for which figures from Redis are reused, so that simultaneous requests cost Redis one reading."""

OUT_OF_REACH = (StoreUnavailable, TimeoutError)


class InstanceState(msgspec.Struct, omit_defaults=True):
    """The answer of `/live` and `/ready`, which comes with 503 if it is not ok."""

    ok: bool
    reason: str = ""
    processes: dict[str, int] = {}
    """Number of live processes, by role."""


class AdminRequest(NamedTuple):
    """A request for one of the operator's pages."""

    method: str
    target: str
    """Path and query."""
    peer: str
    """The address that the request came from."""
    headers: Mapping[str, str]
    """The headers, by name in lower case."""
    body: bytes
    ready: Callable[[], Awaitable[InstanceState]]
    """Returns what `/ready` answers."""


class AdminResponse(NamedTuple):
    """The answer to any request."""

    status: HTTPStatus
    headers: Sequence[tuple[str, str]]
    body: bytes


AdminPages = Callable[[AdminRequest], Coroutine[Any, Any, AdminResponse]]

PAGES = ("/admin", "/static")
"""Paths that are answered by the operator's pages, together with all paths below them."""

PAGE_DEADLINE = 60.0
"""Maximum duration of a page, in seconds: one of the pages removes everything that came from a client."""

MAX_FORM_BYTES = 16_384
"""Maximum size of a form, in bytes. Its longest field is a reason."""


def plain(status: HTTPStatus, text: bytes) -> AdminResponse:
    """Return an answer of one sentence."""
    return AdminResponse(status, (("Content-Type", "text/plain"),), text)


class Instance:
    """The processes that were started together on this machine, and the store that they use.

    `gauges` reads the figures that are in Redis, `here` those of this machine. `names`: the names with a dot that this
    port answers to, separated by commas.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        gauges: Callable[[], Awaitable[list[Reading]]],
        roles: Sequence[str],
        names: str = "",
        here: Callable[[], Sequence[Reading]] = tuple,
    ) -> None:
        self._here = here
        self._names = frozenset(name.strip().lower() for name in names.split(","))
        self._folder = folder
        self._store = store
        self._gauges = gauges
        self._roles = roles
        self._lock = asyncio.Lock()
        self._store_figures: list[Reading] = []
        self._read_at = -STORE_FIGURES_SECONDS

    async def respond(self, path: str, accept: str) -> AdminResponse:
        """Return the answer to a GET."""
        match path:
            case "/metrics":
                of_store = await self._read_store()
                media_type, page = await asyncio.to_thread(self._page, of_store, accept)
                return AdminResponse(HTTPStatus.OK, (("Content-Type", media_type),), page)
            case "/live":
                return _response(self.live())
            case "/ready":
                return _response(await self.ready())
            case _:
                return plain(HTTPStatus.NOT_FOUND, b"This port has /metrics, /live, /ready and /admin.\n")

    def is_called(self, host: str | None) -> bool:
        """Whether a Host header names this port.

        The owner of a web page can point its public name at this machine's address (DNS rebinding). That cannot be done
        with an IP address, or with a name without a dot, which machines and containers use among themselves.
        """
        if host is None:
            return True
        name = host_of("//" + host)
        return bool(name) and ("." not in name or is_address(name) or name in self._names)

    def live(self) -> InstanceState:
        """Whether processes of every role run, and their event loops are not stuck."""
        counts = self._alive(read(self._folder))
        for role in self._roles:
            if not counts[role]:
                return InstanceState(ok=False, reason=f"no {role} process has been heard of lately", processes=counts)
        return InstanceState(ok=True, processes=counts)

    async def ready(self) -> InstanceState:
        """Whether this instance should get requests: it runs, reaches a primary of Redis, and is not about to stop.

        One primary is enough: while others are gone, no other instance could do better.
        """
        if (self._folder / DRAINING).exists():
            return InstanceState(ok=False, reason="draining")
        state = self.live()
        if state.ok and not await self._some_primary_answers():
            reason = "store: no primary of Redis answers"
            return InstanceState(ok=False, reason=reason, processes=state.processes)
        return state

    async def _some_primary_answers(self) -> bool:
        """Ping the primaries of all partitions. One answer is enough."""
        pings = [self._store.command("PING", key=keys.tag(partition)) for partition in range(ids.PARTITIONS)]
        asking = list(map(asyncio.create_task, pings))
        try:
            for answer in asyncio.as_completed(asking, timeout=STORE_DEADLINE):
                with suppress(*OUT_OF_REACH):
                    await answer
                    return True
            return False
        finally:
            for ask in asking:
                ask.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _read_store(self) -> list[Reading]:
        async with self._lock:
            if time.monotonic() - self._read_at >= STORE_FIGURES_SECONDS:
                try:
                    async with asyncio.timeout(STORE_DEADLINE):
                        self._store_figures = await self._gauges()
                except OUT_OF_REACH as error:
                    log.warning("no figures from redis", reason=str(error) or "no answer in time")
                    about = [reading for reading in self._store_figures if reading.family == "relay_build_info"]
                    self._store_figures = [Reading("relay_store_up", (), 0), *about]
                self._read_at = time.monotonic()
            return self._store_figures

    def _page(self, of_store: list[Reading], accept: str) -> tuple[str, bytes]:
        snapshots = read(self._folder)
        processes = [Reading("relay_processes", (role,), count) for role, count in self._alive(snapshots).items()]
        return exposition([*add(snapshots), *processes, *self._here(), *of_store], accept)

    def _alive(self, snapshots: list[Snapshot]) -> dict[str, int]:
        return dict.fromkeys(self._roles, 0) | alive(snapshots)


def _response(state: InstanceState) -> AdminResponse:
    status = HTTPStatus.OK if state.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return AdminResponse(status, (("Content-Type", "application/json"),), msgspec.json.encode(state) + b"\n")


class MetricsServer(ThreadingHTTPServer):
    """The HTTP server on the port. Threads handle the requests; the event loop makes the answers.

    Raises OSError if the port is taken.
    """

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], instance: Instance, pages: AdminPages, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)
        self.instance = instance
        self.pages = pages
        self.loop = loop

    def server_bind(self) -> None:
        """Bind without looking up the address's name, as HTTPServer would.

        Nothing uses that name, and while no name server answers, the port would stay closed for ten seconds or more.
        """
        TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log why a request failed, unless its client has gone. By default that would be printed, in many lines."""
        if not isinstance(sys.exception(), ConnectionError):
            log.exception("request to the admin port failed")


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = REQUEST_DEADLINE

    def do_GET(self) -> None:
        """Answer Prometheus, a load balancer, a health check, or the operator's browser."""
        path = self.path.partition("?")[0]
        if not self._is_called():
            return
        if self._is_page(path):
            self._show_page(b"")
            return
        responding = self.server.instance.respond(path, self.headers.get("Accept", ""))
        waiting = asyncio.run_coroutine_threadsafe(responding, self.server.loop)
        try:
            answer = waiting.result(REQUEST_DEADLINE)
        except TimeoutError:
            waiting.cancel()
            answer = plain(HTTPStatus.GATEWAY_TIMEOUT, b"There was no answer in time.\n")
        self._send(answer)

    def do_POST(self) -> None:
        """Answer a form of the operator's pages."""
        length = self.headers.get("Content-Length", "")
        if not self._is_called():
            return
        if not self._is_page(self.path.partition("?")[0]):
            self._send(plain(HTTPStatus.METHOD_NOT_ALLOWED, b"Only pages below /admin take a POST.\n"))
        elif not length.isdecimal():
            self._send(plain(HTTPStatus.LENGTH_REQUIRED, b"Send the form with a Content-Length.\n"))
        elif len(length) > len(str(MAX_FORM_BYTES)) or int(length) > MAX_FORM_BYTES:
            self._send(plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"The form is too large.\n"))
        else:
            self._show_page(self.rfile.read(int(length)))

    def _is_called(self) -> bool:
        if self.server.instance.is_called(self.headers.get("Host")):
            return True
        another = b"This port does not answer to this host name; RELAY_ADMIN_NAMES allows more names.\n"
        self._send(plain(HTTPStatus.MISDIRECTED_REQUEST, another))
        return False

    def _is_page(self, path: str) -> bool:
        return any(path == page or path.startswith(f"{page}/") for page in PAGES)

    def _show_page(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = AdminRequest(
            self.command, self.path, self.client_address[0], headers, body, self.server.instance.ready
        )
        waiting = asyncio.run_coroutine_threadsafe(self.server.pages(request), self.server.loop)
        try:
            answer = waiting.result(PAGE_DEADLINE)
        except TimeoutError:
            answer = plain(
                HTTPStatus.GATEWAY_TIMEOUT, b"Still running: `relay-node admin audit` shows when it is done.\n"
            )
        self._send(answer)

    def _send(self, answer: AdminResponse) -> None:
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("Content-Length", str(len(answer.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing: a scrape is no event."""
