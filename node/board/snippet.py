"""The part of a text that shows why it was found."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Sequence

from node.text.terms import stem

LENGTH = 240
"""Characters of a snippet, at most (DESIGN 8)."""

_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[^\W_]+")
_ENDS = ".!?:;"
CUT = "…"


def snippet(texts: Sequence[str], words: Collection[str]) -> str:
    """The stretch with the most of `words` (terms) in it, of whole words, on one line.

    Among equals the earliest; where no word occurs, the beginning of the first text.
    """
    wanted = frozenset(words)
    best = ""
    most = -1
    for text in texts:
        line = " ".join(text.split())
        count, start, end = _window(line, wanted)
        if count > most:
            most = count
            best = _shown(line, start, end)
        if most == len(wanted):
            break
    return best


def _window(line: str, wanted: frozenset[str]) -> tuple[int, int, int]:
    """How many of the words the best stretch holds, and the stretch from the first to the last of them."""
    room = LENGTH - 2 * len(CUT)
    best = (0, 0, 0)
    inside: deque[tuple[int, int, str]] = deque()
    counts: dict[str, int] = {}
    for match in _WORD.finditer(line) if wanted else ():
        term = stem(match[0])
        if term not in wanted:
            continue
        inside.append((match.start(), match.end(), term))
        counts[term] = counts.get(term, 0) + 1
        while inside and match.end() - inside[0][0] > room:
            _, _, gone = inside.popleft()
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        if len(counts) > best[0]:
            best = (len(counts), inside[0][0], match.end())
    return best


def _shown(line: str, start: int, end: int) -> str:
    """Whole tokens around `start`..`end`, from a sentence's beginning where that fits."""
    if len(line) <= LENGTH:
        return line
    tokens = [match.span() for match in _TOKEN.finditer(line)]
    begins = [token[0] for token in tokens]
    first = bisect_right(begins, start) - 1
    last = max(first, bisect_right(begins, max(start, end - 1)) - 1)
    room = LENGTH - 2 * len(CUT)
    if tokens[last][1] - tokens[first][0] > room:  # a token without spaces that is longer than a snippet
        return f"{line[start : start + room].rstrip()}{CUT}"
    # A third of what is left goes before, at most: a reader wants to know how it goes on.
    before = tokens[first][0] - max(0, room - (tokens[last][1] - tokens[first][0])) // 3
    first = _beginning(line, tokens, begins, first, before)
    while last + 1 < len(tokens) and tokens[last + 1][1] - tokens[first][0] <= room:
        last += 1
    while first > 0 and last + 1 == len(tokens) and tokens[last][1] - tokens[first - 1][0] <= room:
        first -= 1
    begin, finish = tokens[first][0], tokens[last][1]
    return f"{CUT if begin else ''}{line[begin:finish]}{CUT if finish < len(line) else ''}"


def _beginning(line: str, tokens: Sequence[tuple[int, int]], begins: Sequence[int], first: int, before: int) -> int:
    """The token to begin with: the first of a sentence not earlier than `before`, else the one at `before`."""
    earliest = min(first, bisect_right(begins, max(0, before - 1)))
    if before <= 0:
        return 0
    for place in range(earliest, first + 1):
        if line[tokens[place - 1][1] - 1] in _ENDS:
            return place
    return earliest
