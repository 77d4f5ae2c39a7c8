"""Samples of a long text, at places that nobody outside can know.

The places are drawn from a hash of the text under a key of the node: the same text is judged alike by all its
processes, and any other text elsewhere, so neither reading this file nor trying out texts tells a client where its
own will not be looked at. Not here: what is done with a sample (`english`, `verdict`).
"""

import hmac
import secrets
from collections.abc import Iterator
from hashlib import blake2b, shake_128

SAMPLE = 60
"""Characters: ten English words, enough to tell that they are none."""

SAMPLES = 48
"""Samples of a long text, of which `english` says what they find."""

EXCERPT = 20_480
"""Characters that stand for a longer text where characters are counted or hashed; more than any thread shows."""

_KEY = bytearray(secrets.token_bytes(32))


def use_secret(secret: str) -> None:
    """Draw the places under the node's secret, so that all its processes draw the same; if it is empty, or until
    this is called, under a key of this process."""
    if secret:
        _KEY[:] = hmac.digest(secret.encode(), b"places of samples", "sha256")


def excerpt_of(text: str, count: int) -> str:
    """What stands for a text of which `count` samples are taken: all of it, or of a longer one every n-th character,
    the first at a place that only the key tells."""
    step = -(-len(text) * SAMPLES // (EXCERPT * count))
    return text if step <= 1 else text[_drawn(str(len(text)), 1)[0] % step :: step]


def samples_of(text: str, excerpt: str, count: int) -> Iterator[str]:
    """`count` stretches of the text, each anywhere in its own part of as many equal ones.

    No character is out of reach: the first and the last stretch may hang over the text's ends.
    """
    reach = len(text) + SAMPLE
    for place, drawn in enumerate(_drawn(excerpt, count)):
        start = ((place << 16) + drawn) * reach // (count << 16) - SAMPLE
        yield text[max(0, start) : start + SAMPLE]


def _drawn(text: str, count: int) -> memoryview:
    """`count` numbers of 16 bits that the key draws for a text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), key=_KEY).digest()
    return memoryview(shake_128(digest).digest(2 * count)).cast("H")
