"""Cuts a thread into passages: the pieces that are embedded, one vector each, and that snippets are cut from.

The cut depends on the text alone, so that a web process finds a passage again by its name. A passage
is about as long as the default model can read (256 tokens) of dense text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

FORMAT = 1
"""Changes with the way in which texts are cut: a passage of the same name is then another text."""

LENGTH = 700
"""Characters of a passage, at most; the title in front of the first one not counted."""

MOST = 64
"""Passages of one thread: its body, and of its replies the newest."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Passage(NamedTuple):
    """`name` is `<seq>.<n>`: the n-th passage of the reply with that seq; 0 is the thread's own body."""

    name: str
    text: str


def passages_of(title: str, body: str, replies: Sequence[tuple[int, str]]) -> list[Passage]:
    """The passages of a thread; `replies` are seq and text, oldest first. Never none."""
    first, *rest = pieces(body) or [""]
    found = [Passage("0.0", f"{title}\n{first}"), *(Passage(f"0.{n}", text) for n, text in enumerate(rest, 1))]
    for seq, text in reversed(replies):
        more = of_reply(seq, text)
        if len(found) + len(more) > MOST:
            break
        found += more
    return found[:MOST]


def of_reply(seq: int, body: str) -> list[Passage]:
    """The passages of one reply, by itself."""
    return [Passage(f"{seq}.{n}", piece) for n, piece in enumerate(pieces(body))]


def kept(names: Iterable[str]) -> set[str]:
    """Which of a thread's passages are in the index: what `passages_of` gives, from the names alone, so that who adds a
    reply need not read the others."""
    posts: defaultdict[int, list[str]] = defaultdict(list)
    for name in names:
        posts[place_of(name)[0]].append(name)
    found = sorted(posts.pop(0, []), key=place_of)[:MOST]
    for seq in sorted(posts, reverse=True):
        if len(found) + len(posts[seq]) > MOST:
            break
        found += posts[seq]
    return set(found)


def place_of(name: str) -> tuple[int, int]:
    """The seq and the number in a passage's name."""
    seq, _, number = name.partition(".")
    return int(seq), int(number)


def pieces(text: str) -> list[str]:
    """The text in pieces of at most LENGTH characters, cut between sentences, else between words."""
    return list(each_piece(text))


def each_piece(text: str) -> Iterator[str]:
    """The same one after the other, for who wants no more than the first ones."""
    found = ""
    for sentence in _short(text):
        if found and len(found) + 1 + len(sentence) <= LENGTH:
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
        while len(sentence) > LENGTH:
            cut = sentence.rfind(" ", LENGTH // 2, LENGTH + 1)
            cut = cut if cut > 0 else LENGTH
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
