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

WORDS = Path(__file__).with_name("lexicon.tsv.gz")
POINTS = {"E": ENGLISH, "A": AMBIGUOUS, "X": FOREIGN}


@cache
def lexicon() -> dict[str, int]:
    """Points by word. A capitalised key (`Jim`) stands for the word in this spelling only, any other for all spellings.

    The 86,000 words take about 7 MB, and the first call 0.1 s.
    """
    with gzip.open(WORDS, "rt", encoding="utf-8") as lines:
        entries = (line.rstrip("\n").split("\t") for line in lines)
        return {word: POINTS[kind] for word, kind in entries if _can_be_token(word)}


@cache
def foreign_words(min_letters: int) -> frozenset[str]:
    """The frequent words of other languages with so many letters, as a set, which is quick to ask about many words."""
    return frozenset(word for word, points in lexicon().items() if points == FOREIGN and len(word) >= min_letters)


def _can_be_token(word: str) -> bool:
    """Whether the tokenizer can produce this word: letters, with apostrophes inside only."""
    return len(word) > 1 and word[0] != "'" != word[-1] and word.replace("'", "").isalpha()
