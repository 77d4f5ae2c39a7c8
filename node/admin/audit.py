"""Who did what to the node from the command line: a log line each, and the last of them in Redis."""

import getpass
import os
from collections.abc import Sequence
from typing import cast

import msgspec
import structlog

from node.common.timestamps import timestamp
from node.store import Store, keys
from node.store.decoding import fields_of

log = structlog.get_logger()

KEPT = 10_000
"""Entries kept in Redis; the oldest go first."""

LONGEST = 2000
"""Characters kept of a target: a command may name a thousand ids."""


class AuditEntry(msgspec.Struct, frozen=True):
    """One command."""

    at: str
    who: str
    command: str
    target: str
    outcome: str


def who() -> str:
    """The name of the user who runs this process; the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


async def record(store: Store, command: str, target: str, outcome: str) -> None:
    """Tell of a command. The log line is written first, whatever Redis says. Raises StoreUnavailable."""
    fields = {"who": who(), "command": command, "target": target[:LONGEST], "outcome": outcome}
    log.info("admin", **fields)
    flat = [part for pair in fields.items() for part in pair]
    await store.command("XADD", keys.AUDIT, "MAXLEN", KEPT, "*", *flat)


async def entries(store: Store, count: int) -> Sequence[AuditEntry]:
    """The last commands, newest first. Raises StoreUnavailable."""
    reply = await store.command("XREVRANGE", keys.AUDIT, "+", "-", "COUNT", count)
    return [_entry(*entry) for entry in cast("list[tuple[bytes, object]]", reply)]


def _entry(entry_id: bytes, flat: object) -> AuditEntry:
    fields = {name.decode(): value.decode() for name, value in fields_of(flat).items()}
    return AuditEntry(timestamp(int(entry_id.partition(b"-")[0])), **fields)
