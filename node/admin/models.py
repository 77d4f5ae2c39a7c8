"""`relay-node model export`: exports an embedding model for workers without torch."""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from node.admin.commands import Commands
from node.common import process
from node.config import Settings
from node.embedding.model import ModelUnavailable

FAILED = 1


def register(commands: Commands) -> None:
    group = commands.group("model", "the embedding model")
    command = group.add(
        "export", _export, "export an embedding model for workers that have neither torch nor transformers"
    )
    command.add_argument("folder", type=Path, help="directory to write the export to; it must be new or empty")
    command.add_argument("--model", help="path or name of the model; default: RELAY_EMBEDDING_MODEL")
    command.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # pid of a worker; the export ends with it


def _export(settings: Settings, given: argparse.Namespace) -> int:
    # Imported here so that other commands start without it.
    from node.embedding.export import ExportFailed, export, remove_unfinished  # noqa: PLC0415

    def end(signum: int, _frame: object) -> NoReturn:
        """Remove what was written, and exit. Not by an exception: Python ignores one that is raised in a callback of
        a weak reference, and calls such callbacks at each import.

        A second signal must not interrupt the removal: when the worker is killed, the kernel may send one for each of
        its threads (PR_SET_PDEATHSIG, prctl(2)).
        """
        signal.signal(signum, signal.SIG_IGN)
        remove_unfinished(given.folder.parent)
        os._exit(128 + signum)

    signal.signal(signal.SIGTERM, end)
    if given.parent:
        process.die_with_parent(given.parent, signal.SIGTERM)
    try:
        if not given.parent and given.folder.exists() and any(given.folder.iterdir()):
            sys.stderr.write(f"relay-node: {given.folder} is not empty: name a new directory\n")
            return FAILED
        described = export(settings.embedding_model if given.model is None else given.model, given.folder)
    except (ExportFailed, ModelUnavailable, OSError) as error:
        sys.stderr.write(f"relay-node: {error}\n")
        return FAILED
    sys.stdout.write(f"{given.folder}: {described.dimension} dimensions, fingerprint {described.fingerprint}\n")
    return 0
