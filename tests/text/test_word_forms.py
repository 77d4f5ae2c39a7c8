"""Words formed like English ones: which are recognised, and that words of other languages are not."""

import pytest

from node.text.lexicon import lexicon
from node.text.word_forms import MAX_LETTERS, is_formed


@pytest.mark.parametrize(
    "word",
    [
        "graphcolors",
        "queuelength",
        "multipage",
        "hyperlane",
        "frictionless",
        "replicaless",
        "retryable",
        "cacheable",
        "trimmable",
    ],
)
def test_words_formed_of_english_ones_are_recognised(word: str) -> None:
    assert word not in lexicon()
    assert is_formed(word, lexicon())


@pytest.mark.parametrize(
    "word",
    [
        "bestanden",
        "herunterladen",
        "wyszukiwanie",
        "informacion",
        "rechercher",
        "kullanici",
        "filterliste",
        "submodulo",  # `sub` and the English word `modulo`, but with an ending of other languages
        "caratteri",
        "xq",
        "x",
    ],
)
def test_other_words_are_not(word: str) -> None:
    assert not is_formed(word, lexicon())


def test_words_of_any_length_are_looked_at_in_bounded_time() -> None:
    longest = "queue" + "length".rjust(MAX_LETTERS - 5, "x")
    known = {"queue": 2, longest[5:]: 2}
    assert is_formed(longest, known)
    known["x" + longest[5:]] = 2
    assert not is_formed(longest[:5] + "x" + longest[5:], known)
