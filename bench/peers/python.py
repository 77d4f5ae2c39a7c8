"""Starts peers that are written in Python, under uvicorn or Granian with one worker process."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from bench.client import request
from bench.server import ROOT, Server, Unfit, free_port, started, until_it_answers

APPS = Path(__file__).parent / "apps"
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"

READY = request("GET", "/health")

UVICORN = {"server": "uvicorn", "workers": "1", "loop": "uvloop", "http": "httptools", "access log": "off"}
GRANIAN = {"server": "granian", "workers": "1", "loop": "uvloop", "http": "1", "access log": "off"}


@contextlib.asynccontextmanager
async def uvicorn(
    name: str, app: str, home: Path, environment: Mapping[str, str] | None = None, ready: bytes = READY
) -> AsyncGenerator[Server]:
    """Run an app of apps/ under uvicorn in the peers' environment.

    Raises Unfit if that environment is missing or the app does not answer.
    """
    if not PEERS_PYTHON.exists():
        raise Unfit("its packages are not installed: `make bench` installs them")
    port = free_port()
    options = (
        f"--host 127.0.0.1 --port {port} --workers 1 --loop uvloop --http httptools --no-access-log --log-level warning"
    )
    words = [PEERS_PYTHON, "-m", "uvicorn", "--app-dir", APPS, *options.split(), f"{app}:app"]
    async with started(words, home, environment) as pid:
        server = Server(name=name, port=port, settings=UVICORN, root=pid)
        await until_it_answers(server, ready, home)
        yield server


@contextlib.asynccontextmanager
async def granian(name: str, app: str, home: Path, interface: str = "asgi") -> AsyncGenerator[Server]:
    """Run an app of apps/ (`module:name`) under the node's Granian with the node's settings.

    Raises Unfit if it does not answer.
    """
    port = free_port()
    options = (
        f"--interface {interface} --http 1 --no-ws --workers 1 --loop uvloop --backlog 4096 --backpressure 4096"
        f" --no-access-log --log-level warning --host 127.0.0.1 --port {port}"
    )
    words = [sys.executable, "-m", "granian", *options.split(), "--working-dir", APPS, app]
    async with started(words, home) as pid:
        server = Server(name=name, port=port, settings=GRANIAN | {"interface": interface}, root=pid)
        await until_it_answers(server, READY, home)
        yield server
