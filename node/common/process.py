"""Calls to the operating system and the interpreter about this process itself: signals, limits, priority, exit.

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
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1  # linux/prctl.h: signal this process when the thread that made it ends

NICENESS = 10
"""Niceness of work that no acknowledgement waits for: it gets a tenth of the processor time of competing work."""

LOWEST_NICENESS = 19
"""Niceness of work that yields even to work of NICENESS: it gets 1/70 of the processor time of normal work."""

_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int, signum: signal.Signals) -> None:
    """Have the kernel send this process `signum` when its parent, process `parent`, ends.

    Call it in the child, before or after exec. The kernel watches the *thread* that created the child, so a parent must
    start its children from its main thread. Only Linux has this. On other systems, the children of a parent that is
    killed with SIGKILL go on running.
    """
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


def exists(pid: int) -> bool:
    """Return whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # the process of another user
    return True


def leave() -> NoReturn:
    """Exit with status 0 without waiting for threads, after flushing logs and standard streams."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def end(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Send SIGTERM to a child, and kill it if it has not ended after `seconds`. Returns whether it ended by itself."""
    child.terminate()
    try:
        child.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False
    return True


def reap_all_but(children: Collection[int]) -> None:
    """Reap the processes that have ended, except these children, whose exit status somebody else wants.

    The first process of a container becomes the parent of all processes whose own parent has died. One that nobody
    reaps keeps its process id for ever. Only Linux containers have this.
    """
    if sys.platform == "linux":
        with suppress(ChildProcessError):  # there is no child
            # A look that leaves the process in place, so that a child of somebody else stays one.
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and (
                ended.si_pid not in children
            ):
                os.waitpid(ended.si_pid, 0)


def stop_writing() -> None:
    """Redirect the rest of stdout to /dev/null, because its reader is gone, as after `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit, since each client connection takes a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS reports an infinite hard limit and then refuses it
        return


def give_way() -> None:
    """Lower the priority of this process below that of Redis and the web processes."""
    os.nice(NICENESS)


def have_children_give_way(parent: int) -> None:
    """Give the children of the main thread of process `parent` the lowest priority.

    Only Linux lists these children; on other systems they keep their priority.
    """
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:  # not Linux, or the parent has just ended
        return
    for child in children.split():
        with suppress(ProcessLookupError, PermissionError):  # the child has just ended; a sandbox forbids the call
            os.setpriority(os.PRIO_PROCESS, int(child), LOWEST_NICENESS)


def freeze() -> None:
    """Exempt all present objects, such as modules, from garbage collection, so that each collection takes less time.

    There is no collection first: it would delay the start by 50 ms, and free only 1,500 of 100,000 objects.
    """
    gc.freeze()


def import_path() -> dict[str, str]:
    """Return the environment variables with which a child process finds this package if it is not installed."""
    root = str(Path(__file__).parents[2])
    if root in site.getsitepackages():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
