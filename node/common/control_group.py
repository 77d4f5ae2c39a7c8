"""The resource limits of the container or systemd unit that this process runs in (cgroup v2)."""

from pathlib import Path, PurePosixPath

OWN = Path("/proc/self/cgroup")
"""File with the control group of this process, in a line that begins with `0::/`."""

GROUPS = Path("/sys/fs/cgroup")


def bounds(name: str) -> list[str]:
    """Return the contents of the file `name`, such as `memory.max`, in the control group of this process and in each
    group above it.

    `max` means no bound. Empty outside Linux.
    """
    lines = OWN.read_text().splitlines() if OWN.exists() else []
    own = PurePosixPath(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    files = [GROUPS / group / name for group in (own, *own.parents)]
    return [file.read_text().strip() for file in files if file.exists()]
