"""The audit log: who ran which command, in a shell or on the admin page.

Each entry is also a line in the log of the process that ran the command; Redis keeps only the last entries.
"""

import os
import pwd
from collections.abc import Sequence
from typing import cast

import msgspec
import structlog

from node.admin.terminal import utf8
from node.common.timestamps import timestamp
from node.store import Store, keys
from node.store.decoding import entry_id, flat_of, texts_of
from node.store.steps import Key, Rest, step

log = structlog.get_logger()

MAX_ENTRIES = 10_000
"""Entries kept in Redis; the oldest are removed first."""

MAX_TARGET = 2000
"""Characters of a target that are kept. A command may name a thousand ids."""


class AuditEntry(msgspec.Struct, frozen=True):
    """One command that was run."""

    at: str
    who: str
    command: str
    target: str
    outcome: str


@step
def audit_add(*, audit: Key, most: int, fields: Rest) -> None:
    """Add an entry, and remove the oldest beyond `most`."""


def who() -> str:
    """Return who runs this process: its account, and who became that account with sudo.

    The account comes from the system, not from LOGNAME, which anybody can set. SUDO_USER can be trusted only if the
    process runs as root; then its name is returned alone.
    """
    uid = os.getuid()
    try:
        account = pwd.getpwuid(uid).pw_name
    except KeyError:
        account = str(uid)
    person = utf8(os.environ.get("SUDO_USER", ""))
    if person in ("", account):
        return account
    return person if uid == 0 else f"{account} ({person} by sudo)"


async def record(store: Store, who: str, command: str, target: str, outcome: str) -> None:
    """Record that a command was run. The log line is written even if Redis is out of reach. Raises StoreUnavailable."""
    fields = {"who": who, "command": command, "target": utf8(target)[:MAX_TARGET], "outcome": outcome}
    log.info("admin", **fields)
    await store.run(audit_add(audit=keys.AUDIT, most=MAX_ENTRIES, fields=flat_of(fields)))


async def entries(store: Store, count: int) -> Sequence[AuditEntry]:
    """Return the last `count` commands, newest first. Raises StoreUnavailable."""
    reply = await store.command("XREVRANGE", keys.AUDIT, "+", "-", "COUNT", count)
    return [
        AuditEntry(timestamp(entry_id(entry)[0]), **texts_of(flat))
        for entry, flat in cast("list[tuple[bytes, object]]", reply)
    ]
