"""`python -m relay_client` is the command `relay`."""

import sys

from relay_client.command import main

sys.exit(main())
