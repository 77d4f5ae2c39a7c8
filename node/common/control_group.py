"""What a container, or a unit of systemd, may use of its machine (cgroup v2)."""

from pathlib import Path, PurePosixPath

OWN = Path("/proc/self/cgroup")
"""Names the control group of this process, in a line that begins with `0::/`."""

GROUPS = Path("/sys/fs/cgroup")


def bounds(name: str) -> list[str]:
    """What the file of this name, such as `memory.max`, says in the process' group and in those around it.

    `max` stands for no bound. There is none outside Linux.
    """
    lines = OWN.read_text().splitlines() if OWN.exists() else []
    own = PurePosixPath(next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), ""))
    files = [GROUPS / group / name for group in (own, *own.parents)]
    return [file.read_text().strip() for file in files if file.exists()]
