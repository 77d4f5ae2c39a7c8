"""The benchmark in client/bench runs."""

import subprocess
import sys
from pathlib import Path

from tests.support.servers import PATIENCE


def test_the_cost_of_a_message_is_measured() -> None:
    package = Path(__file__).parents[1]
    command = (sys.executable, "bench/rate.py", "--seconds", "0.1")
    done = subprocess.run(
        command,
        cwd=package,
        env={"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "httpx",
        "AsyncRelay, httpx",
        "aiohttp",
        "AsyncRelay, aiohttp",
    ]
