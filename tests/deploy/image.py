"""The image built from the Dockerfile, and commands in it, run as a container engine runs them.

No engine is used. debootstrap makes the base, a Debian with Python under the name of the Dockerfile's base image, and
buildah builds without a daemon and without pulling. A command runs in a mount namespace of its own, with the image's
user, environment and working directory, a read-only root, no capabilities and no way to gain any: compose.yaml's
`read_only`, `cap_drop` and `no-new-privileges`. Needs root.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.packages import pip_files
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import free_port

BASE = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
SUITE = "bookworm"  # its Python is 3.11, like the Dockerfile's
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates"
NAME = "relay-node"
BUILD_TIME = 1200.0  # s, most of it to install packages

# $1 is the root of the image, $2 the directory mounted at /data; the command follows.
CONTAINER = """
mount --make-rprivate /
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/tmp"
mount --bind "$2" "$1/data"
mount -o remount,bind,ro "$1"
root=$1
shift 2
exec chroot "$root" "$@"
"""


def program(name: str) -> str:
    """Return the path of a program. If there is none, fail the test and say what to do."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.fail(f"no {name}: run `make image-test`, which installs it, or apt-get install {name}")
    return found


class Image:
    """An image in a separate store below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        places = ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._program = [program("buildah"), "--storage-driver", "vfs", *places]

    def build(self) -> None:
        """Build the base, and the image on it. Takes some minutes."""
        base = self._folder / "base"
        command = [program("debootstrap"), "--variant=minbase", f"--include={PACKAGES}", SUITE, str(base)]
        subprocess.run(command, check=True, capture_output=True, timeout=BUILD_TIME)
        for mark in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):  # the official Python images have no such mark
            mark.unlink()
        made = self._buildah("from", "scratch")
        self._buildah("add", "--quiet", made, str(base), "/")
        assert BASE is not None
        self._buildah("commit", "--quiet", made, f"docker.io/library/{BASE[1]}")
        self._buildah("rm", made)
        told = [f"--volume={source}:{target}:ro" for source, target in pip_files(self._folder).items()]
        build = ["bud", "--pull-never", "--format", "docker", "--tag", NAME, *told]
        self._buildah(*build, *self._arguments(), str(ROOT))

    def open(self) -> None:
        """Unpack the image, and read the configuration that an engine would use."""
        self.root = Path(self._buildah("mount", self._buildah("from", "--pull-never", NAME)))
        inspected = json.loads(self._buildah("inspect", "--type", "image", NAME))
        self.config: dict[str, Any] = inspected["Docker"]["config"]

    def close(self) -> None:
        """Free the disk space."""
        self._buildah("umount", "--all")
        shutil.rmtree(self._folder)

    def size(self) -> int:
        """Return the size of the image's files in bytes."""
        used = subprocess.run(["du", "-sxB1", self.root], capture_output=True, text=True, check=True)
        return int(used.stdout.split()[0])

    def command(self, words: Sequence[str], data: Path, settings: Mapping[str, str]) -> list[str]:
        """Return the command line that runs `words` in the image as its user, with `data` as the volume."""
        user, group = self.config["User"].split(":")
        data.mkdir(exist_ok=True)
        os.chown(data, int(user), int(group))
        contained = ["unshare", "--mount", "sh", "-eu", "-c", CONTAINER, "sh", str(self.root), str(data)]
        bounds = [f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
        limited = ["/usr/bin/setpriv", *bounds, "--bounding-set=-all"]
        inside = dict(pair.split("=", 1) for pair in self.config["Env"]) | dict(settings)
        given = ["/usr/bin/env", "-i", "-C", self.config["WorkingDir"], *(f"{k}={v}" for k, v in inside.items())]
        return [*contained, *limited, *given, *words]

    def run(self, words: Sequence[str], data: Path, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the image, and wait for its end."""
        command = self.command(words, data, settings)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def node(self, data: Path, *words: str, **settings: str) -> NodeProcess:
        """Return a node of the image on a free port, not started. `words` replace the image's default command."""
        port = free_port()
        command = [*self.config["Entrypoint"], *(words or self.config["Cmd"])]
        node = NodeProcess(data, self.command(command, data, {"RELAY_PORT": str(port)} | settings))
        node.port, node.url = port, f"http://127.0.0.1:{port}"
        return node

    def _buildah(self, *words: str) -> str:
        inside = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        command = [*self._program, *words]
        ran = subprocess.run(command, env=inside, capture_output=True, text=True, check=False, timeout=BUILD_TIME)
        if ran.returncode:
            pytest.fail(f"buildah {words[0]}: {ran.stdout[-2000:]}{ran.stderr[-4000:]}")
        return ran.stdout.strip()

    @staticmethod
    def _arguments() -> list[str]:
        index = os.environ.get("TORCH_INDEX", "")
        return ["--build-arg", f"TORCH_INDEX={index}"] if index else []
