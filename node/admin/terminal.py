"""Makes text safe to show and to store. A terminal obeys control characters and shows some text backwards, and an
argument or environment variable need not be UTF-8.
"""

import json
import re

import msgspec

from node.text.readable import readable

_NOT_PLAIN = re.compile(r"[^\x00-\x7f]")


def utf8(text: str) -> str:
    """Return the text with escapes for what is not UTF-8 and could be neither kept in Redis nor logged."""
    return text.encode(errors="backslashreplace").decode()


def one_line(text: str) -> str:
    """Return the text on one line, without characters that control a terminal, reorder text or are invisible."""
    return " ".join(readable(text).split())


def as_json(value: object, indent: int = 2) -> str:
    """Return JSON in plain ASCII: all other characters, and DEL, are written as `\\u` escapes.

    It is on one line if `indent` is 0. Numbers stay as they were written.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return _NOT_PLAIN.sub(lambda found: json.dumps(found[0])[1:-1], text).replace("\x7f", "\\u007f")
