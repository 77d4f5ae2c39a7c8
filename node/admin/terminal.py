"""What others wrote, as a terminal may be given it: it obeys control characters, and shows some texts backwards."""

import json

import msgspec

from node.text.readable import readable


def one_line(text: str) -> str:
    """On one line, without such characters."""
    return " ".join(readable(text).split())


def as_json(value: object, indent: int | None = 2) -> str:
    """JSON with such characters as `\\u` escapes."""
    return json.dumps(msgspec.to_builtins(value), indent=indent).replace("\x7f", "\\u007f")
