"""`python -m node` is `relay-node`."""

import gc
import importlib
import os
import sys
from typing import cast

GC_THRESHOLDS = (50_000, 20, 50)
"""Much higher than Python's, so that the cyclic garbage collector runs rarely: imports and requests make many objects
and hardly any cycles."""


def main() -> int:
    """Run the command line and return the exit status."""
    _open_standard_streams()
    gc.set_threshold(*GC_THRESHOLDS)
    _import_structlog()
    from node import cli  # noqa: PLC0415 - with Python's thresholds, this import would take a tenth longer

    return cli.main()


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


def _import_structlog() -> None:
    """Import structlog as if rich, which Litestar depends on, were not installed.

    structlog would import rich to colour tracebacks, and we log JSON. It would take an eighth of the start of each
    process, and 3 MB of its memory.
    """
    if "rich" in sys.modules:
        return
    modules = cast("dict[str, object]", sys.modules)
    modules["rich"] = None  # so that importing it raises ImportError
    importlib.import_module("structlog")
    del modules["rich"]


if __name__ == "__main__":
    sys.exit(main())
