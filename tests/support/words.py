"""The words of a text as search sees them."""

import re

from node.text.terms import stem


def words_of(text: str) -> list[str]:
    """Return the terms of the text's words, in order and with repetitions."""
    return [term for word in re.findall(r"[^\W_]+", text) if (term := stem(word))]
