"""`python -m node` is `relay-node`."""

import gc
import importlib
import os
import sys

from node.common.unused_package import as_if_not_installed

INTERRUPTED = 130
"""Exit status of a command that SIGINT has ended; shells use the same."""

GC_THRESHOLDS = (50_000, 20, 50)
"""Much higher than Python's, so that the cyclic garbage collector runs rarely: imports and requests make many objects
and hardly any cycles."""


def main() -> int:
    """Run the command line and return the exit status."""
    _open_standard_streams()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        with as_if_not_installed("rich"):  # installed by Litestar; structlog would format tracebacks with it
            importlib.import_module("structlog")
        from node import cli  # noqa: PLC0415 - with Python's own thresholds this import takes 10 % longer

        return cli.main()
    except KeyboardInterrupt:  # serve, web and worker handle SIGINT themselves, once they are imported
        return INTERRUPTED


def _open_standard_streams() -> None:
    """Open /dev/null in place of each standard stream that the parent process has closed (`<&- >&-`).

    Otherwise the next socket or file would get the number of that stream. A child process would not inherit such a
    socket, and would print into such a file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


if __name__ == "__main__":
    sys.exit(main())
