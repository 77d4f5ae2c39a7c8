"""`relay-node admin`: the operator's commands, from all modules of this folder."""

from node.admin.commands import Commands
from node.admin.console import (
    agents,
    artifacts,
    backup,
    callbacks,
    clients,
    exchange,
    feedback,
    followers,
    inboxes,
    reports,
    status,
    tasks,
    threads,
)

GROUPS = (
    status,
    backup,
    exchange,
    threads,
    reports,
    tasks,
    feedback,
    callbacks,
    artifacts,
    inboxes,
    agents,
    clients,
    followers,
)
"""In the order in which --help shows them."""


def register(commands: Commands) -> None:
    admin = commands.group(
        "admin", "operate a node: see and moderate what is on it, block clients, back up, read the audit log"
    )
    for group in GROUPS:
        group.register(admin)
