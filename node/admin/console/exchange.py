"""`relay-node admin export` and `import`: carry what a node keeps for good to another node, as JSON lines."""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add
from node.admin.terminal import one_line
from node.common.private_files import open_private
from node.run.exchange import ExchangeError, header_of, import_line, read_header, records

STANDARD = Path("-")
"""Stands for standard output or input."""


def register(commands: Commands) -> None:
    meaning = "write threads and replies (hidden ones, too), contracts and artifact manifests (no bytes) as JSON lines"
    writing = add(commands, "export", _export, meaning)
    writing.add_argument(
        "file", type=Path, nargs="?", default=STANDARD, help="new file to write; default: standard output"
    )
    meaning = "add what another node has exported; what this node already has stays as it is"
    reading = add(commands, "import", _import, meaning)
    reading.add_argument("file", type=Path, nargs="?", default=STANDARD, help="file to read; default: standard input")


async def _export(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    counts: Counter[str] = Counter()
    try:
        with ExitStack() as stack:
            out = sys.stdout.buffer if given.file == STANDARD else stack.enter_context(_whole(given.file))
            out.write(msgspec.json.encode(header_of(context.settings.node_id)) + b"\n")
            async for record in records(context.store):
                out.write(msgspec.json.encode(record) + b"\n")
                counts[record.kind] += 1
            out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return CommandResult.failed(f"{given.file}: {error.strerror}")
    except ExchangeError as error:
        return CommandResult.failed(str(error))
    if given.file == STANDARD:
        return CommandResult(data=None, lines=(), outcome=_summary(counts))
    return CommandResult(data=dict(counts), lines=[_summary(counts)], outcome=_summary(counts))


@contextmanager
def _whole(path: Path) -> Generator[BinaryIO]:
    """Open a new file, and remove it if the block fails: half an export looks like a whole one of a smaller node."""
    file = open_private(path)
    try:
        with file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _import(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    counts: Counter[str] = Counter()
    problem = said = ""
    try:
        with ExitStack() as stack:
            lines = sys.stdin.buffer if given.file == STANDARD else stack.enter_context(given.file.open("rb"))
            header = read_header(await asyncio.to_thread(lines.readline))
            said = one_line(f"from {header.node_id}, exported at {header.created_at}")
            number = 1
            while line := await asyncio.to_thread(lines.readline):
                number += 1
                kind, outcome = await import_line(context.store, line, number)
                counts[f"{kind} {outcome}"] += 1
    except ExchangeError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{given.file}: {error.strerror}"
    data = {"counts": dict(counts), "error": problem or None}
    return CommandResult(data=data, lines=[problem or said, _summary(counts)], outcome=_summary(counts), ok=not problem)


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "nothing"
