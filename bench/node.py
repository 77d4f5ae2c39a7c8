"""The node under measurement, started as an operator starts it, on an empty data directory.

`serve` runs the whole node. `web` runs one web process on a Redis of the same settings and no
worker: that is what is compared with peers, whose machine would otherwise be shared with embedding.
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

# Limits do their work on every request and refuse none: the load comes from few addresses.
NEVER_REACHED = "100000/60"
CHARACTERS_NEVER_REACHED = "1000000000/60"

# Totals of one address, which a load from few of them would reach, and of the node.
UNLIMITED = tuple(
    f"RELAY_{name.upper()}"
    for name in Settings.__struct_fields__
    if name.startswith("client_") or name in {"max_sessions", "max_inboxes", "max_threads", "max_tasks"}
)

AS_DELIVERED = dict.fromkeys((*(f"RELAY_LIMIT_{name.upper()}" for name in Limits.__struct_fields__), *UNLIMITED), "")
"""Settings of a node that refuses whom it would refuse in earnest: an empty one has its default."""

Prefix = Callable[[Path], Sequence[str]]
"""Makes the words before the command of a node, such as those that give it another resolver, from its directory."""

HEALTH = request("GET", "/health")


def no_prefix(_home: Path) -> Sequence[str]:
    """No words before the command."""
    return ()


def settings(home: Path, port: int, own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a node under measurement: one web process, everything else as delivered."""
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
    """A node on a free port, stopped at the end. Raises Unfit if there is none or it does not start."""
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
    """The node's own embedded server, for a node that runs as `web`, and for peers: the same settings for all."""
    with EmbeddedRedis(directory, durability) as server:
        yield server.socket, server.start().pid


def reported(environment: Mapping[str, str]) -> dict[str, str]:
    """What a reader needs to know: no paths (the model's is one of this machine), no ports, no secrets."""
    hidden = {"RELAY_PORT", "RELAY_DATA_DIR", "RELAY_REDIS_URL", "RELAY_SECRET", "RELAY_HOST"}
    given = {
        name: value for name, value in environment.items() if name not in hidden and value and not value.startswith("/")
    }
    usual = {name for name, value in given.items() if "_LIMIT_" in name and value == NEVER_REACHED}
    shown = {name: value for name, value in given.items() if name not in usual}
    return shown | ({"RELAY_LIMIT_*": NEVER_REACHED} if usual else {})
