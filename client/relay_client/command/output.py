"""The command's output: for people, or as lines of JSON. Control characters are removed from strangers' texts."""

import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from unicodedata import category

from relay_client.agents import AgentHits
from relay_client.errors import Refused
from relay_client.tasks import TaskHits

BAR = 30  # characters


class _PlainFormatter(logging.Formatter):
    """A formatter for the logs of workers, which may have texts from a node."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


def prepare() -> None:
    """Prepare standard output and standard error for any text, and set up logging."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:  # closed by the parent process: discard what is written
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # for as long as the process runs
        elif isinstance(stream, TextIOWrapper):  # its encoding may not have all characters that strangers write
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter())
    logging.basicConfig(handlers=[handler])


def show(given: Namespace, record: Any, text: str | None = None) -> None:
    """Write a record: as JSON if asked to, else as `text` if given, else field by field."""
    if given.json:
        line = json.dumps(record, separators=(",", ":"))
    else:
        line = plain(text if text is not None else fields(record))
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def fields(record: Mapping[str, Any]) -> str:
    """Return one line for each field that is not empty.

    Further lines of a value are indented. Otherwise a stranger's text could pass for other fields, or another record.
    """
    shown = {name: value for name, value in record.items() if value not in (None, [], "")}
    width = max(map(len, shown), default=0)
    below = "\n" + " " * (width + 2)
    return "\n".join(f"{name:{width}}  {_value(value)}".replace("\n", below) for name, value in shown.items())


def note(text: str) -> None:
    """Write a text that is not the result to standard error."""
    sys.stderr.write(plain(text) + "\n")


def nothing_found(given: Namespace, found: AgentHits | TaskHits) -> None:
    """If a search has no hits, say so, and name a threshold that would give some."""
    if found["hits"] or given.json:
        return
    lower = found.get("lower_threshold")
    note("nothing found" + (f"; --threshold {lower['threshold']:g} finds {lower['hits']}" if lower else ""))


def error(given: Namespace, wrong: Exception) -> None:
    """Write what went wrong."""
    if given.json:
        said: dict[str, Any] = {"error": str(wrong)}
        if isinstance(wrong, Refused):
            said |= {"error": wrong.args[0], "status": wrong.status, "code": wrong.code, "request_id": wrong.request_id}
        sys.stderr.write(json.dumps(said) + "\n")
    else:
        note(f"relay: {wrong}")


def plain(text: str) -> str:
    """Remove control characters, and characters that change the direction of text."""
    return "".join(c for c in text if c in "\n\t" or category(c) not in ("Cc", "Cf", "Cs"))


def progress() -> Callable[[int, int], None] | None:
    """Return a function that draws the progress of a transfer; None if standard error is no terminal."""
    if not sys.stderr.isatty():
        return None

    def draw(done: int, size: int) -> None:
        share = done / size if size else 1.0
        bar = "#" * int(BAR * share)
        sys.stderr.write(f"\r[{bar:{BAR}}] {share:4.0%}" + ("\n" if done >= size else ""))
        sys.stderr.flush()

    return draw


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
