"""What a process of the node does to itself: dies with its parent, takes all descriptors it may have.

Which processes there are, and who starts them, is in `run/serve.py`.
"""

import ctypes
import gc
import logging
import os
import resource
import signal
import site
import sys
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1  # linux/prctl.h: signal this process when the thread that made it ends

NICENESS = 10
"""Of what no acknowledgement waits for: a tenth of the processor time of what one does."""

_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int, signum: signal.Signals) -> None:
    """Have the kernel send this process `signum` when its parent, process `parent`, is gone.

    Run in the child, between fork and exec or after; it survives exec. The request is tied to
    the parent's *thread*, so a parent starts its children from its main thread. Only Linux has
    this; elsewhere a parent killed with SIGKILL leaves its children running.
    """
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def leave() -> NoReturn:
    """End this process with status 0, whatever its threads do. What was logged or printed is written first."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one: each client connection takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS calls its hard limit infinite and then refuses it
        return


def give_way() -> None:
    """Have Redis and the web processes run before this process where all want the processor."""
    os.nice(NICENESS)


def freeze() -> None:
    """Keep all there is for good. The collector then walks through what comes, not through modules again and again."""
    gc.collect()
    gc.freeze()


def import_path() -> dict[str, str]:
    """What a child needs in its environment to find this package, which may be a source tree."""
    root = str(Path(__file__).parents[2])
    if root in site.getsitepackages():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
