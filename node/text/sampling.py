"""Samples of a long text, at places that nobody outside the node can predict.

The places are derived from a keyed hash of the text. All processes of a node sample the same text at the same places,
and any other text at other places. So neither this file nor trial and error tells a client which places of its text are
not sampled. `english` and `verdict` judge the samples.
"""

import hmac
import secrets
from collections.abc import Iterator
from hashlib import blake2b, shake_128

from node.text.windows import clean

SAMPLE_CHARACTERS = 60
"""Length of a sample, in characters: about ten English words, enough to recognise another language."""

MAX_SPAN = 64 * SAMPLE_CHARACTERS
"""Maximum length of the part of the text that one sample covers if most of its characters are invisible."""

SAMPLES = 48
"""Number of samples of a long text. `english` states what this number detects."""

MAX_EXCERPT_CHARACTERS = 20_480
"""Maximum number of characters of a text that are counted and hashed. No thread shows more. Of a longer text, every
n-th character is taken."""

_KEY = bytearray(secrets.token_bytes(32))


def use_secret(secret: str) -> None:
    """Derive the key from the node's secret, so that all processes of the node choose the same places.

    Until this is called, or if `secret` is empty, this process uses a random key.
    """
    if secret:
        _KEY[:] = hmac.digest(secret.encode(), b"places of samples", "sha256")


def excerpt_of(text: str, count: int) -> str:
    """Return the characters that represent a text of which `count` samples are taken: all characters, or every n-th
    character of a longer text, beginning at a place derived with the key."""
    step = -(-len(text) * SAMPLES // (MAX_EXCERPT_CHARACTERS * count))
    return text if step <= 1 else text[_numbers(str(len(text)), 1)[0] % step :: step]


def samples_of(text: str, excerpt: str, count: int) -> Iterator[str | None]:
    """Yield `count` samples of the text. The text is divided into equal parts; a sample begins anywhere in its part.

    Every character can be sampled, because the first and the last sample may extend beyond the ends of the text. If
    most characters of a sample are invisible, these are left out, and the sample is extended to SAMPLE_CHARACTERS
    visible ones, within MAX_SPAN. Where even that has fewer, which no English text needs, the sample is None. (A run of
    line ends is not invisible: it separates what is before it from what is after it.)
    """
    reach = len(text) + SAMPLE_CHARACTERS
    for index, drawn in enumerate(_numbers(excerpt, count)):
        start = ((index << 16) + drawn) * reach // (count << 16) - SAMPLE_CHARACTERS
        sample = text[max(0, start) : start + SAMPLE_CHARACTERS]
        if not (sample.isascii() and sample.isprintable()) and len(clean(sample)) < len(sample) // 2:
            sample = clean(text[max(0, start) : start + MAX_SPAN])[:SAMPLE_CHARACTERS]
            if len(sample) < SAMPLE_CHARACTERS and sample != " " and start + MAX_SPAN <= len(text):
                yield None
                continue
        yield sample


def _numbers(text: str, count: int) -> memoryview:
    """Return `count` numbers of 16 bits, derived from a text with the key."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), key=_KEY).digest()
    return memoryview(shake_128(digest).digest(2 * count)).cast("H")
