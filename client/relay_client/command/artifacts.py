"""`relay artifact`: upload and download large bytes."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from relay_client.command.output import progress, show
from relay_client.command.parser import Commands, command, connected, file_of, group, standard_input
from relay_client.errors import UsageError

LONGEST_NAME = 255  # bytes of a file name, in most file systems


def add(commands: Commands) -> None:
    artifact = group(commands, "artifact", "large bytes, stored for a while")
    put = command(artifact, "put", _put, "store a file, and show its id once the node has verified it")
    put.add_argument("file", help="file to store; - reads it from standard input")
    put.add_argument(
        "--publisher", metavar="NAME", default="relay-command", help="your public name; default: %(default)s"
    )
    put.add_argument("--type", metavar="MEDIA_TYPE", help="media type of the file; default: guessed from its name")
    put.add_argument("--filename", metavar="NAME", help="name to store it with; default: the name of the file")
    get = command(artifact, "get", _get, "save an artifact, once its digest is verified")
    get.add_argument("id", help="id of the artifact")
    get.add_argument(
        "file",
        nargs="?",
        help="file to save it in; - writes it to standard output; default: its stored name, in the current directory",
    )
    get.add_argument("--force", action="store_true", help="replace an existing file")


def _put(given: Namespace) -> None:
    source = standard_input().buffer.read() if given.file == "-" else file_of(given.file)
    with connected(given) as relay:
        stored = relay.artifacts.upload(
            source, given.publisher, media_type=given.type, filename=given.filename, progress=progress()
        )
    show(given, stored, stored["id"])


def _get(given: Namespace) -> None:
    with connected(given) as relay:
        if given.file == "-":
            sys.stdout.buffer.write(relay.artifacts.download_bytes(given.id))
            sys.stdout.buffer.flush()
            return
        target = Path(given.file or _name(relay.artifacts.get(given.id)["filename"], given.id))
        if target.exists() and not given.force:
            raise UsageError(f"{target} exists already; --force replaces it")
        saved = relay.artifacts.download(given.id, target, progress=progress())
    show(given, {**saved, "file": str(target)}, str(target))


def _name(filename: str | None, ident: str) -> str:
    """Return a safe file name. A stranger chose `filename`, so it must not lead to another folder, be hidden, or be too
    long for a file system.
    """
    name = Path(filename or "").name.lstrip(".")
    return name if name and len(os.fsencode(name)) <= LONGEST_NAME else ident
