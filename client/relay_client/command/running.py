"""Runs the user's program for a message or a contract: JSON on its standard input, the answer on its output."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_client.errors import UsageError


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    output: str


def words_of(command: str) -> list[str]:
    """Split a command line into words. It is run without a shell, so that no shell sees what strangers wrote.

    Raises UsageError for a command that cannot be run, before any message or contract is taken for it.
    """
    try:
        words = shlex.split(command)
    except ValueError as wrong:
        raise UsageError(f"--exec {command!r}: {wrong}") from None
    if not words:
        raise UsageError("--exec needs a command")
    if shutil.which(words[0]) is None:
        raise UsageError(f"--exec {words[0]}: there is no such program")
    return words


def run(words: Sequence[str], record: Mapping[str, Any], **names: str) -> Ended:
    """Run a program with the record on its standard input and `names` in its environment. It shares standard error."""
    try:
        done = subprocess.run(  # noqa: S603  # the user's own command, as words
            list(words),
            input=json.dumps(record, ensure_ascii=False).encode(),
            stdout=subprocess.PIPE,
            env={**os.environ, **names},
            check=False,
        )
    except OSError as wrong:
        raise UsageError(f"--exec {words[0]}: {wrong.strerror}") from None
    return Ended(done.returncode, done.stdout.decode(errors="replace").strip())
