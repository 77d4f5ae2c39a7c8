"""`relay-node serve`: starts all processes of a node on one machine, and keeps them running.

    serve ─┬─ redis    embedded; only without RELAY_REDIS_URL
           ├─ web      Granian, which keeps its own worker processes
           ├─ worker   everything that an acknowledgement does not wait for
           └─ metrics  reports what the others count; only with RELAY_ADMIN_PORT

A child that dies is started again. No child outlives the supervisor, even if the supervisor is killed
(`process.die_with_parent`). How web and worker run is in `launch.py`.
"""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import structlog

from node.common import process
from node.config import Settings
from node.config.values import USAGE_ERROR
from node.observe.metrics import snapshots
from node.run import listener
from node.run.embedded_redis import EmbeddedRedis
from node.run.launch import prepare, web_processes
from node.run.reload import ChildSettings, Reloading, Terminal, block_hangup
from node.run.reporting import command

log = structlog.stdlib.get_logger("node.run.serve")

# -P: Python does not import a directory called `node` that is in the operator's current directory.
WEB = (sys.executable, "-P", "-m", "node", "web")
WORKER = (sys.executable, "-P", "-m", "node", "worker")

LOOK_SECONDS = 0.1
"""Interval between two looks at the children."""

STEADY_SECONDS = 30.0
"""Seconds that a child must have lived for its next restart to pause only FIRST_PAUSE again."""

FIRST_PAUSE, MAX_PAUSE = 0.05, 5.0
"""Seconds before a child is started again; the pause doubles each time."""

PROBE_TIMEOUT = 1.0
"""Timeout of a request to /health while the node starts, in seconds."""

KILL_AFTER = {"web": 7.8, "worker": 8.6, "metrics": 9.0, "redis": 9.4}
"""Seconds after SIGTERM and RELAY_DRAIN_SECONDS at which a child that still runs is killed; all within 10 s.

The children are stopped in this order. A stuck web process is killed even earlier, after listener.KILL_SECONDS.
"""

Spawn = Callable[[], subprocess.Popen[bytes]]


class Child:
    """A process that is started again whenever it ends, until it is told to stop."""

    def __init__(
        self, name: str, spawn: Spawn, *, first: Spawn | None = None, last_words: Callable[[], str] | None = None
    ) -> None:
        """`name`: one of KILL_AFTER. `first`: starts the process the first time, in place of `spawn`.

        `last_words`: returns the last output of a process that does not write to our log.
        """
        self.name = name
        self._spawn = spawn
        self._last_words = last_words
        self._pause = 0.0
        self._starts = 0
        self._run(first or spawn)

    def _run(self, spawn: Spawn) -> None:
        self._process = spawn()
        self._starts += 1
        self._started = time.monotonic()
        self._restart_at: float | None = None
        log.info("child started", child=self.name, child_pid=self._process.pid)

    def tend(self) -> None:
        """Start the process again if it has ended and its pause is over.

        Redis forks to rewrite its log, or for a backup. Nobody waits for these forks, so they get the lowest priority:
        rewriting a log of 100 MB takes a second of processor time, and answers would wait meanwhile.

        Raises SystemExit, which ends the supervisor, if the process ends at its first start because it cannot use the
        settings.
        """
        if self._restart_at is not None:
            if time.monotonic() >= self._restart_at:
                self._start_again()
        elif (status := self._process.poll()) is not None:
            if status == USAGE_ERROR and self._starts == 1:
                raise SystemExit(USAGE_ERROR)  # it has said why, and would say it again
            said = {"said": self._last_words()} if self._last_words else {}
            pause = self._pause_before_start(steady=time.monotonic() - self._started >= STEADY_SECONDS)
            pid = self._process.pid
            log.error("child ended", child=self.name, child_pid=pid, status=status, restart_in=pause, **said)
        elif self.name == "redis":
            process.have_children_give_way(self._process.pid)

    def _start_again(self) -> None:
        try:
            self._run(self._spawn)
        except OSError as error:  # too little memory, disk or processes: there may be enough again in a moment
            pause = self._pause_before_start(steady=False)
            log.warning("child not started", child=self.name, reason=str(error), restart_in=pause)

    def _pause_before_start(self, *, steady: bool) -> float:
        """Schedule the restart. Return the pause before it, in seconds: twice the last one unless it was `steady`."""
        self._pause = FIRST_PAUSE if steady else min(max(2 * self._pause, FIRST_PAUSE), MAX_PAUSE)
        self._restart_at = time.monotonic() + self._pause
        return self._pause

    def reload(self) -> None:
        """Make the process read the settings again. Not Redis: it has none of them, and SIGHUP would end it."""
        if self.name != "redis":
            self._process.send_signal(signal.SIGHUP)

    @property
    def pid(self) -> int:
        """The process id of the process, which may have ended."""
        return self._process.pid

    def terminate(self) -> None:
        """Ask the process to end."""
        self._process.terminate()

    def stop(self, deadline: float) -> None:
        """Ask the process to end, and kill it at `deadline`, in seconds of the monotonic clock."""
        if not process.end(self._process, deadline - time.monotonic()):
            log.warning("child killed", child=self.name, child_pid=self._process.pid)


