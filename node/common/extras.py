"""The optional dependencies (extras) of the distribution."""

import sys


def pip_install(extra: str) -> str:
    """Return the command that installs an extra for the running interpreter, which a shell's PATH may not find."""
    return f"{sys.executable} -m pip install 'relay-node[{extra}]'"
