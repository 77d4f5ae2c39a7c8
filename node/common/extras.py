"""The extras of the distribution, which an installation may lack."""

import sys


def pip_install(extra: str) -> str:
    """The command that installs an extra beside the running program, whichever `pip` a shell would find."""
    return f"{sys.executable} -m pip install 'relay-node[{extra}]'"
