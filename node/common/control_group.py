"""How much of the machine a container or a systemd unit may use (cgroup v2)."""

from pathlib import Path, PurePosixPath

OWN = Path("/proc/self/cgroup")
"""Has the control group of this process in a line that begins with `0::/`."""

GROUPS = Path("/sys/fs/cgroup")


def bounds(name: str) -> list[str]:
    """The contents of the file of this name, such as `memory.max`, in the process' group and in those above it.

    `max` means no bound. Empty outside Linux.
    """
    lines = OWN.read_text().splitlines() if OWN.exists() else []
    own = PurePosixPath(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    files = [GROUPS / group / name for group in (own, *own.parents)]
    return [file.read_text().strip() for file in files if file.exists()]
