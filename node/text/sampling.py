"""Samples of a long text, at places that nobody outside the node can predict.

The places are derived from a keyed hash of the text. All processes of a node sample the same text at the same places,
and any other text at other places. So a client can learn neither from this file nor by trying where its text is not
sampled. How samples are judged is in `english` and `verdict`.
"""

import hmac
import secrets
from collections.abc import Iterator
from hashlib import blake2b, shake_128

from node.text.windows import clean

SAMPLE_CHARACTERS = 60
"""Characters of a sample: about ten English words, enough to recognise another language."""

MAX_SPAN = 64 * SAMPLE_CHARACTERS
"""Characters of the text that a sample may extend over, where most of them cannot be seen."""

SAMPLES = 48
"""Samples of a long text; `english` states what they detect."""

MAX_EXCERPT_CHARACTERS = 20_480
"""Characters of a text that are counted and hashed: every n-th one of a longer text. No thread shows more."""

_KEY = bytearray(secrets.token_bytes(32))


def use_secret(secret: str) -> None:
    """Derive the places with the node's secret, so that all its processes choose the same ones.

    Until this is called, or if `secret` is empty, the key is a random one of this process.
    """
    if secret:
        _KEY[:] = hmac.digest(secret.encode(), b"places of samples", "sha256")


def excerpt_of(text: str, count: int) -> str:
    """The characters that stand for a text of which `count` samples are taken: all, or every n-th one of a longer text,
    beginning at a place derived with the key."""
    step = -(-len(text) * SAMPLES // (MAX_EXCERPT_CHARACTERS * count))
    return text if step <= 1 else text[_numbers(str(len(text)), 1)[0] % step :: step]


def samples_of(text: str, excerpt: str, count: int) -> Iterator[str]:
    """`count` samples of the text. The text is divided into equal parts, and each sample begins anywhere in its part.

    Every character can be sampled, since the first and the last sample may extend beyond the ends of the text. Where
    most characters of a sample cannot be seen, it goes on, without these, to as many as others have (MAX_SPAN).
    """
    reach = len(text) + SAMPLE_CHARACTERS
    for index, drawn in enumerate(_numbers(excerpt, count)):
        start = ((index << 16) + drawn) * reach // (count << 16) - SAMPLE_CHARACTERS
        sample = text[max(0, start) : start + SAMPLE_CHARACTERS]
        if not (sample.isascii() and sample.isprintable()) and len(clean(sample)) < len(sample) // 2:
            sample = clean(text[max(0, start) : start + MAX_SPAN])[:SAMPLE_CHARACTERS]
        yield sample


def _numbers(text: str, count: int) -> memoryview:
    """`count` numbers of 16 bits, derived from a text with the key."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), key=_KEY).digest()
    return memoryview(shake_128(digest).digest(2 * count)).cast("H")
