"""Recognises words that are in no list but are formed like English words: compounds, and words with prefix or suffix.

Such words are common in technical English (`graphcolors`, `multipage`, `frictionless`) and as names in code.
"""

from node.text.lexicon import ENGLISH

MIN_LETTERS = 4
"""Minimum number of letters of an English word from which others are formed. Shorter ones occur in any foreign word."""

MAX_LETTERS = 24
"""Maximum number of letters of a word that is examined. The time grows with the square of the number of letters."""

MIN_AFFIX_LETTERS = 2
"""Number of letters of the shortest prefix and suffix."""

_PREFIXES = frozenset(
    """
    auto bio geo hyper inter meta micro mini mono multi nano neuro non poly pre pseudo re sub super un
    """.split()  # noqa: SIM905 - a list of words is read and kept as one
)
_SUFFIXES = frozenset(
    """
    able ability ed ers ful ify ing ish ism ity ize ized izer izers izes izing ization less ly ors ware
    """.split()  # noqa: SIM905
)
_FOREIGN_ENDS = frozenset("aiou")
"""Last letters of many words of other languages, but of hardly any word that is formed from English words."""


def is_formed(word: str, known: dict[str, int]) -> bool:
    """Return whether a word in lower case consists of two English words, or of one and a prefix or suffix."""
    if not MIN_LETTERS + MIN_AFFIX_LETTERS <= len(word) <= MAX_LETTERS or word[-1] in _FOREIGN_ENDS:
        return False
    for index in range(MIN_AFFIX_LETTERS, len(word) - MIN_AFFIX_LETTERS + 1):
        end = word[index:]
        if known.get(end) == ENGLISH and len(end) >= MIN_LETTERS:
            start = word[:index]
            if start in _PREFIXES or (index >= MIN_LETTERS and known.get(start) == ENGLISH):
                return True
        if end in _SUFFIXES and index >= MIN_LETTERS and _is_stem(word[:index], known):
            return True
    return False


def _is_stem(stem: str, known: dict[str, int]) -> bool:
    """Return whether `stem` is the form that an English word takes before a suffix: `frag`, `compos(e)`, `plug(g)`."""
    is_doubled = stem[-1] == stem[-2]
    return ENGLISH in (known.get(stem), known.get(stem + "e"), is_doubled and known.get(stem[:-1]))
