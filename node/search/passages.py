"""Cuts posts into passages: the pieces that are embedded, one vector each, and that snippets are taken from.

The cut depends on the text alone, so a web process finds a passage again by its name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FORMAT = 1
"""Version of the way texts are cut. When it changes, a passage of the same name has another text."""

PASSAGE_CHARACTERS = 700
"""The longest passage: about what the default model reads of dense text (256 tokens), not counting the title before the
first one."""

MAX_PASSAGES = 64
"""Passages of one entity: those of its body, and of its newest replies."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Passage(NamedTuple):
    """`name` is `<seq>.<n>`: the n-th passage of the reply with that seq; 0 is the entity's own body."""

    name: str
    text: str


def of_own(title: str, body: str) -> list[Passage]:
    """The passages of an entity's own text, the first with the title. Never none."""
    first, *rest = [*pieces(body)] or [""]
    return [Passage("0.0", f"{title}\n{first}"), *(Passage(f"0.{n}", text) for n, text in enumerate(rest, 1))]


def of_reply(seq: int, body: str) -> list[Passage]:
    """The passages of a reply."""
    return [Passage(f"{seq}.{n}", piece) for n, piece in enumerate(pieces(body))]


def kept(names: Iterable[str]) -> set[str]:
    """Which of an entity's passages are indexed: those of its own text, and those of as many whole replies, the newest
    first, as there is room for. This depends on names alone, so that adding a reply does not need the other texts."""
    posts: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        posts[seq_and_piece(name)[0]].append(name)
    found = sorted(posts.pop(0, []), key=seq_and_piece)[:MAX_PASSAGES]
    for seq in sorted(posts, reverse=True):
        if len(found) + len(posts[seq]) > MAX_PASSAGES:
            break
        found += posts[seq]
    return set(found)


def seq_and_piece(name: str) -> tuple[int, int]:
    """The seq and the number in a passage's name."""
    seq, _, number = name.partition(".")
    return int(seq), int(number)


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of at most PASSAGE_CHARACTERS characters, cut between sentences, else between words."""
    if len(text) <= PASSAGE_CHARACTERS:  # what follows would give the same, in ten times the time
        if line := " ".join(text.split()):
            yield line
        return
    found = ""
    for sentence in _short(text):
        if found and len(found) + 1 + len(sentence) <= PASSAGE_CHARACTERS:
            found += f" {sentence}"
        else:
            if found:
                yield found
            found = sentence
    if found:
        yield found


def _short(text: str) -> Iterator[str]:
    """Sentences, and parts of those that are longer than a passage."""
    for raw in _sentences(text):
        sentence = " ".join(raw.split())
        while len(sentence) > PASSAGE_CHARACTERS:
            cut = sentence.rfind(" ", PASSAGE_CHARACTERS // 2, PASSAGE_CHARACTERS + 1)
            cut = cut if cut > 0 else PASSAGE_CHARACTERS
            yield sentence[:cut]
            sentence = sentence[cut:].lstrip()
        if sentence:
            yield sentence


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for gap in _SENTENCE.finditer(text):
        yield text[start : gap.start()]
        start = gap.end()
    yield text[start:]
