"""`python -m node` is `relay-node`."""

import gc
import importlib
import sys
from typing import cast

GC_THRESHOLDS = (50_000, 20, 50)
"""Much higher than Python's, so that the cyclic garbage collector runs rarely: imports and requests make many objects
and hardly any cycles."""


def main() -> int:
    """Run the command line and return the exit status."""
    gc.set_threshold(*GC_THRESHOLDS)
    _import_structlog()
    from node import cli  # noqa: PLC0415 - with Python's thresholds, this import would take a tenth longer

    return cli.main()


def _import_structlog() -> None:
    """As if rich were not installed, which Litestar brings. structlog would import it to show tracebacks in colours;
    we log JSON. That would be an eighth of the start of each process, and 3 MB of its memory.
    """
    if "rich" in sys.modules:
        return
    modules = cast("dict[str, object]", sys.modules)
    modules["rich"] = None  # so that importing it raises ImportError
    importlib.import_module("structlog")
    del modules["rich"]


if __name__ == "__main__":
    sys.exit(main())
