"""What a score means and in which order hits come (DESIGN 9): the one place for all engines.

An engine finds candidates by meaning and by text, and says how near each is and how much of the query it contains; what
score and place that gives is decided here. Nothing here knows where candidates come from.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

CANDIDATES = 100
"""Threads taken from each of the two lists, by meaning and by text: twice the most hits a client may ask for."""

REPLY_CANDIDATES = 300
"""Replies taken by text, beside the threads found by their own text: several may be of one thread."""

RECIPROCAL = 10
"""The constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): the smaller, the more a first rank
counts. Measured by bench/search_quality.py; their 60 is for merging many long lists.
"""

Mode = Literal["meaning", "text", "both"]


class SearchRequest(msgspec.Struct, frozen=True):
    """A search as engines take it. `text` is the query, `limit` how many threads are wanted."""

    text: str
    limit: int
    threshold: float


class NearThread(msgspec.Struct, frozen=True, array_like=True):
    """A thread near the query in meaning, and the passage that is nearest."""

    thread_id: str
    passage: str
    meaning: float


class Candidate(NamedTuple):
    """A post that contains some of the words. The better of two is the larger."""

    score: float
    """By BM25."""
    thread_id: str
    seq: int
    """0 for the thread's own title and body, else the number of the reply."""


class ByText(NamedTuple):
    """The threads that contain some of the words."""

    threads: list[str]
    """By their best post, best first."""
    replies: dict[str, int]
    """The reply of each that matches best, if any does."""
    whole: bool
    """Whether no other thread contains any of the words."""


class RankedThread(msgspec.Struct, frozen=True, array_like=True):
    """A thread that reaches the threshold."""

    thread_id: str
    score: float
    mode: Mode
    """By which of the two scores it does."""
    passage: str
    """The passage nearest in meaning; empty if none is known."""
    reply: int = 0
    """The reply that matches best by text; 0 if none does."""


class RankedThreads(msgspec.Struct, frozen=True, array_like=True):
    """Matches in order, and whether meaning was looked at."""

    matches: list[RankedThread]
    mode: Literal["both", "text"]


def meaning_of(cosine: float) -> float:
    """The score by meaning, 0..1."""
    return min(1.0, max(0.0, (1 + cosine) / 2))


def by_text(own: Sequence[Candidate], replies: Sequence[Candidate]) -> ByText:
    """The list by text, from the best threads by their own text and the best replies."""
    whole = len(own) < CANDIDATES and len(replies) < REPLY_CANDIDATES
    threads: dict[str, None] = {}
    best: dict[str, int] = {}
    for post in sorted([*own, *replies], reverse=True):
        if post.thread_id in threads or len(threads) < CANDIDATES:
            threads[post.thread_id] = None
            if post.seq:
                best.setdefault(post.thread_id, post.seq)
    return ByText(list(threads), best, whole and len(threads) < CANDIDATES)


def candidates(text: ByText, nearest: Iterable[NearThread]) -> list[str]:
    """The threads that may contain some of the words: those found by text, and unless these are all, those near in
    meaning."""
    return text.threads if text.whole else list(dict.fromkeys([*text.threads, *(each.thread_id for each in nearest)]))


def ranked(
    request: SearchRequest,
    nearest: Sequence[NearThread],
    text: ByText,
    others: Iterable[NearThread],
    shares: Mapping[str, float],
    least: float = 0.0,
) -> list[RankedThread]:
    """The threads that reach the threshold, best first, at most `limit`.

    `nearest` is the list by meaning, best first, `text` that by text; `others` says how near threads are that are in
    the latter only. `shares` are those of the query's terms that threads contain, at least `least` for each found by
    text. The score is the better of meaning and share. The order is that of the reciprocal ranks in the two lists, each
    weighted by the square of its score, so that a good rank among bad matches counts for little; then by score, then
    the newer thread first.
    """
    near = {each.thread_id: each for each in (*others, *nearest)}
    meaning_ranks = {each.thread_id: rank for rank, each in enumerate(nearest, 1)}
    text_ranks = {thread: rank for rank, thread in enumerate(text.threads, 1)}
    found: list[tuple[float, float, str, RankedThread]] = []
    for thread in meaning_ranks | text_ranks:
        known = near.get(thread)
        meaning = known.meaning if known else 0.0
        share = max(shares.get(thread, 0.0), least if thread in text_ranks else 0.0)
        score = max(meaning, share)
        if score < request.threshold:
            continue
        weight = _reciprocal(meaning_ranks.get(thread)) * meaning**2 + _reciprocal(text_ranks.get(thread)) * share**2
        mode = _mode(known is not None and meaning >= request.threshold, 0 < share >= request.threshold)
        passage = known.passage if known else ""
        match = RankedThread(thread, round(score, 6), mode, passage, text.replies.get(thread, 0))
        found.append((weight, score, thread, match))
    found.sort(key=lambda entry: entry[:3], reverse=True)
    return [match for *_, match in found[: request.limit]]


def _reciprocal(rank: int | None) -> float:
    return 1 / (RECIPROCAL + rank) if rank else 0.0


def _mode(by_meaning: bool, by_text: bool) -> Mode:
    if by_meaning and by_text:
        return "both"
    return "text" if by_text else "meaning"
