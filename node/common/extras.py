"""The extras of the distribution, which an installation may lack."""

import sys


def pip_install(extra: str) -> str:
    """The command that installs an extra for the running interpreter, not for the one that a shell would find."""
    return f"{sys.executable} -m pip install 'relay-node[{extra}]'"
