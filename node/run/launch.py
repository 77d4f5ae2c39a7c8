"""How the web processes and the worker are started and stopped when each role runs by itself, as in production.

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
"""Milliseconds after which a silent or idle connection is closed. Longer than httpx keeps one (5 s): if both were
equal, a client with a request every five seconds would send one in five just as its connection is closed. Only the mode
`http1` has this timeout: in Granian's `auto`, a socket that has sent nothing stays open for ever.
"""

MAX_HEADER_BYTES = 32768
"""Largest size of request line and headers; a larger request is answered with 431."""

BACKPRESSURE = 4096
"""Open connections in each web process. Granian's default is a share of 1024, and 2,000 idle sockets would block it."""

RESPAWN_SECONDS = 0.2
"""Pause before a web process that died is replaced."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WEB_SIGNALS = (*STOP_SIGNALS, DRAIN, RELEASE_WAITERS)
"""Signals that a web process blocks until it has started. It unblocks SIGHUP itself (`reload.on_hangup`)."""

BLOCKED_TURNS = 50
"""Turns of its event loop for which a web process blocks signals after its application has started. In the third or
fourth of them Granian ends the loop, and runs it again a moment later; a signal in between would be lost. It is not a
time, since the process may get no processor for as long.
"""

APP = "node.run.web:create"
WORKER = "node.run.worker:main"

_logger = structlog.stdlib.get_logger("node.run.launch")

WorkerMain = Callable[[Settings, asyncio.Event], Awaitable[None]]


def web(settings: Settings, app: str = APP) -> None:
    """Serve HTTP in `settings.workers` processes until SIGTERM or SIGINT.

    `app` is `module:factory` of the ASGI application, which each web process makes from the settings in force. Raises
    ConfigError.
    """
    settings = _prepare_role(settings)
    is_checked = asyncio.run(check_redis(settings))
    listeners = listener.handed_down() or listener.listen(settings.host, settings.port, web_processes(settings))
    if sys.platform == "linux":
        # Without it, Python 3.14 shares nothing with its processes, not even the flag DRAINING.
        multiprocessing.set_start_method("fork", force=True)
        # Web processes share what is imported here: each starts sooner, and is smaller. A collection would write to it.
        _resolve(app)
        process.freeze()
    # Every process forked from here on blocks the signals until it can handle them. Those sent to this process are
    # taken by a thread (`_heed_signals`).
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
    """Run `main`, which is `module:coroutine function`, until SIGTERM or SIGINT sets its event. Raises ConfigError.

    Does not return but ends the process: the interpreter would wait seconds for a thread that loads the model.
    """
    if find_spec("numpy") is None:
        raise ConfigError(f"the worker needs an extra that is not installed: {pip_install('worker')}")
    settings = _prepare_role(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until they can be heeded
    is_checked = asyncio.run(check_redis(settings))
    process.give_way()
    with reporting(settings, "worker") as folder:
        settings = msgspec.structs.replace(settings, metrics_dir=folder)
        uvloop.run(_run_until_signal(_resolve(main), settings, is_checked=is_checked))
    process.leave()


def prepare(settings: Settings) -> dict[str, str]:
    """Do what a process of any role does first. Returns the node's keys, as environment variables for its children.

    Raises ConfigError.
    """
    if settings.admin_port:
        listener.bound(settings.admin_host, settings.admin_port, "RELAY_ADMIN_HOST and RELAY_ADMIN_PORT").close()
    process.raise_descriptor_limit()
    _logger.info("starting", **_summary(settings))
    return keychain.environment(settings)


def _summary(settings: Settings) -> dict[str, object]:
    """The settings that matter, without passwords and keys, for one log line."""
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
        # 0 is left out: under the supervisor, which has the port, it would say that there is none.
        **({"admin_port": settings.admin_port} if settings.admin_port else {}),
        "config": os.environ.get(CONFIG) or str(config_path(os.environ, settings.data_dir) or ENVIRONMENT),
    }


def _prepare_role(settings: Settings) -> Settings:
    """`prepare` a process that may have no supervisor: put the keys into its settings and its environment."""
    if not settings.redis_url:
        raise ConfigError("RELAY_REDIS_URL is empty: set it, or use `relay-node serve`, which brings a Redis")
    keys = prepare(settings)
    os.environ.update(keys)
    return msgspec.structs.replace(settings, secret=keys["RELAY_SECRET"], signing_key=keys["RELAY_SIGNING_KEY"])


def _heed_signals(server: listener.Server, current: Reloading, folder: str) -> None:
    """Reload at each SIGHUP. At a stop signal, drain for RELAY_DRAIN_SECONDS or until the next, then end Granian."""
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
    """Have waiting requests answered, and end Granian."""
    _signal_web_processes(RELEASE_WAITERS)
    server.signal_handler_interrupt()  # pyright: ignore[reportUnknownMemberType]


def _signal_web_processes(signum: signal.Signals) -> None:
    for child in multiprocessing.active_children():
        if child.pid:
            with suppress(ProcessLookupError):  # it has just died
                os.kill(child.pid, signum)


def _load(app: str, current: Reloading, parent: int) -> ASGIApp:
    """Make the application; runs in a web process, before it takes requests.

    `current` is a copy of the main process's, so a process that replaces another does not read relay.toml.
    """
    process.die_with_parent(parent, signal.SIGKILL)
    log.configure(current.settings.log, "web")
    # It has taken no request yet, so a stop signal just ends it: Granian would wait for it, and kill it in the end.
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    made = _resolve(app)(current.settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    return _unblocking_signals(made)


def _unblocking_signals(app: ASGIApp) -> ASGIApp:
    """The same application; BLOCKED_TURNS after it has started, it unblocks the signals."""

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
    """Block these signals and no others after `turns` turns of the event loop, also if it is ended and run again."""
    if turns:
        asyncio.get_running_loop().call_soon(_set_blocked, signals, turns - 1)
    else:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


async def _run_until_signal(main: WorkerMain, settings: Settings, *, is_checked: bool) -> None:
    """Run `main` until a stop signal sets its event, or until the Redis turns out to be another node's.

    `is_checked`: whether it is known to be this node's. Raises ConfigError if it is another's.
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
    """How many web processes there are: RELAY_WORKERS, or one for each core that the node may use."""
    return settings.workers or _cores()


def _cores() -> int:
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cores = len(os.sched_getaffinity(0))
    shares = [bound.split() for bound in control_group.bounds("cpu.max")]  # microseconds, in a period of so many
    return min([cores, *(math.ceil(int(used) / int(period)) for used, period in shares if used != "max")])
