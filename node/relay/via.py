"""The Via header, which lists the nodes and proxies that a request has passed (RFC 9110 §7.6.3)."""

import re

_COMMENT_MARK = re.compile(r"\\.|[()]", re.DOTALL)
_PORT = re.compile(r":\d*$")


def has_passed(via: str, node_id: str) -> bool:
    """Return whether an element of the Via header names `node_id` as the receiver.

    `via`: the header, with its lines joined by commas. Case and port are ignored, and so are names in comments.
    """
    wanted = node_id.lower()
    if wanted not in via.lower():
        return False
    elements = (element.split() for element in _without_comments(via).lower().split(","))
    return any(len(words) > 1 and wanted in (words[1], _PORT.sub("", words[1])) for words in elements)


def _without_comments(via: str) -> str:
    """Return `via` with a space in place of each comment. Comments nest, and may contain commas and quoted pairs."""
    kept: list[str] = []
    depth = end = 0
    for mark in _COMMENT_MARK.finditer(via):
        if mark[0] == "(":
            if depth == 0:
                kept.append(via[end : mark.start()])
            depth += 1
        elif mark[0] == ")" and depth > 0:
            depth -= 1
            end = mark.end()
    if depth == 0:
        kept.append(via[end:])
    return " ".join(kept)
