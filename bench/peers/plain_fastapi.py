"""The relay as most people would write it today, with FastAPI, a pydantic model, redis-py and uvicorn."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from bench.client import Call
from bench.lab import Peer
from bench.node import redis
from bench.payload import Template, relay_body
from bench.peers.python import uvicorn
from bench.server import Server

NAME = "fastapi + redis-py"

_relay = Template("POST", "/api/v1/relay")


@contextlib.asynccontextmanager
async def _start(home: Path) -> AsyncGenerator[Server]:
    with redis(home) as (socket, redis_pid):
        async with uvicorn(NAME, "plain_relay", home, {"REDIS_SOCKET": str(socket)}) as server:
            server.redis, server.redis_pid = socket, redis_pid
            yield server


PEER = Peer(
    name=NAME,
    about="validates, counts the client's minute, stores message and board entry; no language gate, no loop memory",
    start=_start,
    calls=lambda number: Call(_relay(relay_body(number))),
)
