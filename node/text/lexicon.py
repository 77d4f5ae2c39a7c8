"""The word list behind the English gate: what a known word is worth as evidence.

Here: reading `lexicon.tsv.gz` into one dictionary, once a process. Not here: what a word is, what an
unknown word is worth (`word_evidence`), and the verdict (`english`). NOTICE says where the words come from.
"""

import gzip
from functools import cache
from pathlib import Path

ENGLISH = 2
"""An English word, or a name or technical term that English text uses."""
AMBIGUOUS = -1
"""An English word that is also common in another language (`die`, `pour`)."""
FOREIGN = -4
"""A frequent word of another language that is no English word."""

WORDS = Path(__file__).with_name("lexicon.tsv.gz")
POINTS = {"E": ENGLISH, "A": AMBIGUOUS, "X": FOREIGN}


@cache
def lexicon() -> dict[str, int]:
    """Points by word. Capitalised keys (`Jim`) hold in that case only, all others in any case.

    About 7 MB for 86,000 words, and 0.1 s on the first call.
    """
    with gzip.open(WORDS, "rt", encoding="utf-8") as lines:
        entries = (line.rstrip("\n").split("\t") for line in lines)
        return {word: POINTS[kind] for word, kind in entries if _can_be_asked_for(word)}


def _can_be_asked_for(word: str) -> bool:
    """Whether the tokenizer can produce this key: letters, and apostrophes inside."""
    return len(word) > 1 and word[0] != "'" != word[-1] and word.replace("'", "").isalpha()
