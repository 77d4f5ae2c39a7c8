"""`relay-node admin`: what the operator does to a node, a group of commands for each room."""

from node.commands import Commands
from node.ops import (
    admin_artifacts,
    admin_backup,
    admin_callbacks,
    admin_clients,
    admin_feedback,
    admin_status,
    admin_threads,
)

ROOMS = (
    admin_status,
    admin_backup,
    admin_threads,
    admin_feedback,
    admin_callbacks,
    admin_artifacts,
    admin_clients,
)


def register(commands: Commands) -> None:
    """All of it."""
    admin = commands.group("admin", "look after a node: what is on it, who may use it, what the operators did")
    for room in ROOMS:
        room.register(admin)
