"""The word list of the English gate: how many points a known word is worth.

Unknown words, and what counts as a word, are in `word_evidence`. NOTICE names the sources of the words.
"""

import gzip
from functools import cache
from pathlib import Path

ENGLISH = 2
"""An English word, or a name or technical term that English text uses."""
AMBIGUOUS = -1
"""An English word that is also common in another language (`die`, `pour`)."""
FOREIGN = -4
"""A frequent word of another language, and no English word."""

MIN_PART_LETTERS = 3
"""Letters of the shortest part of an identifier that counts as a foreign word: shorter ones are also codes (`de`)."""

WORDS = Path(__file__).with_name("lexicon.tsv.gz")
POINTS = {"E": ENGLISH, "A": AMBIGUOUS, "X": FOREIGN}


@cache
def lexicon() -> dict[str, int]:
    """Points by word. A capitalised key (`Jim`) stands for the word in this spelling only, any other for all spellings.

    The 87,000 words take about 7 MB, and the first call 20 ms.
    """
    words_and_kinds = gzip.decompress(WORDS.read_bytes()).decode().split()
    return dict(zip(words_and_kinds[::2], map(POINTS.__getitem__, words_and_kinds[1::2]), strict=True))


@cache
def foreign_parts() -> frozenset[str]:
    """The frequent words of other languages that count as parts of identifiers, as a set for many look-ups."""
    return frozenset(word for word, points in lexicon().items() if points == FOREIGN and len(word) >= MIN_PART_LETTERS)
