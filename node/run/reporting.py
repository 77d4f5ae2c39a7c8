"""Starts the process that reports on this instance (`metrics.py`), if RELAY_ADMIN_PORT is set.

That process imports the stores of many features, which a supervisor does not need.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from node.common import process
from node.config import Settings
from node.observe.metrics.families import Role
from node.observe.metrics.snapshots import folder_of

PROGRAM = "node.admin.port"
"""The module to run. It is in a higher layer, since it also serves the operator's pages."""

STOP_SECONDS = 3.0
"""Seconds that the process may take to end before it is killed."""


def command(*roles: Role) -> list[str]:
    """Return the command line of a metrics process that reports on this process and its children with these roles."""
    return [sys.executable, "-P", "-m", PROGRAM, "--parent", str(os.getpid()), *roles]


@contextmanager
def reporting(settings: Settings, role: Role) -> Generator[str]:
    """Run a metrics process for this process and its children while the context lasts, if RELAY_ADMIN_PORT is set.

    Yields the folder to which they write their counts, or "" if nobody counts. Children find it in their environment.
    """
    if not settings.admin_port:
        yield settings.metrics_dir
        return
    with folder_of(settings.metrics_dir) as folder:
        os.environ["RELAY_METRICS_DIR"] = str(folder)
        reporter = subprocess.Popen(  # noqa: S603 - the command is ours and no shell reads it
            command(role),
            env={**os.environ, **process.import_path()},
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            yield str(folder)
        finally:
            process.end(reporter, STOP_SECONDS)
