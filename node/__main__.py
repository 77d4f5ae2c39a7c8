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
        with as_if_not_installed("rich"):  # Litestar has it, and structlog would show tracebacks with it; we log JSON
            importlib.import_module("structlog")
        from node import cli  # noqa: PLC0415 - with Python's thresholds, this import would take a tenth longer

        return cli.main()
    except KeyboardInterrupt:  # serve, web and worker handle SIGINT themselves, once they are imported
        return INTERRUPTED


def _open_standard_streams() -> None:
    """Open /dev/null in place of those that whoever started this process has closed (`<&- >&-`).

    The next socket or file would take their numbers: a child would not get that socket, and what it prints would be
    in that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


if __name__ == "__main__":
    sys.exit(main())
