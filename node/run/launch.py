"""Starts and stops the web processes, or the worker: each role can run by itself, as in production.

What they do is in `web.py` and `worker.py`. `serve.py` runs both roles on one machine.
"""

import asyncio
import importlib
import math
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

import msgspec
import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels

from node.common import control_group, process
from node.common.extras import pip_install
from node.common.signals import DRAIN, DRAINING, RELEASE_WAITERS
from node.config import ConfigError, Settings
from node.config.sources import CONFIG, ENVIRONMENT, config_path
from node.observe import log
from node.observe.metrics.snapshots import drain
from node.run import keychain, listener
from node.run.redis_check import LateCheck, check_redis, check_redis_when_there
from node.run.reload import Reloading, Terminal, block_hangup
from node.run.reporting import reporting
from node.store.address import locate
from node.web.http import ASGIApp

HEADER_TIMEOUT_MS = 7000
"""Milliseconds after which a silent or idle connection is closed. This is longer than httpx keeps a connection (5 s):
if both were equal, a client that sends a request every five seconds would send one in five just as its connection is
closed. Only the mode `http1` has this timeout: in Granian's `auto`, a socket that has sent nothing stays open for ever.
"""

MAX_HEADER_BYTES = 32768
"""Largest size of request line and headers; a larger request is answered with 431."""

BACKPRESSURE = 4096
"""Most open connections in each web process. Granian's default is a share of 1024, so that 2,000 idle sockets would
block it."""

