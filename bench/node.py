"""Starts the node under measurement the way an operator does, on an empty data directory.

`serve` runs the whole node. `web` runs one web process on a Redis with the same settings, without a worker: this
is compared with peers, so that no embedding takes CPU from the comparison.
"""

import base64
import contextlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from bench.client import request
from bench.result import NODE
from bench.server import ROOT, Server, Unfit, free_port, started, until_it_answers
from node.config import Limits, Settings
from node.run.embedded_redis import EmbeddedRedis, socket_path
from tests.support.models import exported_model

Role = Literal["serve", "web"]

# Limits are checked on every request but refuse none: the load comes from few addresses.
NEVER_REACHED = "100000/60"
CHARACTERS_NEVER_REACHED = "1000000000/60"

# Settings of the totals per address, which a load from few addresses would reach, and of the totals per node.
UNLIMITED = tuple(
    f"RELAY_{name.upper()}"
    for name in Settings.__struct_fields__
    if name.startswith("client_") or name in {"max_sessions", "max_inboxes", "max_threads", "max_tasks"}
)

AS_DELIVERED = dict.fromkeys((*(f"RELAY_LIMIT_{name.upper()}" for name in Limits.__struct_fields__), *UNLIMITED), "")
"""Settings that restore the default limits and totals, so that a node refuses as in production. Empty means default."""

Prefix = Callable[[Path], Sequence[str]]
"""Given the node's directory, returns words to put before its command, such as those that give it another resolver."""

HEALTH = request("GET", "/health")


def no_prefix(_home: Path) -> Sequence[str]:
    """No words before the command."""
    return ()


def settings(home: Path, port: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node under measurement: one web process, limits that are never reached, `own`, and
    defaults for everything else."""
    return {
        "RELAY_HOST": "127.0.0.1",
        "RELAY_PORT": str(port),
        "RELAY_WORKERS": "1",
        "RELAY_DATA_DIR": str(home / "data"),
        "RELAY_LOG": "warning",
        "RELAY_EMBEDDING_MODEL": exported_model(),
        **{f"RELAY_LIMIT_{name.upper()}": NEVER_REACHED for name in Limits.__struct_fields__},
        "RELAY_LIMIT_SEARCH_CHARACTERS": CHARACTERS_NEVER_REACHED,
        **dict.fromkeys(UNLIMITED, "0"),
        **own,
    }


@contextlib.asynccontextmanager
async def running(
    home: Path, own: Mapping[str, str], role: Role = "serve", prefix: Prefix = no_prefix
) -> AsyncGenerator[Server]:
    """Run a node on a free port until the end of the block. Raises Unfit if this tree has none or it does not start."""
    if not (ROOT / "node" / "run" / "web.py").exists():
        raise Unfit("this tree has no node to start; name a running one with --url")
    port = free_port()
    environment = settings(home, port, own)
    (home / "data").mkdir(exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        redis_pid = None
        socket = socket_path(home / "data")
        if role == "web":
            socket, redis_pid = stack.enter_context(redis(home / "data", own.get("RELAY_DURABILITY", "always")))
            environment |= {
                "RELAY_REDIS_URL": f"unix://{socket}",
                "RELAY_SECRET": base64.b64encode(os.urandom(32)).decode(),
            }
        start = time.monotonic()
        command = [*prefix(home), sys.executable, "-m", "node", role]
        root = await stack.enter_async_context(started(command, home, environment))
        server = Server(
            name=NODE,
            port=port,
            settings={"part": role, **reported(environment)},
            root=root,
            role="supervisor" if role == "serve" else "web",
            redis=socket,
            redis_pid=redis_pid,
        )
        await until_it_answers(server, HEALTH, home)
        server.start_seconds = time.monotonic() - start
        yield server


@contextlib.contextmanager
def redis(directory: Path, durability: str = "always") -> Generator[tuple[Path, int]]:
    """Run the node's embedded Redis, for a node that runs as `web` and for peers, so that all have the same settings.

    Yields its socket and process id.
    """
    with EmbeddedRedis(directory, durability) as server:
        yield server.socket, server.start().pid


def reported(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that matter to a reader of the report: no paths (such as the model's), ports or secrets."""
    hidden = {"RELAY_PORT", "RELAY_DATA_DIR", "RELAY_REDIS_URL", "RELAY_SECRET", "RELAY_HOST"}
    given = {
        name: value for name, value in environment.items() if name not in hidden and value and not value.startswith("/")
    }
    usual = {name for name, value in given.items() if "_LIMIT_" in name and value == NEVER_REACHED}
    shown = {name: value for name, value in given.items() if name not in usual}
    return shown | ({"RELAY_LIMIT_*": NEVER_REACHED} if usual else {})