class Signals:
    """What signals have asked of the supervisor.

    Plain values rather than a threading.Event, since a handler runs in the main thread, between any two of its
    instructions: if that thread held the lock of an event, a handler that sets the event would wait for it for ever.
    """

    def __init__(self) -> None:
        self.stop = False
        self.reload = False

    def listen(self) -> None:
        """Handle signals from now on: they no longer end the process."""
        terminal = Terminal()

        def on_stop(*_: object) -> None:
            self.stop = True

        def on_hangup(*_: object) -> None:
            if terminal.is_gone():
                self.stop = True
            else:
                self.reload = True

        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, on_stop)
        signal.signal(signal.SIGHUP, on_hangup)


def serve(settings: Settings, *, web: Sequence[str] = WEB, worker: Sequence[str] = WORKER) -> None:
    """Run a whole node until SIGTERM or SIGINT, or until its terminal is gone. Then end it in order.

    That takes at most 10 s after RELAY_DRAIN_SECONDS. SIGHUP makes this process and its children read the settings
    again (`reload.py`).

    `web` and `worker` are the commands that start these two. Logs one line `ready` with the node's URL once it answers.
    Raises ConfigError if a setting keeps the node from starting.
    """
    signals = Signals()
    signals.listen()
    listeners = listener.listen(settings.host, settings.port, web_processes(settings))
    environment = {**os.environ, **process.import_path(), **prepare(settings)}
    child_settings = ChildSettings()
    children: list[Child] = []
    with ExitStack() as stack:
        for each in listeners:
            stack.enter_context(each)
        redis = None
        if not settings.redis_url:
            embedded = EmbeddedRedis(
                settings.data_dir, settings.durability, settings.redis_maxmemory, settings.disk_reserve
            )
            redis = stack.enter_context(embedded)
        if settings.admin_port:
            environment["RELAY_METRICS_DIR"] = str(stack.enter_context(snapshots.folder_of(settings.metrics_dir)))
        # These run in reverse: the instance is reported as stopping, the sockets are closed, the children are stopped.
        # With the sockets closed here, connections are refused once the web processes close theirs.
        stack.callback(_stop, children, settings.drain_seconds)
        for each in listeners:
            stack.callback(each.close)
        stack.callback(snapshots.drain, environment.get("RELAY_METRICS_DIR", ""))
        if redis:
            environment["RELAY_REDIS_URL"] = redis.url
            first = partial(redis.start, lambda: signals.stop)
            children.append(Child("redis", redis.spawn, first=first, last_words=redis.last_words))
        if settings.admin_port:
            reporter = partial(_spawn, command("web", "worker"), dict(environment), child_settings)
            children.append(Child("metrics", reporter))
            environment["RELAY_ADMIN_PORT"] = "0"  # so that web and worker start no metrics process of their own
        descriptors = [each.fileno() for each in listeners]
        serving = {**environment, listener.HANDED_DOWN: ",".join(map(str, descriptors))}
        children.append(Child("web", partial(_spawn, web, serving, child_settings, descriptors)))
        children.append(Child("worker", partial(_spawn, worker, environment, child_settings)))
        _tend(children, settings, child_settings, signals)


def _tend(children: list[Child], settings: Settings, child_settings: ChildSettings, signals: Signals) -> None:
    ready = False
    current = Reloading(settings)
    while True:
        time.sleep(LOOK_SECONDS)
        if signals.stop:
            return
        if signals.reload:
            signals.reload = False
            if current.read():
                child_settings.renew()
                for child in children:
                    child.reload()
        for child in children:
            child.tend()
        process.reap_all_but({child.pid for child in children})
        if not ready and (ready := _answers(settings.host, settings.port)):
            log.info("ready", url=settings.public_url, host=settings.host, port=settings.port)


def _stop(children: list[Child], drain_seconds: int) -> None:
    log.info("stopping")
    began = time.monotonic()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda _signum, _frame: _end_drain(children))
    for child in sorted(children, key=lambda child: KILL_AFTER[child.name]):
        child.stop(began + drain_seconds + KILL_AFTER[child.name])
    log.info("stopped", seconds=round(time.monotonic() - began, 2))


def _end_drain(children: list[Child]) -> None:
    """Pass a second stop signal on to the web processes, which ends their draining."""
    for child in children:
        if child.name == "web":
            child.terminate()


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], inherited: ChildSettings, descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    return subprocess.Popen(  # noqa: S603 - the command is ours and no shell reads it
        command,
        env={**environment, **inherited.environment},
        stdin=subprocess.DEVNULL,
        pass_fds=descriptors,
        # Ctrl-C in a terminal is for the supervisor, which stops its children in order. The children get a process
        # group, but no session of their own: where the kernel schedules by session (sched(7), autogroups), the worker's
        # niceness would have no effect.
        process_group=0,
        preexec_fn=lambda: _prepare_child(parent),  # noqa: PLW1509
    )


def _prepare_child(parent: int) -> None:
    block_hangup()  # it would end a child that is still starting
    process.die_with_parent(parent, signal.SIGKILL)


def _answers(host: str, port: int) -> bool:
    """Return whether the node reports itself healthy."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    client = http.client.HTTPConnection(here, port, timeout=PROBE_TIMEOUT)
    try:
        client.request("GET", "/health")
        return client.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()
