"""Cuts the part of a text that shows why the text was found.

A text may be long and written by anybody, so it is looked at piece by piece. The cost of each piece is reported, and
the caller decides when to stop.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from node.text.terms import stem

SNIPPET_CHARACTERS = 240
"""Greatest length of a snippet (DESIGN 8)."""

PIECE_CHARACTERS = 2_000
"""Characters of one piece, which is looked at in a quarter of a millisecond at most."""

WORD_COST = 5
"""Least cost of a word in a text that is not ASCII, in characters. Every word of such a text is looked at singly."""

LOOK_UP_COST = 20
"""Extra cost, in characters, of a word that begins like a wanted one and therefore has to be stemmed."""

POSITION_COST = 2
"""Extra cost, in characters, of finding a word that begins like a wanted one, whether or not it is then stemmed."""

HEAD_LETTERS = 3
"""Letters at the beginning that a word and its term have in common, because stemming changes only the end of a word.
If the term has no more letters than this, only the first letter is in common."""

_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[^\W_]+")
_ASCII_WORDS = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 0x20 for code in range(256))
"""Translates capitals to lower case, and everything that is not part of a word to spaces."""
_ENDS = ".!?:;"
CUT = "…"


class WantedTerms:
    """The terms whose words an excerpt should contain."""

    def __init__(self, terms: Collection[str]) -> None:
        self.terms = frozenset(terms)
        self.heads = frozenset(term[:HEAD_LETTERS] if len(term) > HEAD_LETTERS else term[:1] for term in self.terms)
        """The first letters that words of these terms can begin with."""
        self._spaced = [f" {head}" for head in self.heads]

    def positions(self, words: str, start: int, stop: int) -> list[int]:
        """Return the positions in `start`..`stop` of words that begin like a wanted one.

        In `words`, a space precedes each word; the positions are those of the spaces.
        """
        found: set[int] = set()
        for head in self._spaced:
            end = stop + len(head) - 1
            position = words.find(head, start, end)
            while position >= 0:
                found.add(position)
                position = words.find(head, position + 1, end)
        return sorted(found)


class Excerpt:
    """The part of the given texts that contains the largest number of wanted terms, as whole words on one line.

    Among equally good parts it is the earliest; if no wanted term occurs, the beginning of the first text.
    """

    def __init__(self, wanted: WantedTerms) -> None:
        self._wanted = wanted
        self._most = -1
        self.text = ""
        """The best part of the texts looked at so far."""

    @property
    def complete(self) -> bool:
        """Whether the excerpt contains all wanted terms, so that no other text can be better."""
        return self._most == len(self._wanted.terms)

    def look(self, text: str, most: int) -> Iterator[int]:
        """Look at a text at a cost of about `most` characters or less. Yield the cost of each piece afterwards."""
        line = " ".join(text[:most].split())
        words = f" {line.encode().translate(_ASCII_WORDS).decode()} " if line.isascii() else None
        window = _Window()
        stop = 0 if self._wanted.terms else len(line)
        while stop < len(line) and most > 0:
            start, room = stop, min(PIECE_CHARACTERS, most)
            end = _end_of_piece(line, start, room)
            if words is None:
                cost, stop = self._look_at(line, start, end, room, window)
            else:
                cost, stop = self._look_at_ascii(words, start, end, room, window)
            most -= cost
            yield cost
        self._take(line, window)

    def _look_at_ascii(self, words: str, start: int, stop: int, room: int, window: "_Window") -> tuple[int, int]:
        """`_look_at` for ASCII text, as most texts are. `words` is the line in lower case, a space before each word."""
        positions = self._wanted.positions(words, start, stop)
        most = -(-room // LOOK_UP_COST)
        for position in positions[:most]:
            end = words.index(" ", position + 1)
            term = stem(words[position + 1 : end])
            if term in self._wanted.terms:
                window.add(position, end - 1, term)
            if len(positions) >= most:
                stop = end - 1
        return stop - start + POSITION_COST * len(positions) + LOOK_UP_COST * min(most, len(positions)), stop

    def _look_at(self, line: str, start: int, stop: int, room: int, window: "_Window") -> tuple[int, int]:
        """Find the wanted words of one piece. Return the cost and the position where the search ended, which is before
        `stop` if too many words had to be stemmed."""
        terms, heads = self._wanted.terms, self._wanted.heads
        words = looked_up = 0
        for match in _WORD.finditer(line, start, stop):
            words += 1
            word = match[0]
            head = word[:HEAD_LETTERS].lower()
            if head not in heads and head[:1] not in heads and word.isascii():
                continue
            looked_up += 1
            term = stem(word)
            if term in terms:
                window.add(match.start(), match.end(), term)
            if looked_up * LOOK_UP_COST >= room:
                stop = match.end()
                break
        return max(stop - start, WORD_COST * words) + LOOK_UP_COST * looked_up, stop

    def _take(self, line: str, window: "_Window") -> None:
        count, start, end = window.best
        if count > self._most:
            self._most = count
            self.text = _shown(line, start, end)


class _Window:
    """Slides over the wanted words of a text and remembers the stretch with the most distinct terms."""

    def __init__(self) -> None:
        self.best = (0, 0, 0)
        """The best stretch: its number of distinct terms, the start of its first word, the end of its last word."""
        self._inside: deque[tuple[int, int, str]] = deque()
        self._counts: dict[str, int] = {}

    def add(self, start: int, end: int, term: str) -> None:
        """Add the next wanted word."""
        inside, counts = self._inside, self._counts
        inside.append((start, end, term))
        counts[term] = counts.get(term, 0) + 1
        while inside and end - inside[0][0] > SNIPPET_CHARACTERS - 2 * len(CUT):
            _, _, gone = inside.popleft()
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
        if len(counts) > self.best[0]:
            self.best = (len(counts), inside[0][0], end)


def _end_of_piece(line: str, start: int, room: int) -> int:
    """Return the end of a piece that begins at `start`: at a space, unless there is none within `room` characters."""
    if len(line) - start <= room:
        return len(line)
    space = line.rfind(" ", start, start + room)
    return space if space > start else start + room


def _shown(line: str, start: int, end: int) -> str:
    """Return whole tokens around `start`..`end`, beginning with a sentence where that fits."""
    if len(line) <= SNIPPET_CHARACTERS:
        return line
    # More tokens than fit into a snippet. The first and the last may be cut.
    around = max(0, start - 2 * SNIPPET_CHARACTERS), end + 2 * SNIPPET_CHARACTERS
    tokens = [match.span() for match in _TOKEN.finditer(line, *around)]
    first, last = _token_at(tokens, start), _token_at(tokens, max(start, end - 1))
    room = SNIPPET_CHARACTERS - 2 * len(CUT)
    spare = room - (tokens[last][1] - tokens[first][0])
    if spare < 0:  # a token without spaces that is longer than a snippet
        return f"{line[start : start + room].rstrip()}{CUT}"
    # At most a third of the spare room goes to the text before: readers care more about what follows.
    first = _beginning(line, tokens, first, tokens[first][0] - spare // 3)
    while last + 1 < len(tokens) and tokens[last + 1][1] - tokens[first][0] <= room:
        last += 1
    if last + 1 == len(tokens):  # the text ends here, so the remaining room goes to the text before
        while first > 0 and tokens[last][1] - tokens[first - 1][0] <= room:
            first -= 1
    begin, finish = tokens[first][0], tokens[last][1]
    return f"{CUT if begin else ''}{line[begin:finish]}{CUT if finish < len(line) else ''}"


def _token_at(tokens: Sequence[tuple[int, int]], character: int) -> int:
    """Return the index of the last token that begins at or before a character."""
    return bisect_right(tokens, character, key=itemgetter(0)) - 1


def _beginning(line: str, tokens: Sequence[tuple[int, int]], first: int, earliest: int) -> int:
    """Return the index of the token to begin with: of the tokens up to `first` that begin at or after the character
    `earliest`, the first one that begins a sentence, else the first one."""
    if earliest <= 0:
        return 0
    candidates = range(min(first, _token_at(tokens, earliest - 1) + 1), first + 1)
    return next((each for each in candidates if line[tokens[each - 1][1] - 1] in _ENDS), candidates[0])
