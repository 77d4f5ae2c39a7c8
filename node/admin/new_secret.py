"""`relay-node new-secret`: lets a stopped node start with another RELAY_SECRET.

Redis records which secret its data was made with (`node.store.identity`), and a process with another secret refuses to
start on it. This command removes that record. If the node has an embedded server, the command starts it for this alone.
"""

import argparse
import asyncio
import sys
from contextlib import ExitStack

from node.admin.commands import Commands
from node.common.file_access import is_there
from node.config import ConfigError, Settings
from node.run.embedded_redis import EmbeddedRedis
from node.run.keychain import SECRET
from node.run.redis_check import out_of_reach
from node.store import StoreUnavailable, connect
from node.store.identity import forget_secret


def register(commands: Commands) -> None:
    meaning = "let a stopped node start with another RELAY_SECRET; all tokens that it gave out become invalid"
    commands.add("new-secret", _run, meaning)


def _run(settings: Settings, _given: argparse.Namespace) -> int:
    with ExitStack() as stack:
        url = settings.redis_url
        if not url:
            if not is_there(settings.data_dir / "redis"):
                raise ConfigError(f"{settings.data_dir} holds no node: set RELAY_DATA_DIR to the node's directory")
            server = stack.enter_context(EmbeddedRedis(settings.data_dir, maxmemory=settings.redis_maxmemory))
            server.start()
            url = server.url
        try:
            asyncio.run(_forget(settings, url))
        except StoreUnavailable as unavailable:
            raise out_of_reach(url, settings.store_timeout, unavailable) from unavailable
    # Last: after an earlier interruption, the node finds its old secret on disk, no record in Redis, and goes on.
    (settings.data_dir / SECRET).unlink(missing_ok=True)
    sys.stdout.write("the next start uses RELAY_SECRET, or generates a secret; all earlier tokens are invalid\n")
    return 0


async def _forget(settings: Settings, url: str) -> None:
    async with await connect(url, timeout=settings.store_timeout, max_in_flight=16, required=True) as store:
        await forget_secret(store)
