"""What a process asks of the operating system and the interpreter for itself: signals, limits, priority, its end.

`run/serve.py` starts the processes.
"""

import ctypes
import gc
import logging
import os
import resource
import signal
import site
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1  # linux/prctl.h: signal this process when the thread that made it ends

NICENESS = 10
"""For work that no acknowledgement waits for: beside other work it gets a tenth as much processor time."""

LOWEST_NICENESS = 19
"""For work that has to wait even for work of NICENESS: beside other work it gets a seventieth."""

_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int, signum: signal.Signals) -> None:
    """Have the kernel send this process `signum` when its parent, process `parent`, has ended.

    To be called in the child, before or after exec. The kernel waits for the end of the *thread* that created the
    child, so a parent has to start its children from its main thread. Only Linux has this; elsewhere the children of a
    parent that is killed with SIGKILL go on running.
    """
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:  # it had ended before the call
        os._exit(1)


def exists(pid: int) -> bool:
    """Whether there is a process of that id."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it is another user's
    return True


def leave() -> NoReturn:
    """End this process with status 0, without waiting for its threads. What was logged or printed is written first."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def end(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Ask a child to end, and kill it if it has not after `seconds`. Returns whether it ended by itself."""
    child.terminate()
    try:
        child.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False
    return True


def stop_writing() -> None:
    """Send the rest of stdout to /dev/null: its reader is gone, as after `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one: each client connection takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS reports an infinite hard limit and then refuses it
        return


def give_way() -> None:
    """Lower the priority of this process below that of Redis and the web processes."""
    os.nice(NICENESS)


def have_children_give_way(parent: int) -> None:
    """Lower the priority of the children of the main thread of process `parent` to the lowest there is.

    Only Linux tells which these are; elsewhere they keep theirs.
    """
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:  # not Linux, or the parent has just ended
        return
    for child in children.split():
        with suppress(ProcessLookupError, PermissionError):  # it has just ended; a sandbox forbids it
            os.setpriority(os.PRIO_PROCESS, int(child), LOWEST_NICENESS)


def freeze() -> None:
    """Exempt all present objects, such as modules, from garbage collection, so that each collection takes less time.

    Nothing is collected first: that takes 50 ms of a process's start, and finds 1,500 objects of 100,000.
    """
    gc.freeze()


def import_path() -> dict[str, str]:
    """Environment variables by which a child finds this package if it is not installed."""
    root = str(Path(__file__).parents[2])
    if root in site.getsitepackages():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
