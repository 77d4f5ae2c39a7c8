"""The two parts of a node that run by themselves in production: the web processes and the worker.

This is how they are run; what they do is in `app.py` and `worker.py`. `serve.py` runs both.
"""

import asyncio
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import uvloop
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from node import keychain, log, process
from node.config import ConfigError, Settings

# A silent or idle connection is closed after this. Only `http1` does that: Granian's `auto` never
# closes a socket that has sent nothing.
HEADER_TIMEOUT_MS = 5000
HEADER_BYTES = 32768  # request line and headers; beyond it 431
# Connections waiting to be accepted, and connections open, in each web process. Granian's default
# for the second is a share of 1024, and 2,000 idle sockets stop such a server.
BACKLOG = 4096
BACKPRESSURE = 4096
RESPAWN_PAUSE = 0.2  # seconds until the place of a web process that died is taken
# Seconds a stopping web process has to finish what is in flight. A body that does not arrive is
# given up after 5 s; 10 s is when the whole node must be gone.
KILL_TIMEOUT = 7
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Seconds after its application has started at which a web process heeds them: Granian's event loop stands
# still for a moment in between, and what comes then is lost.
DEAF = 0.25

# Sent to each web process just before it is told to stop, so that it answers the requests it
# holds for news: `wait=30` must not keep a node from stopping.
RELEASE_WAITERS = signal.SIGUSR1

APP = "node.app:create"
WORKER = "node.worker:main"

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
WorkerMain = Callable[[Settings, asyncio.Event], Awaitable[None]]


def web(settings: Settings, app: str = APP) -> None:
    """Serve HTTP in `settings.workers` processes until SIGTERM or SIGINT.

    `app` is `module:factory` of the ASGI application; it is made in each web process, which reads the
    settings from the environment. Raises ConfigError.
    """
    _prepare(settings)
    address = listening_address(settings.host, settings.port)
    # All processes forked from here on keep a signal to stop until they can heed it; a thread takes ours.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    signal.signal(RELEASE_WAITERS, signal.SIG_IGN)
    server = MPServer(
        app,
        address=address,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers or _cores(),
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS, max_buffer_size=HEADER_BYTES),
        websockets=False,
        backlog=BACKLOG,
        backpressure=BACKPRESSURE,
        log_level=LogLevels(settings.log),
        log_dictconfig=log.standard_library(settings.log),
        respawn_failed_workers=True,
        respawn_interval=RESPAWN_PAUSE,
        workers_kill_timeout=KILL_TIMEOUT,
    )
    threading.Thread(target=_stop_when_told, args=(server,), daemon=True).start()
    server.serve(target_loader=partial(_load, app, settings.log, os.getpid()), wrap_loader=False)


def worker(settings: Settings, main: str = WORKER) -> None:
    """Run `main`, which is `module:coroutine function`, until SIGTERM or SIGINT sets its event. Raises ConfigError."""
    settings = _prepare(settings)
    uvloop.run(_until_told(_resolve(main), settings))


def listening_address(host: str, port: int) -> str:
    """The IP address of `host`, after a look that the port is free there.

    Raises ConfigError if it is not, since Granian would silently share the port, or if this machine has
    no such address.
    """
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections are no obstacle
            probe.bind(address)
    except OSError as error:
        why = f"cannot listen on {host} port {port}: {error.strerror}"
        raise ConfigError(f"{why}; choose others with RELAY_HOST and RELAY_PORT") from error
    return str(address[0])


def _prepare(settings: Settings) -> Settings:
    """The settings with the keys of the node, which the environment of all that is started from here has too."""
    if not settings.redis_url:
        raise ConfigError("RELAY_REDIS_URL is empty: set it, or use `relay-node serve`, which brings a Redis")
    process.raise_descriptor_limit()
    keys = keychain.environment(settings)
    os.environ.update(keys)
    return msgspec.structs.replace(settings, secret=keys["RELAY_SECRET"], signing_key=keys["RELAY_SIGNING_KEY"])


def _stop_when_told(server: MPServer) -> None:
    """Wait for a signal to stop, have the held requests answered, and end Granian."""
    signal.sigwait(STOP_SIGNALS)
    for child in multiprocessing.active_children():
        if child.pid:
            os.kill(child.pid, RELEASE_WAITERS)
    server.signal_handler_interrupt()  # pyright: ignore[reportUnknownMemberType]


def _load(app: str, level: str, parent: int) -> ASGIApp:
    """Make the application; runs in a web process, before it takes requests."""
    process.die_with_parent(parent, signal.SIGKILL)
    log.configure(level)
    return _hearing_signals(_resolve(app)())


def _hearing_signals(app: ASGIApp) -> ASGIApp:
    """The same application; once it has started, the process heeds the signals to stop."""

    def wrapped(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        async def tell(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                hear = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, STOP_SIGNALS)
                asyncio.get_running_loop().call_later(DEAF, hear)

        return app(scope, receive, tell if scope["type"] == "lifespan" else send)

    return wrapped


async def _until_told(main: WorkerMain, settings: Settings) -> None:
    stop = asyncio.Event()
    for signum in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    await main(settings, stop)


def _resolve(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
