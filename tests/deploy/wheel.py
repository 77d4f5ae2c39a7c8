"""The wheel that is released, built from this source tree."""

import subprocess
import sys
from pathlib import Path

from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE


def build(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel of `source` in `folder`, with the build backend that is installed here."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*command, *options, str(source)], check=True, capture_output=True, cwd=folder, timeout=PATIENCE)
    return next(folder.glob("relay_node-*.whl"))
