"""`relay-node admin`: what the operator does to a node, a group of commands for each room."""

from node.admin.commands import Commands
from node.admin.console import artifacts, backup, callbacks, clients, feedback, status, threads

ROOMS = (
    status,
    backup,
    threads,
    feedback,
    callbacks,
    artifacts,
    clients,
)


def register(commands: Commands) -> None:
    """All of it."""
    admin = commands.group("admin", "look after a node: what is on it, who may use it, what the operators did")
    for room in ROOMS:
        room.register(admin)
