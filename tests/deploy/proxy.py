"""The real HAProxy with the shipped configuration, in front of web nodes on loopback."""

import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE, free_port, until

CONFIG = ROOT / "deploy" / "haproxy" / "haproxy.cfg"
VARIABLES = ("LISTEN", "METRICS", "NODE_1", "NODE_2", "PLAIN", "ACME", "RUN_AS")


def haproxy() -> str:
    """Return the path of HAProxy. If there is none, fail the test and say what to install."""
    path = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        pytest.fail("no HAProxy to stand before the nodes: run `make system`, or apt-get install haproxy")
    return path


class Proxy:
    """HAProxy on a port of its own. `nodes` are the ports of the web nodes, `tls` is a certificate with its key.

    With a certificate, or with `sends_on`, it also listens without TLS on another port, and redirects clients to https.
    """

    def __init__(
        self, folder: Path, *nodes: int, tls: Path | None = None, sends_on: bool = False, config: Path = CONFIG
    ) -> None:
        self._config = config
        self.port = free_port()
        self.plain = free_port()
        self.metrics = free_port()
        self._log = folder / "haproxy.log"
        self._settings = {
            "LISTEN": f"127.0.0.1:{self.port}" + (f" ssl crt {tls} alpn h2,http/1.1" if tls else ""),
            **({"PLAIN": f"127.0.0.1:{self.plain}"} if tls or sends_on else {}),
            "METRICS": f"127.0.0.1:{self.metrics}",
            **{f"NODE_{number}": f"127.0.0.1:{port}" for number, port in enumerate(nodes, 1)},
        }

    def check(self) -> subprocess.CompletedProcess[str]:
        """Let HAProxy check the configuration."""
        command = [haproxy(), "-c", "-f", str(self._config)]
        return subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [haproxy(), "-db", "-f", str(self._config)], env=self._environment(), stdout=log, stderr=log
            )
        try:
            until(self._listens, f"HAProxy listens; see {self._log}")
        except TimeoutError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ending: object) -> None:
        self._process.terminate()
        self._process.wait()

    def up(self) -> dict[str, bool]:
        """Return whether each node gets requests, by name."""
        found = {
            line.split('server="')[1].split('"')[0]: line.endswith(" 1")
            for line in self.figures()
            if line.startswith("haproxy_server_status{") and 'state="UP"' in line
        }
        if not found:
            raise LookupError("no servers in the metrics")
        return found

    def has_left(self, name: str) -> bool:
        """Return whether a node gets no more requests and has answered all that it got."""
        under_way = f'haproxy_server_current_sessions{{proxy="nodes",server="{name}"}} '
        return not self.up()[name] and f"{under_way}0" in self.figures()

    def sees(self, *states: bool) -> None:
        """Return as soon as the proxy's view of the nodes node-1, node-2 ... is this one."""
        expected = {f"node-{number}": state for number, state in enumerate(states, 1)}
        try:
            until(lambda: self.up() == expected, "it knows who is there")
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {self.up()} instead of {expected}") from None

    def requests(self) -> dict[str, int]:
        """Return the number of answers of each node."""
        counts: dict[str, int] = {}
        for line in self.figures():
            if line.startswith("haproxy_server_http_responses_total{"):
                name = line.split('server="')[1].split('"')[0]
                counts[name] = counts.get(name, 0) + int(line.rpartition(" ")[2])
        return counts

    def figures(self) -> list[str]:
        """Return the lines of the metrics that Prometheus reads."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=PATIENCE) as answer:
            return answer.read().decode().splitlines()

    def retires(self) -> None:
        """Make HAProxy leave its ports to another process, as a reload does, and wait until it has."""
        self._process.send_signal(signal.SIGUSR1)
        until(lambda: "Proxy clients stopped" in self.log(), f"HAProxy retires; see {self._log}")

    def log(self) -> str:
        return self._log.read_text()

    def _listens(self) -> bool:
        try:
            return bool(self.figures())
        except OSError:
            return False

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self._settings}
