"""The media types and content codings that a client prefers: Accept and Accept-Encoding (RFC 9110 §12.5)."""

import re
from collections.abc import Mapping
from functools import lru_cache

MAX_ACCEPT_CHARACTERS = 1024
"""Characters of such a header that are read. Browsers send 200; parsing 30,000 commas would take 25 ms or more."""

_WEIGHT = re.compile(r"(?:^|;)\s*q ?= ?([01](?:\.\d*)?)\s*(?:;|\Z)")
"""Matches a weight (`q=`) among the parameters of a name."""


def weights(header: str | None) -> dict[str, float]:
    """Return the weight of each name in such a header, from 0 (not wanted) to 1, in the order of the header (RFC 9110
    §12.4.2).

    Other parameters are ignored. If a name is repeated, its highest weight counts. Only the first MAX_ACCEPT_CHARACTERS
    characters are read.
    """
    found: dict[str, float] = {}
    for part in (header or "")[:MAX_ACCEPT_CHARACTERS].lower().split(","):
        name, semicolon, parameters = part.partition(";")
        if name := name.strip():
            given = _WEIGHT.search(parameters) if semicolon else None
            found[name] = max(min(float(given[1]), 1.0) if given else 1.0, found.get(name, 0.0))
    return found


def weight_of(media_type: str, wanted: Mapping[str, float]) -> float:
    """Return the weight of the most specific range that covers the media type; 0 if none does (RFC 9110 §12.5.1)."""
    ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
    return next((wanted[each] for each in ranges if each in wanted), 0.0)


def preferred(accept: str | None, *offered: str) -> str:
    """Return the media type among `offered` that an Accept header prefers.

    Ties go to the type that the header names first, else to the one that is offered first. A client that accepts none
    of them also gets the one that is offered first.
    """
    return _preferred((accept or "")[:MAX_ACCEPT_CHARACTERS], offered)


@lru_cache(maxsize=256)  # clients send the same few headers again and again
def _preferred(accept: str, offered: tuple[str, ...]) -> str:
    wanted = weights(accept)
    named = list(wanted)

    def rank(media_type: str) -> tuple[float, int]:
        return weight_of(media_type, wanted), -(named.index(media_type) if media_type in wanted else len(named))

    best = max(offered, key=rank)
    return best if weight_of(best, wanted) else offered[0]
