"""SIGHUP: a running process reads its settings again and takes over those that it can, without losing a connection.

The environment of a process does not change, so only relay.toml is read again. Each process reads it itself: `serve`
passes the signal on to its children, and the main process of `web` to those that answer requests. A process that is
restarted gets the settings in force, not what the file says by then (`ChildSettings`).
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from node.config import ConfigError, Limits, Settings, texts, variable
from node.config.loading import FIELDS
from node.config.sources import IN_FORCE, handed_down
from node.observe import log
from node.run.validation import loaded

RELOADED = ("trusted_proxies", "callback_refused_networks", "log")
"""Settings that a running process can take over, besides limits."""

STDOUT, STDERR = 1, 2
"""File descriptors."""

logger = structlog.stdlib.get_logger("node.run.reload")


def block_hangup() -> None:
    """Block SIGHUP in this process and those that it starts, until each handles it (`on_hangup`)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))


def on_hangup(
    settings: Settings, take: Callable[[Settings], None], *, end: Callable[[], None] | None = None, logs: bool = True
) -> None:
    """At each SIGHUP, call `take` with the settings that are in force from then on.

    `end`: called instead if the terminal of this process is gone. `logs` as in `Reloading.read`. Needs a running event
    loop. Does nothing outside the main thread, since other threads cannot handle signals.
    """
    state, terminal = Reloading(settings), Terminal()

    def reload() -> None:
        if end and terminal.is_gone():
            end()
        elif changed := state.read(logs=logs):
            take(changed)

    with suppress(NotImplementedError, ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))


class Reloading:
    """The settings in force in one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def read(self, *, logs: bool = True) -> Settings | None:
        """Read the settings again and set the log level. Return the settings now in force.

        Return None if the settings cannot be used: those in force stay. `logs`: whether to log what has changed, and
        what would change only at a restart.
        """
        try:
            found = loaded({name: text for name, text in os.environ.items() if name != IN_FORCE})
        except ConfigError as error:
            logger.error("settings not reloaded", reason=str(error))  # noqa: TRY400 - the sentence says all
            return None
        before = self.settings
        taken = {name: getattr(found, name) for name in ("limits", *RELOADED)}
        self.settings = msgspec.structs.replace(before, **taken)
        log.configure(self.settings.log)
        if logs:
            changed, waiting = variables(before, self.settings), variables(self.settings, found)
            logger.info("settings reloaded", changed=changed, after_a_restart=waiting)
        return self.settings


class ChildSettings:
    """The settings in force that come from files, for the processes that a supervisor starts. Raises ConfigError."""

    def __init__(self) -> None:
        self._given = texts()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variable that hands these settings down."""
        return handed_down(self._given)

    def renew(self) -> None:
        """Take over what a running process can take over. Call this after `Reloading.read` has accepted the file."""
        try:
            found, before = texts(), self._given
        except ConfigError:  # somebody is writing the file just now
            return
        self._given = {
            name: given
            for there, is_renewed in ((before, False), (found, True))
            for name, given in there.items()
            if _is_reloaded(name) == is_renewed
        }


def _is_reloaded(name: str) -> bool:
    return name.startswith(variable("limit", "")) or name in map(variable, RELOADED)


def variables(before: Settings, after: Settings) -> list[str]:
    """Return the names of the settings that differ."""
    names = [variable(name) for name in FIELDS if getattr(before, name) != getattr(after, name)]
    limits = [name for name in Limits.__struct_fields__ if getattr(before.limits, name) != getattr(after.limits, name)]
    return [*names, *(variable("limit", name) for name in limits)]


class Terminal:
    """The terminal that this process was started from, if any. When it hangs up, the process gets SIGHUP, too.

    A process that was started with SIGHUP ignored (`nohup`) goes on without its terminal. A process with a supervisor
    leaves it to the supervisor to notice the hangup.
    """

    def __init__(self) -> None:
        is_left_to_others = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or IN_FORCE in os.environ
        self._had = not is_left_to_others and _has_terminal()
        self._shown = [stream for stream in (STDOUT, STDERR) if os.isatty(stream)]

    def is_gone(self) -> bool:
        """Return whether the terminal has hung up. If so, send what this process still shows there to /dev/null.

        Otherwise, Python could not write the last log lines, and would exit with status 120.
        """
        if not self._had or _has_terminal():
            return False
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in self._shown:
            os.dup2(nowhere, stream)
        os.close(nowhere)
        return True


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
