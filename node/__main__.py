"""`python -m node` is `relay-node`."""

import gc
import sys

GC_THRESHOLDS = (50_000, 20, 50)
"""Much higher than Python's, so that the cyclic collector runs rarely: imports and requests make many objects and next
to no cycles."""


def main() -> int:
    """Run the command line and return the exit status."""
    gc.set_threshold(*GC_THRESHOLDS)
    from node import cli  # noqa: PLC0415 - the collector would take a tenth of what this import takes

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
