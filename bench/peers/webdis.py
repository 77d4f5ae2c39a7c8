"""Webdis, an HTTP front end for Redis in C, with one XADD per request: the least that a write over HTTP can cost."""

import contextlib
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

from bench.client import Call, request
from bench.lab import Peer
from bench.node import redis
from bench.payload import Template, relay_body
from bench.server import Server, Unfit, free_port, started, until_it_answers

_add = Template("PUT", "/XADD/messages/*/body")


@contextlib.asynccontextmanager
async def _start(home: Path) -> AsyncGenerator[Server]:
    program = shutil.which("webdis")
    if program is None:
        raise Unfit("not installed: `apt install webdis`")
    with redis(home) as (socket, redis_pid):
        port = free_port()
        config = home / "webdis.json"
        settings = {
            "redis_host": str(socket),
            "redis_port": 0,
            "http_host": "127.0.0.1",
            "http_port": port,
            "threads": 1,
            "pool_size": 20,
            "daemonize": False,
            "websockets": False,
            "database": 0,
            "verbosity": 0,
            "logfile": str(home / "webdis.log"),
        }
        config.write_text(json.dumps(settings))
        async with started([program, config], home) as pid:
            server = Server(
                name="webdis",
                port=port,
                settings={"threads": "1", "pool_size": "20", "redis": "unix socket"},
                root=pid,
                redis=socket,
                redis_pid=redis_pid,
            )
            await until_it_answers(server, request("GET", "/PING"), home)
            yield server


PEER = Peer(
    name="webdis",
    about="PUT → XADD of the same body; no parsing of it, no limits, no language gate",
    start=_start,
    calls=lambda number: Call(_add(relay_body(number))),
)
