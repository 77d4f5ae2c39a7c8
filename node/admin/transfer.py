"""Copies all entries of one Redis to another with DUMP and RESTORE, each to the server that has its slot.

The two may differ in size and slots. So the backup of a single server can fill a cluster, and the backup of a cluster
can fill a single server or a cluster of another size.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

from node.admin.backup import BackupError
from node.admin.commands import AS_OPERATOR
from node.config import Settings
from node.run.embedded_redis import EmbeddedError, EmbeddedRedis
from node.run.redis_check import RESTORING
from node.store import CommandFailed, Store, connect
from node.store.errors import OutOfMemory

ENTRIES_AT_ONCE = 64
"""Entries read and written together."""

TIMEOUT = 60.0
"""Timeout of a call, in seconds; an entry may be large."""

MAX_IN_FLIGHT = 1024

NO_END = -1
"""PTTL's reply for a key that does not expire; RESTORE takes 0 for such a key."""


async def fill(settings: Settings, data_dir: Path, backup: str, *, is_first: bool, is_last: bool) -> None:
    """Copy everything that the embedded server of a data directory holds to RELAY_REDIS_URL.

    A backup may consist of several such servers. Before the first one, the target must be empty, or hold what an
    interrupted restore of the same `backup` left. Raises BackupError, StoreUnavailable.
    """
    with EmbeddedRedis(data_dir, "everysec", settings.redis_maxmemory) as embedded:
        try:
            embedded.start()
        except EmbeddedError as error:
            raise BackupError(f"the Redis installed on this machine cannot read the backup: {error}") from error
        connected = partial(connect, timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT, required=True)
        async with await connected(embedded.url) as source, await connected(settings.redis_url) as target:
            try:
                if is_first:
                    await _begin(target, backup)
                await _move(source, target)
                if is_last:
                    await target.command("DEL", RESTORING)
            except (CommandFailed, OutOfMemory) as error:
                what_to_do = f"; {AS_OPERATOR}" if "NOPERM" in str(error) else ""
                raise BackupError(f"the Redis at RELAY_REDIS_URL refuses the backup: {error}{what_to_do}") from error


async def _begin(target: Store, backup: str) -> None:
    sizes = cast("list[int]", await target.everywhere("DBSIZE"))
    begun = cast("bytes | None", await target.command("GET", RESTORING))
    if begun is None and any(sizes):
        raise BackupError("the Redis at RELAY_REDIS_URL is not empty: use an empty one")
    if begun is not None and begun.decode() != backup:  # entries that only the other has would stay, and be in no list
        raise BackupError(
            "the Redis at RELAY_REDIS_URL holds part of another backup, whose restore was interrupted: "
            "use an empty one, or repeat that restore"
        )
    await target.command("SET", RESTORING, backup)


async def _move(source: Store, target: Store) -> None:
    cursor = b"0"
    while True:
        reply = await source.command("SCAN", cursor, "COUNT", ENTRIES_AT_ONCE)
        cursor, names = cast("tuple[bytes, Sequence[bytes]]", reply)
        # TTLs first: a key that expires between the two calls has no dump, so it is not restored without a TTL.
        lives = cast("list[int]", await source.run_all([("PTTL", name) for name in names]))
        dumps = await source.run_all([("DUMP", name) for name in names])
        await target.run_all(
            [
                ("RESTORE", name, 0 if life == NO_END else max(life, 1), cast("bytes", dump), "REPLACE")
                for name, dump, life in zip(names, dumps, lives, strict=True)
                if dump is not None
            ]
        )
        if cursor == b"0":
            return
