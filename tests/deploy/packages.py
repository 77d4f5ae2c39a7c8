"""The package sources of this environment's pip, for a pip that runs in an image or in another machine."""

import shlex
import subprocess
import sys
from pathlib import Path


def pip_files(folder: Path) -> dict[str, str]:
    """Return the files of this machine that such a pip needs, each with its path there: a configuration, and the files
    that it names.
    """
    options = _options()
    file = folder / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
    words = {word for value in options.values() for word in value.split()}
    # The pages of an index refer to files next to them.
    indexes = {str(Path(word.removeprefix("file://")).parent) for word in words if word.startswith("file:///")}
    others = {word for word in words if word.startswith("/") and Path(word).exists()}
    return {str(file): "/etc/pip.conf"} | {path: path for path in indexes | others}


def _options() -> dict[str, str]:
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in listed.stdout.splitlines())
    return {name.partition(".")[2]: shlex.split(value)[0] for name, _, value in pairs}