RESPAWN_SECONDS = 0.2
"""Pause before a web process that died is replaced, in seconds."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WEB_SIGNALS = (*STOP_SIGNALS, DRAIN, RELEASE_WAITERS)
"""Signals that a web process blocks until it has started. It unblocks SIGHUP itself (`reload.on_hangup`)."""

BLOCKED_TURNS = 50
"""Turns of its event loop for which a web process blocks signals after its application has started. In the third or
fourth turn, Granian ends the loop, and runs it again a moment later; a signal in between would be lost. The unit is not
a time, since the process may get no processor for that time.
"""

APP = "node.run.web:create"
WORKER = "node.run.worker:main"

_logger = structlog.stdlib.get_logger("node.run.launch")

WorkerMain = Callable[[Settings, asyncio.Event], Awaitable[None]]


def web(settings: Settings, app: str = APP) -> None:
    """Serve HTTP in `settings.workers` processes until SIGTERM or SIGINT.

    `app` is `module:factory`: each web process calls the factory with the settings in force to make its ASGI
    application. Raises ConfigError.
    """
    settings = _prepare_role(settings)
    is_checked = asyncio.run(check_redis(settings))
    listeners = listener.handed_down() or listener.listen(settings.host, settings.port, web_processes(settings))
    if sys.platform == "linux":
        # Without this, Python 3.14 shares nothing with child processes, not even the flag DRAINING.
        multiprocessing.set_start_method("fork", force=True)
        # Web processes share the memory of what is imported here, so each starts sooner and is smaller. Frozen, since a
        # garbage collection would write to that memory.
        _resolve(app)
        process.freeze()
    # Every process forked from here on blocks these signals until it can handle them. In this process, a thread takes
    # them (`_heed_signals`).
    signal.pthread_sigmask(signal.SIG_BLOCK, WEB_SIGNALS)
    block_hangup()
    for signum in (DRAIN, RELEASE_WAITERS):  # each would end this process, which has no handler
        signal.signal(signum, signal.SIG_IGN)
    server = listener.Server(
        app,
        listeners,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS, max_buffer_size=MAX_HEADER_BYTES),
        websockets=False,
        backpressure=BACKPRESSURE,
        log_level=LogLevels(settings.log),
        log_dictconfig=log.standard_library(settings.log),
        respawn_failed_workers=True,
        respawn_interval=RESPAWN_SECONDS,
    )
    with reporting(settings, "web") as folder:
        current = Reloading(msgspec.structs.replace(settings, metrics_dir=folder))
        threading.Thread(target=_heed_signals, args=(server, current, folder), daemon=True).start()
        late = LateCheck(settings, partial(_stop, server))
        if not is_checked:
            late.start()
        server.serve(target_loader=partial(_load, app, current, os.getpid()), wrap_loader=False)
        late.raise_error()


def worker(settings: Settings, main: str = WORKER) -> None:
    """Run `main`, given as `module:coroutine function`, until SIGTERM or SIGINT sets its event. Raises ConfigError.

    Ends the process instead of returning: the interpreter would wait seconds for a thread that loads the model.
    """
    if find_spec("numpy") is None:
        raise ConfigError(f"the worker needs packages that are not installed: run {pip_install('worker')}")
    settings = _prepare_role(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until they can be handled
    is_checked = asyncio.run(check_redis(settings))
    process.give_way()
    with reporting(settings, "worker") as folder:
        settings = msgspec.structs.replace(settings, metrics_dir=folder)
        uvloop.run(_run_until_signal(_resolve(main), settings, is_checked=is_checked))
    process.leave()


def prepare(settings: Settings) -> dict[str, str]:
    """Do what a process of any role does first. Return the node's keys, as environment variables for its children.

    Raises ConfigError.
    """
    if settings.admin_port:
        listener.bound(settings.admin_host, settings.admin_port, "RELAY_ADMIN_HOST or RELAY_ADMIN_PORT").close()
    process.raise_descriptor_limit()
    _logger.info("starting", **_summary(settings))
    return keychain.environment(settings)


def _summary(settings: Settings) -> dict[str, object]:
    """Return the most important settings, without passwords and keys, for one log line."""
    redis, search = (
        [str(each) for each in locate(url).servers] if url else [] for url in (settings.redis_url, settings.search_url)
    )
    return {
        "url": settings.public_url,
        "listens": f"{settings.host}:{settings.port}",
        "processes": web_processes(settings),
        "redis": redis or "embedded",
        "search_redis": search or "the same",
        "blobs": settings.blob_url or str(settings.data_dir / "blobs"),
        "data_dir": str(settings.data_dir),
        "durability": settings.durability,
        "trusted_proxies": str(settings.trusted_proxies),
        # 0 is left out: a process under the supervisor has 0, although the node has an admin port.
        **({"admin_port": settings.admin_port} if settings.admin_port else {}),
        "config": os.environ.get(CONFIG) or str(config_path(os.environ, settings.data_dir) or ENVIRONMENT),
    }


def _prepare_role(settings: Settings) -> Settings:
    """Call `prepare` in a process that may have no supervisor, and put the keys into its settings and environment."""
    if not settings.redis_url:
        raise ConfigError("RELAY_REDIS_URL is empty: set it, or use `relay-node serve`, which runs a Redis of its own")
    keys = prepare(settings)
    os.environ.update(keys)
    return msgspec.structs.replace(settings, secret=keys["RELAY_SECRET"], signing_key=keys["RELAY_SIGNING_KEY"])


def _heed_signals(server: listener.Server, current: Reloading, folder: str) -> None:
    """Reload at each SIGHUP. At a stop signal, drain for RELAY_DRAIN_SECONDS or until the next, then stop Granian."""
    drain_seconds, terminal = current.settings.drain_seconds, Terminal()
    while signal.sigwait((*STOP_SIGNALS, signal.SIGHUP)) == signal.SIGHUP:
        if terminal.is_gone():
            break
        current.read()
        _signal_web_processes(signal.SIGHUP)
    drain(folder)
    if drain_seconds:
        _logger.info("draining", seconds=drain_seconds)
        DRAINING.set()
        _signal_web_processes(DRAIN)
        drained = threading.Timer(drain_seconds, _stop, (server,))
        drained.daemon = True
        drained.start()
        signal.sigwait(STOP_SIGNALS)
        drained.cancel()
    _stop(server)


def _stop(server: listener.Server) -> None:
    """Make the web processes answer waiting requests, and stop Granian."""
    _signal_web_processes(RELEASE_WAITERS)
    server.signal_handler_interrupt()  # pyright: ignore[reportUnknownMemberType]


def _signal_web_processes(signum: signal.Signals) -> None:
    for child in multiprocessing.active_children():
        if child.pid:
            with suppress(ProcessLookupError):  # it has just died
                os.kill(child.pid, signum)


def _load(app: str, current: Reloading, parent: int) -> ASGIApp:
    """Make the application. Runs in a web process, before it takes requests.

    `current` is a copy of the main process's, so a process that replaces another does not read relay.toml.
    """
    process.die_with_parent(parent, signal.SIGKILL)
    log.configure(current.settings.log, "web")
    # Until it takes requests, a stop signal just ends this process. Granian would wait for it and finally kill it.
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    made = _resolve(app)(current.settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    return _unblocking_signals(made)


def _unblocking_signals(app: ASGIApp) -> ASGIApp:
    """Return the same application, except that it unblocks the signals BLOCKED_TURNS after it has started."""

    def wrapped(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        async def send_on(message: Any) -> None:
            if message["type"] != "lifespan.startup.complete":
                return await send(message)
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*WEB_SIGNALS, signal.SIGHUP))
            await send(message)
            return _set_blocked(blocked.difference(WEB_SIGNALS), BLOCKED_TURNS)

        return app(scope, receive, send_on if scope["type"] == "lifespan" else send)

    return wrapped


def _set_blocked(signals: set[int], turns: int) -> None:
    """After `turns` turns of the event loop, block exactly these signals; the loop may end and run again meanwhile."""
    if turns:
        asyncio.get_running_loop().call_soon(_set_blocked, signals, turns - 1)
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


async def _run_until_signal(main: WorkerMain, settings: Settings, *, is_checked: bool) -> None:
    """Run `main` until a stop signal sets its event, or until Redis turns out to be unusable for this node.

    `is_checked`: whether `check_redis` has passed already. Raises ConfigError as `check_redis_when_there`.
    """
    stop = asyncio.Event()
    for signum in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    checking = None if is_checked else asyncio.create_task(check_redis_when_there(settings))
    if checking:
        checking.add_done_callback(lambda done: stop.set() if not done.cancelled() and done.exception() else None)
    await main(settings, stop)
    if checking and not checking.cancel():
        checking.result()


def _resolve(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def web_processes(settings: Settings) -> int:
    """Return the number of web processes: RELAY_WORKERS, or one for each core that the node may use."""
    return settings.workers or _cores()


def _cores() -> int:
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0))
    shares = [bound.split() for bound in control_group.bounds("cpu.max")]  # quota and period, in µs
    return min([cores, *(math.ceil(int(used) / int(period)) for used, period in shares if used != "max")])
