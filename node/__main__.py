"""`python -m node` is `relay-node`."""

import gc
import sys

GC_THRESHOLDS = (50_000, 20, 50)
"""Much higher than Python's, so that the cyclic garbage collector runs rarely: imports and requests make many objects
and hardly any cycles."""


def main() -> int:
    """Run the command line and return the exit status."""
    gc.set_threshold(*GC_THRESHOLDS)
    from node import cli  # noqa: PLC0415 - with Python's thresholds, this import would take a tenth longer

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
