"""`python -m node` is `relay-node`."""

import sys

from node.cli import main

sys.exit(main())
