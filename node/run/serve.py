"""`relay-node serve`: starts all processes of a node on one machine, and keeps them running.

    serve ─┬─ redis    embedded; only without RELAY_REDIS_URL
           ├─ web      Granian, which keeps its own worker processes
           ├─ worker   everything that an acknowledgement does not wait for
           └─ metrics  what the others count; only with RELAY_ADMIN_PORT

A child that dies is started again. None outlives the supervisor, not even one that was killed
(`process.die_with_parent`). How web and worker run is in `launch.py`.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import structlog

from node.common import process
from node.config import Settings
from node.observe.metrics import snapshots
from node.run.embedded_redis import Embedded
from node.run.launch import listening_address, prepare
from node.run.metrics import command

log = structlog.stdlib.get_logger("node.run.serve")

# -P: Python does not import a directory called `node` that is in the operator's current directory.
WEB = (sys.executable, "-P", "-m", "node", "web")
WORKER = (sys.executable, "-P", "-m", "node", "worker")

LOOK_SECONDS = 0.1
"""Between two looks at the children."""

STEADY_SECONDS = 30.0
"""A child must live so long for its next death to count as its first."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds before a child is started again: doubled each time."""

PROBE_TIMEOUT = 1.0
"""Seconds /health may take to say that the node is ready."""

WEB_GONE, WORKER_GONE, METRICS_GONE, REDIS_GONE = 7.8, 8.6, 9.0, 9.4
"""Seconds after SIGTERM (and RELAY_DRAIN_SECONDS) at which a child that is still there is killed; all within 10 s.

They stop in this order. Granian kills a stalled web process at launch.KILL_SECONDS, before the first.
"""

Spawn = Callable[[], subprocess.Popen[bytes]]


class Child:
    """A process that is started again whenever it ends, until it is told to stop."""

    def __init__(self, name: str, spawn: Spawn, *, gone: float, first: Spawn | None = None) -> None:
        self.name = name
        self.gone = gone
        self._spawn = spawn
        self._pause = 0.0
        self._run(first or spawn)

    def _run(self, spawn: Spawn) -> None:
        self._process = spawn()
        self._started = time.monotonic()
        self._restart_at: float | None = None
        log.info("child started", child=self.name, pid=self._process.pid)

    def tend(self) -> None:
        """Start the process again if it has ended and its pause is over."""
        now = time.monotonic()
        if self._restart_at is not None:
            if now >= self._restart_at:
                self._run(self._spawn)
        elif (status := self._process.poll()) is not None:
            steady = now - self._started >= STEADY_SECONDS
            self._pause = FIRST_PAUSE if steady else min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._restart_at = now + self._pause
            log.error("child ended", child=self.name, pid=self._process.pid, status=status, restart_in=self._pause)

    def stop(self, deadline: float) -> None:
        """Ask the process to end, and kill it at `deadline`, in seconds of the monotonic clock."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("child killed", child=self.name, pid=self._process.pid)
            self._process.kill()
            self._process.wait()


def serve(settings: Settings, *, web: Sequence[str] = WEB, worker: Sequence[str] = WORKER) -> None:
    """Run a whole node until SIGTERM, SIGINT or SIGHUP, then end it in order within 10 s.

    `web` and `worker` are the commands that start these two. Logs one line `ready` with the node's URL once that
    answers. Raises ConfigError if a setting keeps the node from starting.
    """
    stop = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda _signum, _frame: stop.set())
    listening_address(settings.host, settings.port)
    environment = {**os.environ, **process.import_path(), **prepare(settings)}
    children: list[Child] = []
    drain = settings.drain_seconds
    with ExitStack() as stack:
        redis = None
        if not settings.redis_url:
            embedded = Embedded(settings.data_dir, settings.durability, settings.redis_maxmemory)
            redis = stack.enter_context(embedded)
        if settings.admin_port:
            environment["RELAY_METRICS_DIR"] = str(stack.enter_context(snapshots.folder_of(settings.metrics_dir)))
        # Run in reverse: first the instance is said to stop, then it is stopped.
        stack.callback(_stop, children)
        stack.callback(snapshots.drain, environment.get("RELAY_METRICS_DIR", ""))
        if redis:
            environment["RELAY_REDIS_URL"] = redis.url
            first = partial(redis.start, stop.is_set)
            children.append(Child("redis", redis.spawn, gone=drain + REDIS_GONE, first=first))
        if settings.admin_port:
            reporter = partial(_spawn, command("web", "worker"), dict(environment))
            children.append(Child("metrics", reporter, gone=drain + METRICS_GONE))
            environment["RELAY_ADMIN_PORT"] = "0"  # web and worker start no metrics process of their own
        children.append(Child("web", partial(_spawn, web, environment), gone=drain + WEB_GONE))
        children.append(Child("worker", partial(_spawn, worker, environment), gone=drain + WORKER_GONE))
        _tend(children, settings, stop)


def _tend(children: list[Child], settings: Settings, stop: threading.Event) -> None:
    ready = False
    while not stop.wait(LOOK_SECONDS):
        for child in children:
            child.tend()
        if not ready and (ready := _answers(settings.host, settings.port)):
            log.info("ready", url=settings.public_url, host=settings.host, port=settings.port)


def _stop(children: list[Child]) -> None:
    log.info("stopping")
    began = time.monotonic()
    for child in sorted(children, key=lambda child: child.gone):
        child.stop(began + child.gone)
    log.info("stopped", seconds=round(time.monotonic() - began, 2))


def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    return subprocess.Popen(  # noqa: S603 - the command is ours and no shell reads it
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        # Ctrl-C in a terminal is for the supervisor, which stops its children in order. No session of their own: where
        # the kernel groups by session (sched(7), autogroups), the worker's low priority would count for nothing.
        process_group=0,
        preexec_fn=lambda: process.die_with_parent(parent, signal.SIGKILL),  # noqa: PLW1509
    )


def _answers(host: str, port: int) -> bool:
    """Whether the node answers that it is healthy."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    client = http.client.HTTPConnection(here, port, timeout=PROBE_TIMEOUT)
    try:
        client.request("GET", "/health")
        return client.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()
