"""The error that ends a node which cannot write to its data directory."""

import errno
import os
from typing import TypeVar

from node.config import ConfigError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full disk. The disk may have room again later, so whoever starts the node should retry (EX_TEMPFAIL)."""

E = TypeVar("E", bound=ConfigError)


def unwritable(kind: type[E], what: str, error: OSError) -> E:
    """Return the error for a node that could not write `what`. If the disk is full, its status is EX_TEMPFAIL."""
    full = error.errno in NO_ROOM
    found = kind(f"{what}: {error.strerror}; {'free some space there' if full else 'make RELAY_DATA_DIR writable'}")
    if full:
        found.status = os.EX_TEMPFAIL
    return found
