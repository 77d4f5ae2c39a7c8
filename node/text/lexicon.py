"""The word list of the English gate, with the points that each known word is worth.

`word_evidence` defines what counts as a word, and the points of unknown words. NOTICE names the sources of the words.
"""

import gzip
from functools import cache
from pathlib import Path

ENGLISH = 2
"""An English word, or a name or technical term that English text uses."""
AMBIGUOUS = -1
"""An English word that is also common in another language (`die`, `pour`)."""
FOREIGN = -4
"""A frequent word of another language that is not an English word."""

MIN_PART_LETTERS = 3
"""Minimum number of letters of a part of an identifier that counts as a foreign word. Shorter ones are also codes
(`de`)."""

WORDS = Path(__file__).with_name("lexicon.tsv.gz")
POINTS = {"E": ENGLISH, "A": AMBIGUOUS, "X": FOREIGN}


@cache
def lexicon() -> dict[str, int]:
    """Return the points by word. A capitalised key (`Jim`) stands only for this spelling, any other key for every one.

    The 87,000 words take about 7 MB. The first call takes 20 ms.
    """
    words_and_kinds = gzip.decompress(WORDS.read_bytes()).decode().split()
    return dict(zip(words_and_kinds[::2], map(POINTS.__getitem__, words_and_kinds[1::2]), strict=True))


@cache
def foreign_parts() -> frozenset[str]:
    """Return the frequent words of other languages that count as parts of identifiers, as a set for many look-ups."""
    return frozenset(word for word, points in lexicon().items() if points == FOREIGN and len(word) >= MIN_PART_LETTERS)
