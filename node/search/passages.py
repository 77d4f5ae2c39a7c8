"""Cuts posts into passages. Each passage is embedded as one vector, and snippets are taken from passages.

How a post is cut depends only on its text, so a web process can find a passage again by its name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FORMAT = 1
"""Version of the way texts are cut. In another version, a passage of the same name may have a different text."""

PASSAGE_CHARACTERS = 700
"""Greatest length of a passage, not counting the title in front of the first one. Dense text of this length is about
what the default model reads (256 tokens)."""

MAX_PASSAGES = 64
"""Maximum number of indexed passages of one entity: those of its body and of its newest replies."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Passage(NamedTuple):
    """A passage. `name` is `<seq>.<n>`: number `n`, from 0, among the passages of the reply with that seq; seq 0 is the
    entity's own body."""

    name: str
    text: str


def of_own(title: str, body: str) -> list[Passage]:
    """Return the passages of an entity's own text, never an empty list. The first one begins with the title."""
    first, *rest = [*pieces(body)] or [""]
    return [Passage("0.0", f"{title}\n{first}"), *(Passage(f"0.{n}", text) for n, text in enumerate(rest, 1))]


def of_reply(seq: int, body: str) -> list[Passage]:
    """Return the passages of a reply."""
    return [Passage(f"{seq}.{n}", piece) for n, piece in enumerate(pieces(body))]


def kept(names: Iterable[str]) -> set[str]:
    """Return those of an entity's passages that are indexed: the passages of its own text, then those of whole replies,
    the newest first, until a reply does not fit. The result depends only on names, so that adding a reply does not
    require reading the other texts."""
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
    """Return the seq and the number of the piece from a passage's name."""
    seq, _, number = name.partition(".")
    return int(seq), int(number)


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of at most PASSAGE_CHARACTERS, between sentences where possible, else between words."""
    if len(text) <= PASSAGE_CHARACTERS:  # a shortcut: the code below gives the same, but takes ten times as long
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
    """Yield the sentences of a text. Sentences that are longer than a passage are split."""
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
